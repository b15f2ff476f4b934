#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"
#include "tensor/weight.h"

// Bit formats and quantisers of DeepSeek-V4.1, scalar and exact: the definition that
// every backend is compared with.
namespace di {

// --- single values ----------------------------------------------------------

[[nodiscard]] inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
// Round to nearest even; NaN stays NaN.
[[nodiscard]] inline uint16_t f32_to_bf16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) {
        return static_cast<uint16_t>((bits >> 16) | 0x40U);
    }
    return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
// The value after a trip through bf16.
[[nodiscard]] inline float round_bf16(float value) { return bf16_to_f32(f32_to_bf16(value)); }

[[nodiscard]] float f16_to_f32(uint16_t bits);
// Round to nearest even, saturates at +-65504 (infinity too); NaN gives 0x7E00 with its sign.
[[nodiscard]] uint16_t f32_to_f16(float value);

[[nodiscard]] float e4m3_to_f32(uint8_t code);
// Round to nearest even, saturates at +-448; NaN gives 0x7F.
[[nodiscard]] uint8_t f32_to_e4m3(float value);

// 2^(code - 127); 255 is NaN.
[[nodiscard]] float e8m0_to_f32(uint8_t code);

// code 0..15; code 8 (minus zero) reads as 0.
[[nodiscard]] float e2m1_to_f32(uint8_t code);
// To nearest, ties to the even code, saturates at +-6.
[[nodiscard]] uint8_t f32_to_e2m1(float value);

// E8M0 code of the smallest power of two >= value (value > 0, finite).
[[nodiscard]] uint8_t e8m0_ceil(float value);

// --- rows in the cache and activation formats -----------------------------------

// How a cache keeps one row of `dim` values. Data bytes and scale bytes are kept apart so that
// a page may gather the scales of its rows.
enum class RowFormat : uint8_t {
    kF32,    // plain: kv_quant off
    kFp8,    // e4m3, one UE8M0 scale per 32 (window KV, compressed KV without FP4, activations)
    kNvfp4,  // e2m1, one e4m3 scale per 16 (compressed KV)
    kMxfp4,  // e2m1, one UE8M0 scale per 32 (index keys and queries)
    kF16,    // IEEE half, saturated: keys and values of dense attention
};

[[nodiscard]] int64_t row_data_bytes(RowFormat format, int64_t dim);
[[nodiscard]] int64_t row_scale_bytes(RowFormat format, int64_t dim);
[[nodiscard]] inline int64_t row_bytes(RowFormat format, int64_t dim) {
    return row_data_bytes(format, dim) + row_scale_bytes(format, dim);
}

// Quantises one row. dim % 32 == 0 (kNvfp4: % 16). `scale` is unused for kF32 and kF16.
void quantise_row(RowFormat format, std::span<const float> values, uint8_t* data, uint8_t* scale);
void dequantise_row(RowFormat format, const uint8_t* data, const uint8_t* scale, std::span<float> values);
// values <- dequantise(quantise(values)).
void fake_quantise_row(RowFormat format, std::span<float> values);

// --- weights ------------------------------------------------------------------

// Columns [first, first + values.size()) of row `row` as floats (exact).
void dequantise_weight_row(const Weight& weight, int64_t row, int64_t first, std::span<float> values);

}  // namespace di
