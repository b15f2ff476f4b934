#include "tensor/block_quant.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "tensor/quant.h"

namespace di {

namespace {

constexpr size_t kSmallBlock = 32;   // values of the simple types
constexpr size_t kSuperBlock = 256;  // values of the K types

// Codes of IQ4_NL stand for these multiples of the scale.
constexpr std::array<int8_t, 16> kIq4NlValues{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// E2M1 doubled, so that the table holds integers; the scale is halved instead. Code 8 reads as plus zero.
constexpr std::array<int8_t, 16> kE2M1Doubled{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float read_f16(const uint8_t* bytes) { return f16_to_f32(static_cast<uint16_t>(bytes[0] | (bytes[1] << 8))); }

// The 4-bit codes of a small block: the first half of the values in the low nibbles, the second in the high ones.
int small_code(const uint8_t* codes, size_t index) {
    const int byte = codes[index % (kSmallBlock / 2)];
    return index < kSmallBlock / 2 ? byte & 15 : byte >> 4;
}

// --- blocks of 32 ---------------------------------------------------------------

// d f16 | codes 16
void dequantise_q4_0(const uint8_t* block, std::span<float> values) {
    const float d = read_f16(block);
    for (size_t i = 0; i < kSmallBlock; ++i) {
        values[i] = d * static_cast<float>(small_code(block + 2, i) - 8);
    }
}

// d f16 | m f16 | codes 16
void dequantise_q4_1(const uint8_t* block, std::span<float> values) {
    const float d = read_f16(block);
    const float m = read_f16(block + 2);
    for (size_t i = 0; i < kSmallBlock; ++i) {
        values[i] = d * static_cast<float>(small_code(block + 4, i)) + m;
    }
}

// Bit `index` of a little-endian bit field, as the fifth bit of a code.
int fifth_bit(const uint8_t* bits, size_t index) { return ((bits[index / 8] >> (index % 8)) & 1) << 4; }

// d f16 | fifth bits 4 | codes 16
void dequantise_q5_0(const uint8_t* block, std::span<float> values) {
    const float d = read_f16(block);
    for (size_t i = 0; i < kSmallBlock; ++i) {
        values[i] = d * static_cast<float>((small_code(block + 6, i) | fifth_bit(block + 2, i)) - 16);
    }
}

// d f16 | m f16 | fifth bits 4 | codes 16
void dequantise_q5_1(const uint8_t* block, std::span<float> values) {
    const float d = read_f16(block);
    const float m = read_f16(block + 2);
    for (size_t i = 0; i < kSmallBlock; ++i) {
        values[i] = d * static_cast<float>(small_code(block + 8, i) | fifth_bit(block + 4, i)) + m;
    }
}

// d f16 | codes i8 32
void dequantise_q8_0(const uint8_t* block, std::span<float> values) {
    const float d = read_f16(block);
    for (size_t i = 0; i < kSmallBlock; ++i) {
        values[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * d;
    }
}

// d f16 | codes 16
void dequantise_iq4_nl(const uint8_t* block, std::span<float> values) {
    const float d = read_f16(block);
    for (size_t i = 0; i < kSmallBlock; ++i) {
        values[i] = d * static_cast<float>(kIq4NlValues[static_cast<size_t>(small_code(block + 2, i))]);
    }
}

// Half of 2^(code - 127). GGUF has no NaN here: 255 continues the row of powers.
float half_e8m0(uint8_t code) {
    return std::bit_cast<float>(code < 2 ? 0x00200000U << code : static_cast<uint32_t>(code - 1) << 23);
}

// e UE8M0 | codes 16
void dequantise_mxfp4(const uint8_t* block, std::span<float> values) {
    const float d = half_e8m0(block[0]);
    for (size_t i = 0; i < kSmallBlock; ++i) {
        values[i] = d * static_cast<float>(kE2M1Doubled[static_cast<size_t>(small_code(block + 1, i))]);
    }
}

// --- blocks of 256 --------------------------------------------------------------

// 2-bit codes: 128 values share 32 bytes, 32 of them one pair of bits.
int two_bits(const uint8_t* codes, size_t index) {
    return (codes[index / 128 * 32 + index % 32] >> (2 * (index / 32 % 4))) & 3;
}

// 4-bit codes: 64 values share 32 bytes, 32 of them one nibble.
int four_bits(const uint8_t* codes, size_t index) {
    return (codes[index / 64 * 32 + index % 32] >> (4 * (index / 32 % 2))) & 15;
}

// One bit of each value: 32 bytes, bit b of which belongs to values 32 b to 32 b + 31.
int one_bit(const uint8_t* bits, size_t index) { return (bits[index % 32] >> (index / 32)) & 1; }

// scale and minimum 4+4 bits, of 16 values each | codes 64 | d f16 | dmin f16
void dequantise_q2_k(const uint8_t* block, std::span<float> values) {
    const uint8_t* codes = block + 16;
    const float d = read_f16(block + 80);
    const float dmin = read_f16(block + 82);
    for (size_t i = 0; i < kSuperBlock; ++i) {
        const float scale = d * static_cast<float>(block[i / 16] & 15);
        const float minimum = dmin * static_cast<float>(block[i / 16] >> 4);
        values[i] = scale * static_cast<float>(two_bits(codes, i)) - minimum;
    }
}

// third bits 32 | codes 64 | 16 scales of 6 bits in 12 bytes: low nibbles in the first 8, pairs of high bits in the last 4 | d f16
void dequantise_q3_k(const uint8_t* block, std::span<float> values) {
    const uint8_t* codes = block + 32;
    const uint8_t* scales = block + 96;
    const float d = read_f16(block + 108);
    for (size_t i = 0; i < kSuperBlock; ++i) {
        const size_t group = i / 16;
        const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
        const int high = (scales[8 + group % 4] >> (2 * (group / 4))) & 3;
        const float scale = d * static_cast<float>((low | (high << 4)) - 32);
        // A set bit means that nothing is subtracted.
        const int code = two_bits(codes, i) - (one_bit(block, i) == 1 ? 0 : 4);
        values[i] = scale * static_cast<float>(code);
    }
}

struct ScaleAndMinimum {
    int scale = 0;
    int minimum = 0;
};

// Eight pairs of 6 bits in 12 bytes: the first four pairs in bytes 0-3 and 4-7, which lend their upper two bits to the
// last four, whose lower bits are the nibbles of bytes 8-11.
ScaleAndMinimum unpack_six_bits(const uint8_t* packed, size_t group) {
    if (group < 4) {
        return {.scale = packed[group] & 63, .minimum = packed[group + 4] & 63};
    }
    return {.scale = (packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4),
            .minimum = (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4)};
}

// d f16 | dmin f16 | scales and minimums 12, of 32 values each | codes 128
void dequantise_q4_k(const uint8_t* block, std::span<float> values) {
    const float d = read_f16(block);
    const float dmin = read_f16(block + 2);
    for (size_t i = 0; i < kSuperBlock; ++i) {
        const ScaleAndMinimum group = unpack_six_bits(block + 4, i / 32);
        const float scale = d * static_cast<float>(group.scale);
        values[i] = scale * static_cast<float>(four_bits(block + 16, i)) - dmin * static_cast<float>(group.minimum);
    }
}

// d f16 | dmin f16 | scales and minimums 12, of 32 values each | fifth bits 32 | codes 128
void dequantise_q5_k(const uint8_t* block, std::span<float> values) {
    const float d = read_f16(block);
    const float dmin = read_f16(block + 2);
    for (size_t i = 0; i < kSuperBlock; ++i) {
        const ScaleAndMinimum group = unpack_six_bits(block + 4, i / 32);
        const float scale = d * static_cast<float>(group.scale);
        const int code = four_bits(block + 48, i) | (one_bit(block + 16, i) << 4);
        values[i] = scale * static_cast<float>(code) - dmin * static_cast<float>(group.minimum);
    }
}

// low nibbles 128: 128 values share 64 bytes, 64 of them one nibble | upper pairs of bits 64 | scales i8 16, of 16 values | d f16
void dequantise_q6_k(const uint8_t* block, std::span<float> values) {
    const uint8_t* scales = block + 192;
    const float d = read_f16(block + 208);
    for (size_t i = 0; i < kSuperBlock; ++i) {
        const float scale = d * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
        const int low = (block[i / 128 * 64 + i % 64] >> (4 * (i / 64 % 2))) & 15;
        const int code = (low | (two_bits(block + 128, i) << 4)) - 32;
        values[i] = scale * static_cast<float>(code);
    }
}

}  // namespace

void dequantise_block(DType dtype, const uint8_t* block, std::span<float> values) {
    DI_CHECK(static_cast<int64_t>(values.size()) == dtype_block(dtype).values, "a block is decoded as a whole");
    switch (dtype) {
        case DType::kQ4_0: dequantise_q4_0(block, values); return;
        case DType::kQ4_1: dequantise_q4_1(block, values); return;
        case DType::kQ5_0: dequantise_q5_0(block, values); return;
        case DType::kQ5_1: dequantise_q5_1(block, values); return;
        case DType::kQ8_0: dequantise_q8_0(block, values); return;
        case DType::kQ2_K: dequantise_q2_k(block, values); return;
        case DType::kQ3_K: dequantise_q3_k(block, values); return;
        case DType::kQ4_K: dequantise_q4_k(block, values); return;
        case DType::kQ5_K: dequantise_q5_k(block, values); return;
        case DType::kQ6_K: dequantise_q6_k(block, values); return;
        case DType::kIq4Nl: dequantise_iq4_nl(block, values); return;
        case DType::kMxfp4: dequantise_mxfp4(block, values); return;
        case DType::kF32:
        case DType::kBF16:
        case DType::kF16:
        case DType::kF8E4M3:
        case DType::kF8E8M0:
        case DType::kF4E2M1:
        case DType::kU8:
        case DType::kI8:
        case DType::kI16:
        case DType::kI32:
        case DType::kI64: break;
    }
    DI_CHECK(false, "only block types are decoded by the block");
}

void dequantise_block_row(DType dtype, const uint8_t* row, int64_t first, std::span<float> values) {
    const DTypeBlock block = dtype_block(dtype);
    std::array<float, kSuperBlock> whole{};
    const std::span<float> decoded(whole.data(), static_cast<size_t>(block.values));
    while (!values.empty()) {
        const int64_t skipped = first % block.values;
        const auto count = std::min(values.size(), static_cast<size_t>(block.values - skipped));
        dequantise_block(dtype, row + first / block.values * block.bytes, decoded);
        std::copy_n(decoded.begin() + skipped, count, values.begin());
        values = values.subspan(count);
        first += static_cast<int64_t>(count);
    }
}

}  // namespace di
