#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"

// What contract_test.cpp runs: operations on made-up rows, each with its own context, that can be computed in any
// selection and order of rows. Every list of cases is one file contract_*_test.cpp.
namespace di::contract {

// One row's results: floats as they are, integers as exact floats.
using RowResult = std::vector<float>;

struct OpCase {
    std::string name;
    int row_count;
    // Results of the rows listed, in that order, computed in one call.
    std::function<std::vector<RowResult>(Backend& backend, const std::vector<int>& rows)> run;
    // Largest difference from `ref`, relative to the largest value; 0 = equal bits.
    float tolerance = 1e-5F;
    // The same with rounded activations: a flip of a bf16 result, or of an intermediate value on its way.
    float tolerance_bf16 = 8e-3F;
};

[[nodiscard]] std::vector<OpCase> linear_cases();
[[nodiscard]] std::vector<OpCase> row_cases();
[[nodiscard]] std::vector<OpCase> attention_cases();
[[nodiscard]] std::vector<OpCase> index_cases();
[[nodiscard]] std::vector<OpCase> expert_cases();

// True where a full sweep would take minutes: under an emulator (DEEPINFER_CONTRACT_SWEEP=small).
[[nodiscard]] bool is_small_sweep();

// Seeded numbers. All are exactly bf16, so that both backends start from equal inputs in both activation modes.
class Numbers {
  public:
    explicit Numbers(uint32_t seed) : engine_(seed) {}

    [[nodiscard]] int64_t below(int64_t limit) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(limit)); }
    // About normal, times `scale`.
    [[nodiscard]] float real(float scale = 1.0F) {
        float sum = 0.0F;
        for (int i = 0; i < 4; ++i) {
            sum += static_cast<float>(engine_() & 0xffffU) / 65536.0F - 0.5F;
        }
        return round_bf16(sum * 1.7F * scale);
    }
    [[nodiscard]] std::vector<float> reals(int64_t count, float scale = 1.0F) {
        std::vector<float> values(static_cast<size_t>(count));
        for (float& value : values) {
            value = real(scale);
        }
        return values;
    }
    // -2, -1.5, ... 2: sums of products of such are exact in any order, and often equal.
    [[nodiscard]] std::vector<float> halves(int64_t count) {
        std::vector<float> values(static_cast<size_t>(count));
        for (float& value : values) {
            value = static_cast<float>(below(9) - 4) * 0.5F;
        }
        return values;
    }
    [[nodiscard]] std::vector<uint16_t> bf16s(int64_t count, float scale = 1.0F) {
        std::vector<uint16_t> values(static_cast<size_t>(count));
        for (uint16_t& value : values) {
            value = f32_to_bf16(real(scale));
        }
        return values;
    }
    [[nodiscard]] uint8_t byte() { return static_cast<uint8_t>(engine_() & 0xffU); }

  private:
    std::mt19937 engine_;
};

// A weight in memory of its own whose data starts at an odd address.
struct OwnedWeight {
    Weight weight;
    std::vector<uint8_t> data;
    std::vector<uint8_t> scale;

    OwnedWeight(Numbers& numbers, DType dtype, ScaleLayout layout, int64_t rows, int64_t cols);
    OwnedWeight(const OwnedWeight&) = delete;
    OwnedWeight& operator=(const OwnedWeight&) = delete;
};

// A weight that holds exactly `values` [rows, cols] (each a bf16).
[[nodiscard]] std::shared_ptr<OwnedWeight> bf16_weight(const std::vector<float>& values, int64_t rows, int64_t cols);

// Rows of `all` ([n, row size], dense) picked into a new dense array.
template <typename T>
std::vector<T> pick(const std::vector<T>& all, int64_t row_size, const std::vector<int>& rows) {
    std::vector<T> picked;
    picked.reserve(rows.size() * static_cast<size_t>(row_size));
    for (const int row : rows) {
        picked.insert(picked.end(), all.begin() + row * row_size, all.begin() + (row + 1) * row_size);
    }
    return picked;
}

// [values] -> one result a row.
template <typename T>
std::vector<RowResult> split(const std::vector<T>& values, size_t row_count) {
    std::vector<RowResult> results(row_count);
    const size_t size = row_count == 0 ? 0 : values.size() / row_count;
    for (size_t row = 0; row < row_count; ++row) {
        for (size_t i = 0; i < size; ++i) {
            results[row].push_back(static_cast<float>(values[row * size + i]));
        }
    }
    return results;
}

[[nodiscard]] inline Tensor view(std::vector<float>& values, std::initializer_list<int64_t> dims) {
    return {values.data(), DType::kF32, dims};
}
[[nodiscard]] inline Tensor view(std::vector<int32_t>& values, std::initializer_list<int64_t> dims) {
    return {values.data(), DType::kI32, dims};
}
[[nodiscard]] inline Tensor view(std::vector<uint16_t>& values, std::initializer_list<int64_t> dims) {
    return {values.data(), DType::kBF16, dims};
}
[[nodiscard]] inline Tensor view(std::vector<uint8_t>& values, std::initializer_list<int64_t> dims) {
    return {values.data(), DType::kU8, dims};
}

// A cache of blocks with data and scales of a block kept apart, like the block pool's.
struct OwnedCache {
    std::vector<uint8_t> memory;
    CacheView view;

    OwnedCache(RowFormat format, int64_t dim, int64_t blocks, int64_t rows_per_block);
    void put(int64_t block, int64_t row, std::span<const float> values);
};

}  // namespace di::contract
