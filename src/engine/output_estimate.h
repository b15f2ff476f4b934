#pragma once

#include <array>
#include <cstdint>

namespace di {

// How long answers become: a quantile of the latest ones, for admission. Until enough have ended, a guess.
class OutputEstimate {
  public:
    void record(int64_t output_tokens);
    // Output tokens that most answers stay below.
    [[nodiscard]] int64_t tokens() const { return estimate_; }

  private:
    static constexpr int64_t kKept = 256;      // answers that count
    static constexpr int64_t kEnough = 16;     // before that, the guess
    static constexpr int64_t kGuess = 128;     // one block of the usual size
    static constexpr double kQuantile = 0.75;  // a heavy tail above it is what preemption is for

    std::array<int64_t, kKept> lengths_{};
    int64_t count_ = 0;
    int64_t estimate_ = kGuess;
};

}  // namespace di
