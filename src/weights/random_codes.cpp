#include "weights/random_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "tensor/quant.h"

namespace di {

namespace {

// FNV-1a: streams of different tensors differ.
uint64_t hash_of(std::string_view text) {
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (const char c : text) {
        hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
    }
    return hash;
}

// round(log2(value)), from the bits: the same on every machine.
int nearest_exponent(double value) {
    int exponent = 0;
    const double mantissa = std::frexp(value, &exponent);  // in [0.5, 1)
    return mantissa >= 0.70710678118654752 ? exponent : exponent - 1;
}

// Root mean square of the patterns: a mantissa 1.m has a mean square of 7/3 (in 3 bits 2.148), four exponents 0, -1, -2, -3
// give (1 + 1/4 + 1/16 + 1/64) / 4 = 0.332; the sixteen E2M1 codes 68.5 / 8.
constexpr double kFloatPatternRms = 0.880;  // relative to the largest exponent
constexpr double kE4M3PatternRms = 0.845;   // largest exponent 0
constexpr double kE2M1PatternRms = 2.926;

constexpr int32_t kF32Bias = 127;

CodePattern constant_scale(double deviation, double pattern_rms) {
    const int byte = std::clamp(127 + nearest_exponent(deviation / pattern_rms), 0, 254);
    return {CodeKind::kConstant, byte};
}

// Keeps sign, two exponent bits and the mantissa of each random lane, and adds the smallest exponent.
struct LaneRule {
    uint64_t keep = 0;
    uint64_t add = 0;
};

LaneRule lane_rule(const CodePattern& pattern) {
    const auto smallest = static_cast<uint64_t>(std::max(pattern.parameter - 3, 0));
    switch (pattern.kind) {
        case CodeKind::kF32: return {0x81ffffff81ffffffULL, (smallest << 23) * 0x0000000100000001ULL};
        case CodeKind::kBF16: return {0x81ff81ff81ff81ffULL, (smallest << 7) * 0x0001000100010001ULL};
        // Exponent fields 4 to 7: 2^-3 to 2^0.
        case CodeKind::kF8E4M3: return {0x9f9f9f9f9f9f9f9fULL, 0x2020202020202020ULL};
        case CodeKind::kFp4: return {~uint64_t{0}, 0};
        case CodeKind::kConstant: return {0, static_cast<uint64_t>(pattern.parameter) * 0x0101010101010101ULL};
    }
    return {};
}

// Sum of four uniform 16-bit numbers, scaled to mean 0 and deviation 1: normal enough, bounded by 3.5, and exact.
double normal_of(uint64_t word) {
    int64_t sum = 0;
    for (int i = 0; i < 4; ++i) {
        sum += static_cast<int64_t>((word >> (16 * i)) & 0xffffU);
    }
    constexpr double kMean = 4 * 65535.0 / 2;
    constexpr double kDeviation = 37837.2;  // sqrt(4 * (2^32 - 1) / 12)
    return (static_cast<double>(sum) - kMean) / kDeviation;
}

double draw(Initial initial, double deviation, uint64_t word) {
    switch (initial) {
        case Initial::kNearOne: return 1.0 + deviation * normal_of(word);
        case Initial::kScale: return 0.5 + static_cast<double>(word >> 40) * 0x1p-24;
        case Initial::kLinear:
        case Initial::kUnit:
        case Initial::kTenth:
        case Initial::kHalf:
        case Initial::kThird: return deviation * normal_of(word);
    }
    return 0.0;
}

}  // namespace

RandomWords::RandomWords(uint64_t seed, uint64_t stream) {
    uint64_t x = seed ^ (stream * 0x9e3779b97f4a7c15ULL);
    for (uint64_t& word : state_) {
        x += 0x9e3779b97f4a7c15ULL;
        uint64_t z = x;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        word = z ^ (z >> 31);
    }
}

uint64_t RandomWords::next() {
    const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
}

double initial_deviation(const ExpectedTensor& tensor) {
    switch (tensor.initial) {
        case Initial::kLinear: return 1.0 / std::sqrt(static_cast<double>(tensor.cols));
        case Initial::kUnit: return 1.0;
        case Initial::kNearOne:
        case Initial::kTenth: return 0.1;
        case Initial::kHalf: return 0.5;
        case Initial::kThird: return 0.3;
        case Initial::kScale: return 0.29;
    }
    return 1.0;
}

CodeChoice choose_codes(const StoredForm& form, double deviation) {
    const int32_t exponent = kF32Bias + nearest_exponent(deviation / kFloatPatternRms);
    switch (form.dtype) {
        case DType::kF32: return {{CodeKind::kF32, exponent}, {}};
        case DType::kBF16: return {{CodeKind::kBF16, exponent}, {}};
        case DType::kF8E4M3: return {{CodeKind::kF8E4M3, 0}, constant_scale(deviation, kE4M3PatternRms)};
        case DType::kI8: return {{CodeKind::kFp4, 0}, constant_scale(deviation, kE2M1PatternRms)};
        case DType::kF16:
        case DType::kF8E8M0:
        case DType::kF4E2M1:
        case DType::kU8:
        case DType::kI16:
        case DType::kI32:
        case DType::kI64:
        case DType::kQ4_0:
        case DType::kQ4_1:
        case DType::kQ5_0:
        case DType::kQ5_1:
        case DType::kQ8_0:
        case DType::kQ2_K:
        case DType::kQ3_K:
        case DType::kQ4_K:
        case DType::kQ5_K:
        case DType::kQ6_K:
        case DType::kIq4Nl:
        case DType::kMxfp4: break;
    }
    DI_CHECK(false, "official weights are F32, BF16, F8_E4M3 or I8");
    return {};
}

PatternSource::PatternSource(const CodePattern& pattern, uint64_t seed)
    : random_(seed, static_cast<uint64_t>(pattern.kind) * 256 + static_cast<uint64_t>(pattern.parameter) + 1) {
    const LaneRule rule = lane_rule(pattern);
    keep_ = rule.keep;
    add_ = rule.add;
}

void PatternSource::fill(std::span<uint8_t> bytes) {
    DI_CHECK(bytes.size() % 8 == 0, "a pattern is made of 8-byte words");
    RandomWords random = random_;  // in registers while the loop runs
    for (size_t i = 0; i < bytes.size(); i += 8) {
        const uint64_t word = (random.next() & keep_) + add_;
        std::memcpy(&bytes[i], &word, 8);  // little-endian, as every machine we run on
    }
    random_ = random;
}

void fill_vector(const ExpectedTensor& tensor, uint64_t seed, DType dtype, std::span<uint8_t> bytes) {
    DI_CHECK(dtype == DType::kBF16 || dtype == DType::kF32, "vectors are BF16 or F32");
    RandomWords random(seed, hash_of(tensor.name));
    const double deviation = initial_deviation(tensor);
    const size_t count = static_cast<size_t>(tensor.rows * tensor.cols);
    for (size_t i = 0; i < count; ++i) {
        const auto value = static_cast<float>(draw(tensor.initial, deviation, random.next()));
        if (dtype == DType::kF32) {
            std::memcpy(&bytes[i * 4], &value, 4);
        } else {
            const uint16_t bits = f32_to_bf16(value);
            std::memcpy(&bytes[i * 2], &bits, 2);
        }
    }
}

}  // namespace di
