#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <gtest/gtest.h>

#include "base/token_mask.h"

namespace di {

// Allows 1, 2, 3, ... one after the other, then the end.
class CountingMask : public TokenMask {
  public:
    static constexpr int32_t kEnd = 31;

    explicit CountingMask(int32_t last) : last_(last) {}
    bool accept(int32_t token_id) override {
        if (is_finished_ || token_id != (next_ > last_ ? kEnd : next_)) {
            return false;
        }
        is_finished_ = token_id == kEnd;
        next_ += is_finished_ ? 0 : 1;
        return true;
    }
    void rollback(int32_t count) override {
        if (is_finished_ && count > 0) {
            is_finished_ = false;
            --count;
        }
        next_ -= count;
        ASSERT_GE(next_, 1);
    }
    bool fill(std::span<uint32_t> words) override {
        words[0] = is_finished_ ? 0U : 1U << static_cast<uint32_t>(next_ > last_ ? kEnd : next_);
        return true;
    }
    [[nodiscard]] bool is_finished() const override { return is_finished_; }
    [[nodiscard]] std::unique_ptr<TokenMask> clone() const override { return std::make_unique<CountingMask>(*this); }

  private:
    int32_t last_;
    int32_t next_ = 1;
    bool is_finished_ = false;
};

}  // namespace di
