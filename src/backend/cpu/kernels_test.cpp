#include "backend/cpu/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/cpu/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace di::cpu {
namespace {

constexpr int64_t kOutputs = 77;  // whole tiles, half tiles and single outputs
constexpr int64_t kCols = 256;
constexpr int64_t kStripRows = 5;  // decodes strips: the plain way

// Quantised weights with every code in them.
struct Quantised {
    std::vector<uint8_t> data;
    std::vector<uint8_t> scale;
    WeightRows rows;

    Quantised(WeightFormat format, int scale_low, int scale_high, std::mt19937& random) {
        const bool is_fp8 = format == WeightFormat::kFp8;
        rows = {.format = format, .row_bytes = is_fp8 ? kCols : kCols / 2};
        rows.scale_row_codes = kCols / 32;
        rows.scale_row_shift = is_fp8 ? 5 : 0;
        data.resize(static_cast<size_t>(kOutputs * rows.row_bytes));
        scale.resize(static_cast<size_t>((((kOutputs - 1) >> rows.scale_row_shift) + 1) * rows.scale_row_codes));
        for (uint8_t& byte : data) {
            byte = static_cast<uint8_t>(random() & 0xff);
        }
        for (uint8_t& code : scale) {
            code = static_cast<uint8_t>(scale_low +
                                        static_cast<int>(random() % static_cast<uint32_t>(scale_high - scale_low + 1)));
        }
        rows.data = data.data();
        rows.scale = scale.data();
    }
};

// Outputs of the first of `row_count` equal rows, in pieces of `piece` outputs.
std::vector<float> product(const Kernels& kernels, const WeightRows& weight, const std::vector<float>& x, int64_t row_count,
                           int64_t piece) {
    std::vector<std::vector<float>> results(static_cast<size_t>(row_count), std::vector<float>(kOutputs));
    std::vector<const float*> inputs(results.size(), x.data());
    std::vector<float*> outputs;
    for (std::vector<float>& result : results) {
        outputs.push_back(result.data());
    }
    std::vector<float> strip(static_cast<size_t>(kOutputs * kCols));
    for (int64_t first = 0; first < kOutputs; first += piece) {
        kernels.linear({.inputs = inputs.data(),
                        .outputs = outputs.data(),
                        .rows = row_count,
                        .k = kCols,
                        .weight = weight,
                        .first = first,
                        .count = std::min(piece, kOutputs - first),
                        .strip = strip.data(),
                        .strip_rows = kOutputs});
    }
    return results.front();
}

void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
    for (size_t i = 0; i < want.size(); ++i) {
        const bool are_nan = std::isnan(got[i]) && std::isnan(want[i]);
        ASSERT_TRUE(are_nan || std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(want[i]))
            << what << ", output " << i << ": " << got[i] << " against " << want[i];
    }
}

// Inputs on both sides of every limit of the fast ways.
std::vector<float> inputs_of(int exponent_low, int exponent_high, std::mt19937& random) {
    std::vector<float> x(kCols);
    for (float& value : x) {
        const int exponent =
            exponent_low + static_cast<int>(random() % static_cast<uint32_t>(exponent_high - exponent_low + 1));
        const float mantissa = 1.0F + static_cast<float>(random() % 1024U) / 1024.0F;
        value = std::ldexp(random() % 2U == 0 ? mantissa : -mantissa, exponent);
    }
    return x;
}

struct Range {
    int scale_low, scale_high;        // codes
    int exponent_low, exponent_high;  // of the inputs
};
constexpr Range kRanges[] = {
    {110, 122, -6, 3},     // a usual layer
    {0, 30, -149, -100},   // everything tiny
    {125, 140, -3, 12},    // around the largest scale that goes onto the row
    {100, 133, -20, 127},  // inputs up to the largest number
    {200, 254, -40, 40},   // products that overflow
};

TEST(CpuKernels, OneRowHasTheBitsOfManyWhateverTheSizes) {
    const uint32_t seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (const std::string& isa : available_isas()) {
        const Kernels& kernels = **choose_kernels(isa);
        for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kFp4}) {
            for (const Range& range : kRanges) {
                const Quantised weight(format, range.scale_low, range.scale_high, random);
                const std::vector<float> x = inputs_of(range.exponent_low, range.exponent_high, random);
                const std::string what = isa + ", scales " + std::to_string(range.scale_low);
                const std::vector<float> want = product(kernels, weight.rows, x, kStripRows, kOutputs);
                for (const int64_t piece : {int64_t{8}, int64_t{12}, kOutputs}) {
                    expect_same_bits(product(kernels, weight.rows, x, 1, piece), want, what);
                }
                expect_same_bits(product(kernels, weight.rows, x, 3, kOutputs), want, what);
            }
        }
    }
}

TEST(CpuKernels, InputsThatAreNoNumbersSpoilOnlyWhatTheyTouch) {
    std::mt19937 random(1);
    for (const std::string& isa : available_isas()) {
        const Kernels& kernels = **choose_kernels(isa);
        const Quantised weight(WeightFormat::kFp8, 110, 122, random);
        std::vector<float> x = inputs_of(-6, 3, random);
        for (const float bad : {std::nanf(""), INFINITY}) {
            x[40] = bad;
            expect_same_bits(product(kernels, weight.rows, x, 1, kOutputs),
                             product(kernels, weight.rows, x, kStripRows, kOutputs), isa);
        }
    }
}

#if defined(__x86_64__)
// A program around the library may have told the processor to take subnormal operands as zero.
TEST(CpuKernels, SubnormalCodesCountWhereTheProcessorDropsSubnormals) {
    std::mt19937 random(2);
    for (const std::string& isa : available_isas()) {
        const Kernels& kernels = **choose_kernels(isa);
        Quantised weight(WeightFormat::kFp8, 110, 122, random);
        for (uint8_t& byte : weight.data) {
            byte &= 0x87;  // zero and subnormals only
        }
        const std::vector<float> x = inputs_of(-6, 3, random);
        const std::vector<float> want = product(kernels, weight.rows, x, 1, kOutputs);
        const uint32_t control = _mm_getcsr();
        _mm_setcsr(control | 0x8040U);
        const std::vector<float> got = product(kernels, weight.rows, x, 1, kOutputs);
        _mm_setcsr(control);
        expect_same_bits(got, want, isa);
    }
}
#endif

}  // namespace
}  // namespace di::cpu
