#pragma once

#include <cstdint>
#include <deque>

#include "base/check.h"
#include "base/token_mask.h"

namespace di {

// The states of a mask before each of its last tokens, for TokenMask::rollback().
template <typename State>
class StateHistory {
  public:
    void remember(const State& before) {
        states_.push_back(before);
        if (states_.size() > static_cast<size_t>(kTokenMaskRollbackMax)) {
            states_.pop_front();
        }
    }
    // Takes so many tokens back: `state` becomes what it was before them. How many of them came in a state of which
    // `is_counted` is true: those that a mask behind it has to take back as well.
    template <typename IsCounted>
    [[nodiscard]] int32_t take_back(int32_t count, State& state, const IsCounted& is_counted) {
        DI_CHECK(count >= 0 && static_cast<size_t>(count) <= states_.size(), "a rollback of more tokens than are remembered");
        int32_t counted = 0;
        for (int32_t i = 0; i < count; ++i) {
            state = states_.back();
            states_.pop_back();
            counted += is_counted(state) ? 1 : 0;
        }
        return counted;
    }

  private:
    std::deque<State> states_;  // at most kTokenMaskRollbackMax
};

}  // namespace di
