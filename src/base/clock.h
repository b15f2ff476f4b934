#pragma once

#include <chrono>
#include <cstdint>

namespace di {

// Time is passed in, so that tests and simulations own it. Used from the thread of its owner only.
class Clock {
  public:
    virtual ~Clock() = default;
    // Microseconds since some fixed moment; never goes back.
    [[nodiscard]] virtual int64_t now_us() = 0;
};

class SystemClock : public Clock {
  public:
    [[nodiscard]] int64_t now_us() override {
        const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
        return std::chrono::duration_cast<std::chrono::microseconds>(since_start).count();
    }
};

// Stands still until it is moved.
class ManualClock : public Clock {
  public:
    [[nodiscard]] int64_t now_us() override { return now_us_; }
    void advance_us(int64_t microseconds) { now_us_ += microseconds; }

  private:
    int64_t now_us_ = 0;
};

}  // namespace di
