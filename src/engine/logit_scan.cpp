#include "engine/logit_scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

// Four lanes in the compilers' portable vector types (SSE2, NEON): a plain loop stays scalar at -O2, and every lane
// computes what a scalar would, so the bits do not depend on the width.
namespace di {

namespace {

using Float4 = float __attribute__((vector_size(16)));
using Word4 = uint32_t __attribute__((vector_size(16)));
using Double2 = double __attribute__((vector_size(16)));

Float4 load(const float* values) {
    Float4 result;
    std::memcpy(&result, values, sizeof(result));
    return result;
}

Float4 splat(float value) { return Float4{value, value, value, value}; }

Float4 larger(Float4 left, Float4 right) { return left > right ? left : right; }

// exp(x) for x <= 0; below -87 that of -87, which is next to nothing. Cephes' polynomial, relative error below 2e-7,
// exactly 1 at 0.
Float4 exp_nonpositive(Float4 x) {
    constexpr float kLog2E = 1.44269504F;
    constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: the sum's low bits are the nearest integer
    constexpr uint32_t kRounderBits = 0x4B400000U;
    constexpr float kLn2High = 0.693359375F;
    constexpr float kLn2Low = -2.12194440e-4F;
    x = larger(x, splat(-87.0F));
    const Float4 shifted = x * kLog2E + kRounder;
    const Float4 n = shifted - kRounder;
    const Float4 r = (x - n * kLn2High) - n * kLn2Low;
    Float4 p = splat(1.9875691500E-4F);
    p = p * r + 1.3981999507E-3F;
    p = p * r + 8.3334519073E-3F;
    p = p * r + 4.1665795894E-2F;
    p = p * r + 1.6666665459E-1F;
    p = p * r + 5.0000001201E-1F;
    p = (p * (r * r) + r) + 1.0F;
    const Word4 power_of_two = (reinterpret_cast<Word4>(shifted) - kRounderBits + 127U) << 23;
    return p * reinterpret_cast<Float4>(power_of_two);
}

struct BlockTop {
    float top = 0.0F;
    float fault = 0.0F;  // NaN if a value is not finite, else 0
};

BlockTop scan_block(const float* values) {
    Float4 top0 = load(values);
    Float4 top1 = load(values + 4);
    Float4 fault0 = top0 - top0;
    Float4 fault1 = top1 - top1;
    for (int64_t i = 8; i < kLogitBlock; i += 8) {
        const Float4 next0 = load(values + i);
        const Float4 next1 = load(values + i + 4);
        top0 = larger(next0, top0);
        top1 = larger(next1, top1);
        fault0 += next0 - next0;
        fault1 += next1 - next1;
    }
    top0 = larger(top0, top1);
    fault0 += fault1;
    return {.top = std::max(std::max(top0[0], top0[1]), std::max(top0[2], top0[3])),
            .fault = (fault0[0] + fault0[1]) + (fault0[2] + fault0[3])};
}

BlockTop scan_rest(std::span<const float> values) {
    BlockTop result{.top = values[0], .fault = 0.0F};
    for (const float value : values) {
        result.top = std::max(result.top, value);
        result.fault += value - value;
    }
    return result;
}

}  // namespace

LogitScan::LogitScan(int64_t vocab_size) {
    DI_CHECK(vocab_size > 0 && vocab_size <= std::numeric_limits<int32_t>::max(), "a vocabulary of no usable size");
    block_tops_.resize(static_cast<size_t>((vocab_size + kLogitBlock - 1) / kLogitBlock));
}

void LogitScan::scan(std::span<const float> values) {
    const auto count = static_cast<int64_t>(values.size());
    DI_CHECK((count + kLogitBlock - 1) / kLogitBlock == static_cast<int64_t>(block_tops_.size()),
             "logits of another vocabulary");
    values_ = values;
    float fault = 0.0F;
    largest_ = -std::numeric_limits<float>::infinity();
    for (int64_t index = 0; index < static_cast<int64_t>(block_tops_.size()); ++index) {
        const std::span<const float> part = block(index);
        const BlockTop found = static_cast<int64_t>(part.size()) == kLogitBlock ? scan_block(part.data()) : scan_rest(part);
        block_tops_[static_cast<size_t>(index)] = found.top;
        largest_ = std::max(largest_, found.top);
        fault += found.fault;
    }
    is_finite_ = fault == 0.0F;
}

std::span<const float> LogitScan::block(int64_t block_index) const {
    const auto begin = static_cast<size_t>(block_index * kLogitBlock);
    return values_.subspan(begin, std::min(static_cast<size_t>(kLogitBlock), values_.size() - begin));
}

int32_t LogitScan::arg_max() const {
    const auto top = std::find(block_tops_.begin(), block_tops_.end(), largest_);
    DI_CHECK(top != block_tops_.end(), "no block holds the largest value");
    const int64_t block_index = top - block_tops_.begin();
    const std::span<const float> part = block(block_index);
    const auto place = std::find(part.begin(), part.end(), largest_) - part.begin();
    return static_cast<int32_t>(block_index * kLogitBlock + place);
}

SoftmaxWeights::SoftmaxWeights(float largest, double temperature, int64_t vocab_size) : largest_(largest) {
    // Bounded, so that -inf times it is never NaN.
    inverse_temperature_ = static_cast<float>(std::clamp<double>(1.0 / temperature, std::numeric_limits<float>::min(), 1e30));
    const auto sum_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(vocab_size - 1)));
    rounder_ = std::ldexp(1.5, sum_bits);  // its last place is 2^(sum_bits - 52)
}

double SoftmaxWeights::of(float value) const {
    const Float4 weight = exp_nonpositive((splat(value) - largest_) * inverse_temperature_);
    return (static_cast<double>(weight[0]) + rounder_) - rounder_;
}

void SoftmaxWeights::of_block(std::span<const float> values, std::span<double> result) const {
    size_t i = 0;
    for (; i + 4 <= values.size(); i += 4) {
        const Float4 weight = exp_nonpositive((load(values.data() + i) - largest_) * inverse_temperature_);
        for (size_t lane = 0; lane < 4; ++lane) {
            result[i + lane] = (static_cast<double>(weight[lane]) + rounder_) - rounder_;
        }
    }
    for (; i < values.size(); ++i) {
        result[i] = of(values[i]);
    }
}

double SoftmaxWeights::total(const LogitScan& scan) const {
    double sum = 0.0;
    const std::span<const float> tops = scan.block_tops();
    for (int64_t index = 0; index < static_cast<int64_t>(tops.size()); ++index) {
        if (of(tops[static_cast<size_t>(index)]) == 0.0) {
            continue;
        }
        const std::span<const float> part = scan.block(index);
        if (static_cast<int64_t>(part.size()) == kLogitBlock) {
            sum += block_total(part.data());
            continue;
        }
        for (const float value : part) {
            sum += of(value);
        }
    }
    return sum;
}

double SoftmaxWeights::block_total(const float* values) const {
    Double2 low{};
    Double2 high{};
    for (int64_t i = 0; i < kLogitBlock; i += 4) {
        const Float4 weight = exp_nonpositive((load(values + i) - largest_) * inverse_temperature_);
        const Double2 first{static_cast<double>(weight[0]), static_cast<double>(weight[1])};
        const Double2 second{static_cast<double>(weight[2]), static_cast<double>(weight[3])};
        low += (first + rounder_) - rounder_;
        high += (second + rounder_) - rounder_;
    }
    low += high;
    return low[0] + low[1];
}

}  // namespace di
