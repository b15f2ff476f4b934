#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace di {

// Values of a row looked at together. Whatever follows the first pass skips the blocks whose largest value is too small.
inline constexpr int64_t kLogitBlock = 64;

// What one pass over a row finds out. Holds memory for one row size; reads the row again on demand, so it must stay.
class LogitScan {
  public:
    explicit LogitScan(int64_t vocab_size);

    // `values` [vocab]: finite, or -inf for what may not come.
    void scan(std::span<const float> values);

    [[nodiscard]] std::span<const float> values() const { return values_; }
    // No value is NaN or infinite.
    [[nodiscard]] bool is_finite() const { return is_finite_; }
    [[nodiscard]] float largest() const { return largest_; }
    // The lowest id that has the largest value.
    [[nodiscard]] int32_t arg_max() const;
    // [ceil(vocab / kLogitBlock)] largest value of every block.
    [[nodiscard]] std::span<const float> block_tops() const { return block_tops_; }
    [[nodiscard]] std::span<const float> block(int64_t block_index) const;

  private:
    std::span<const float> values_;
    std::vector<float> block_tops_;
    float largest_ = 0.0F;
    bool is_finite_ = true;
};

// Weights of a softmax, exp((value - largest) / temperature) in float, each rounded to a multiple of a quantum so coarse
// that a double holds the sum of a whole vocabulary exactly: sums do not depend on their order. The quantum is
// 2^-(52 - log2 of the vocabulary, rounded up), 2^-35 for 129,280 tokens; what is less likely than half of it,
// compared with the likeliest token, weighs nothing.
class SoftmaxWeights {
  public:
    SoftmaxWeights(float largest, double temperature, int64_t vocab_size);

    [[nodiscard]] double of(float value) const;
    // Of the values of a block; `result` is at least as long.
    void of_block(std::span<const float> values, std::span<double> result) const;
    [[nodiscard]] double total(const LogitScan& scan) const;

  private:
    [[nodiscard]] double block_total(const float* values) const;

    float largest_ = 0.0F;
    float inverse_temperature_ = 1.0F;
    double rounder_ = 0.0;  // added and taken away again, it leaves a multiple of the quantum
};

}  // namespace di
