#include "tensor/quant.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/block_quant.h"

namespace di {

namespace {

constexpr std::array<float, 8> kE2M1Magnitudes{0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};

std::array<float, 256> make_e4m3_table() {
    std::array<float, 256> table{};
    for (int code = 0; code < 256; ++code) {
        const int exponent = (code >> 3) & 15;
        const int mantissa = code & 7;
        float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                    : std::ldexp(1.0F + static_cast<float>(mantissa) / 8.0F, exponent - 7);
        if ((code & 0x7f) == 0x7f) {
            value = NAN;
        }
        table[static_cast<size_t>(code)] = (code & 0x80) != 0 ? -value : value;
    }
    return table;
}

const std::array<float, 256> kE4M3Table = make_e4m3_table();

float group_amax(std::span<const float> group) {
    float amax = 0.0F;
    for (const float value : group) {
        amax = std::max(amax, std::fabs(value));
    }
    return amax;
}

void put_nibble(uint8_t* data, size_t index, uint8_t code) {
    uint8_t& byte = data[index / 2];
    byte = index % 2 == 0 ? static_cast<uint8_t>((byte & 0xf0) | code) : static_cast<uint8_t>((byte & 0x0f) | (code << 4));
}

uint8_t get_nibble(const uint8_t* data, size_t index) { return index % 2 == 0 ? data[index / 2] & 0x0f : data[index / 2] >> 4; }

// Group size and the floors below are those of section 3.1 of the format notes:
// they keep all-zero groups at a finite scale.
void quantise_fp8(std::span<const float> values, uint8_t* data, uint8_t* scale) {
    for (size_t first = 0; first < values.size(); first += 32) {
        const auto group = values.subspan(first, 32);
        const uint8_t code = e8m0_ceil(std::max(group_amax(group), 1e-4F) / 448.0F);
        const float s = e8m0_to_f32(code);
        scale[first / 32] = code;
        for (size_t i = 0; i < group.size(); ++i) {
            data[first + i] = f32_to_e4m3(group[i] / s);
        }
    }
}

void quantise_mxfp4(std::span<const float> values, uint8_t* data, uint8_t* scale) {
    for (size_t first = 0; first < values.size(); first += 32) {
        const auto group = values.subspan(first, 32);
        const uint8_t code = e8m0_ceil(std::max(group_amax(group), 6.0F * 0x1p-126F) / 6.0F);
        const float s = e8m0_to_f32(code);
        scale[first / 32] = code;
        for (size_t i = 0; i < group.size(); ++i) {
            put_nibble(data, first + i, f32_to_e2m1(group[i] / s));
        }
    }
}

void quantise_nvfp4(std::span<const float> values, uint8_t* data, uint8_t* scale) {
    for (size_t first = 0; first < values.size(); first += 16) {
        const auto group = values.subspan(first, 16);
        const uint8_t code = f32_to_e4m3(std::max(group_amax(group), 6.0F * 0x1p-9F) / 6.0F);
        const float inverse = 1.0F / e4m3_to_f32(code);
        scale[first / 16] = code;
        for (size_t i = 0; i < group.size(); ++i) {
            put_nibble(data, first + i, f32_to_e2m1(group[i] * inverse));
        }
    }
}

}  // namespace

float f16_to_f32(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t exponent = (bits >> 10) & 31U;
    const uint32_t mantissa = bits & 1023U;
    if (exponent == 0) {
        const float value = std::ldexp(static_cast<float>(mantissa), -24);
        return sign != 0 ? -value : value;
    }
    const uint32_t wide = exponent == 31 ? 255U : exponent + 112U;
    return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

uint16_t f32_to_f16(float value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const float magnitude = std::fabs(value);
    if (std::isnan(value)) {
        return sign | 0x7e00;
    }
    if (magnitude >= 65504.0F) {
        return sign | 0x7bff;
    }
    if (magnitude < 0x1p-14F) {
        // Subnormals are multiples of 2^-24; 1024 of them make the smallest normal, whose code follows.
        return sign | static_cast<uint16_t>(std::nearbyintf(magnitude * 0x1p24F));
    }
    uint32_t bits = std::bit_cast<uint32_t>(magnitude);
    bits += 0xfffU + ((bits >> 13) & 1U);
    return sign | static_cast<uint16_t>((bits >> 13) - (112U << 10));
}

float e4m3_to_f32(uint8_t code) { return kE4M3Table[code]; }

uint8_t f32_to_e4m3(float value) {
    if (std::isnan(value)) {
        return 0x7f;
    }
    const uint8_t sign = std::signbit(value) ? 0x80 : 0;
    const float magnitude = std::fabs(value);
    if (magnitude >= 448.0F) {
        return sign | 0x7e;
    }
    if (magnitude < 0x1p-6F) {
        // Subnormals are multiples of 2^-9; 8 of them make the smallest normal, whose code follows.
        return sign | static_cast<uint8_t>(std::nearbyintf(magnitude * 512.0F));
    }
    // Round the mantissa to 3 bits; a carry moves into the exponent by itself.
    uint32_t bits = std::bit_cast<uint32_t>(magnitude);
    bits += 0x7ffffU + ((bits >> 20) & 1U);
    const uint32_t code = (bits >> 20) - (120U << 3);
    return sign | static_cast<uint8_t>(std::min(code, 0x7eU));
}

float e8m0_to_f32(uint8_t code) {
    if (code == 255) {
        return NAN;
    }
    return code == 0 ? 0x1p-127F : std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

float e2m1_to_f32(uint8_t code) {
    const float value = kE2M1Magnitudes[code & 7U];
    return (code & 8U) != 0 && value != 0.0F ? -value : value;
}

uint8_t f32_to_e2m1(float value) {
    const float m = std::fabs(value);
    // Borders between neighbours; a tie goes to the even code.
    uint8_t code = 0;
    if (m > 5.0F) {
        code = 7;
    } else if (m >= 3.5F) {
        code = 6;
    } else if (m > 2.5F) {
        code = 5;
    } else if (m >= 1.75F) {
        code = 4;
    } else if (m > 1.25F) {
        code = 3;
    } else if (m >= 0.75F) {
        code = 2;
    } else if (m > 0.25F) {
        code = 1;
    }
    return code != 0 && std::signbit(value) ? code | 8U : code;
}

uint8_t e8m0_ceil(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t exponent = ((bits >> 23) & 255U) + ((bits & 0x7fffffU) != 0 ? 1U : 0U);
    return static_cast<uint8_t>(std::min(exponent, 254U));
}

int64_t row_data_bytes(RowFormat format, int64_t dim) {
    switch (format) {
        case RowFormat::kF32: return dim * 4;
        case RowFormat::kF16: return dim * 2;
        case RowFormat::kFp8: return dim;
        case RowFormat::kNvfp4:
        case RowFormat::kMxfp4: return dim / 2;
    }
    return 0;
}

int64_t row_scale_bytes(RowFormat format, int64_t dim) {
    switch (format) {
        case RowFormat::kF32:
        case RowFormat::kF16: return 0;
        case RowFormat::kFp8:
        case RowFormat::kMxfp4: return dim / 32;
        case RowFormat::kNvfp4: return dim / 16;
    }
    return 0;
}

void quantise_row(RowFormat format, std::span<const float> values, uint8_t* data, uint8_t* scale) {
    switch (format) {
        case RowFormat::kF32: std::memcpy(data, values.data(), values.size_bytes()); return;
        case RowFormat::kF16:
            for (size_t i = 0; i < values.size(); ++i) {
                const uint16_t bits = f32_to_f16(values[i]);
                std::memcpy(data + 2 * i, &bits, 2);
            }
            return;
        case RowFormat::kFp8:
            DI_CHECK(values.size() % 32 == 0, "an FP8 row is a multiple of 32 long");
            quantise_fp8(values, data, scale);
            return;
        case RowFormat::kNvfp4:
            DI_CHECK(values.size() % 16 == 0, "an NVFP4 row is a multiple of 16 long");
            quantise_nvfp4(values, data, scale);
            return;
        case RowFormat::kMxfp4:
            DI_CHECK(values.size() % 32 == 0, "an MXFP4 row is a multiple of 32 long");
            quantise_mxfp4(values, data, scale);
            return;
    }
}

void dequantise_row(RowFormat format, const uint8_t* data, const uint8_t* scale, std::span<float> values) {
    switch (format) {
        case RowFormat::kF32: std::memcpy(values.data(), data, values.size_bytes()); return;
        case RowFormat::kF16:
            for (size_t i = 0; i < values.size(); ++i) {
                uint16_t bits = 0;
                std::memcpy(&bits, data + 2 * i, 2);
                values[i] = f16_to_f32(bits);
            }
            return;
        case RowFormat::kFp8:
            for (size_t i = 0; i < values.size(); ++i) {
                values[i] = e4m3_to_f32(data[i]) * e8m0_to_f32(scale[i / 32]);
            }
            return;
        case RowFormat::kNvfp4:
            for (size_t i = 0; i < values.size(); ++i) {
                values[i] = e2m1_to_f32(get_nibble(data, i)) * e4m3_to_f32(scale[i / 16]);
            }
            return;
        case RowFormat::kMxfp4:
            for (size_t i = 0; i < values.size(); ++i) {
                values[i] = e2m1_to_f32(get_nibble(data, i)) * e8m0_to_f32(scale[i / 32]);
            }
            return;
    }
}

void fake_quantise_row(RowFormat format, std::span<float> values) {
    if (format == RowFormat::kF32) {
        return;
    }
    // Group by group, so that a row of any length needs no memory of its own.
    constexpr size_t kGroup = 32;
    std::array<uint8_t, 2 * kGroup> data{};
    std::array<uint8_t, 2> scale{};
    for (size_t first = 0; first < values.size(); first += kGroup) {
        const auto group = values.subspan(first, std::min(kGroup, values.size() - first));
        quantise_row(format, group, data.data(), scale.data());
        dequantise_row(format, data.data(), scale.data(), group);
    }
}

void dequantise_weight_row(const Weight& weight, int64_t row, int64_t first, std::span<float> values) {
    const auto* bytes = static_cast<const uint8_t*>(weight.data) + row * weight.row_bytes();
    if (is_block_quantised(weight.dtype)) {
        dequantise_block_row(weight.dtype, bytes, first, values);
        return;
    }
    const auto scale_at = [&](int64_t column) {
        switch (weight.scale_layout) {
            case ScaleLayout::kNone: return 1.0F;
            case ScaleLayout::kBlock32x32: return e8m0_to_f32(weight.scale[row / 32 * weight.scale_cols() + column / 32]);
            case ScaleLayout::kRow32: return e8m0_to_f32(weight.scale[row * weight.scale_cols() + column / 32]);
        }
        return 1.0F;
    };
    for (size_t i = 0; i < values.size(); ++i) {
        const int64_t column = first + static_cast<int64_t>(i);
        switch (weight.dtype) {
            case DType::kF32: std::memcpy(&values[i], bytes + column * 4, 4); break;
            case DType::kBF16: {
                uint16_t bits = 0;
                std::memcpy(&bits, bytes + column * 2, 2);
                values[i] = bf16_to_f32(bits);
                break;
            }
            case DType::kF16: {
                uint16_t bits = 0;
                std::memcpy(&bits, bytes + column * 2, 2);
                values[i] = f16_to_f32(bits);
                break;
            }
            case DType::kF8E4M3: values[i] = e4m3_to_f32(bytes[column]) * scale_at(column); break;
            case DType::kF4E2M1:
                values[i] = e2m1_to_f32(get_nibble(bytes, static_cast<size_t>(column))) * scale_at(column);
                break;
            default: DI_CHECK(false, "a weight is f32, bf16, f16, f8_e4m3, packed f4_e2m1 or of a block type");
        }
    }
}

}  // namespace di
