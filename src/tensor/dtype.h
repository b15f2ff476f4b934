#pragma once

#include <cstdint>
#include <string_view>

namespace di {

// Element types in memory and files. Packed FP4 counts two elements per byte.
enum class DType : uint8_t {
    kF32,
    kBF16,
    kF16,
    kF8E4M3,  // OCP FP8 E4M3FN: no infinity, 0x7F and 0xFF are NaN, largest 448
    kF8E8M0,  // power-of-two scale: 2^(byte - 127), 255 is NaN
    kF4E2M1,  // packed, even element in the low nibble: 0 .5 1 1.5 2 3 4 6, bit 3 = sign
    kU8,
    kI8,
    kI16,
    kI32,
    kI64,
};

// Bits of one element; 4 for packed FP4.
[[nodiscard]] constexpr int dtype_bits(DType dtype) {
    switch (dtype) {
        case DType::kF32:
        case DType::kI32: return 32;
        case DType::kI64: return 64;
        case DType::kBF16:
        case DType::kF16:
        case DType::kI16: return 16;
        case DType::kF8E4M3:
        case DType::kF8E8M0:
        case DType::kU8:
        case DType::kI8: return 8;
        case DType::kF4E2M1: return 4;
    }
    return 0;
}

// Short name for messages: "f32", "bf16", "f8_e4m3", ...
[[nodiscard]] std::string_view dtype_name(DType dtype);

}  // namespace di
