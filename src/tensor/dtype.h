#pragma once

#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace di {

// Element types in memory and files. Packed FP4 counts two elements per byte. The types from kQ4_0 on are the block
// types of GGUF files: their scales stand between the values, so only weights have them, never a Tensor.
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
    kQ4_0,  // the layouts of these: tensor/block_quant.cpp
    kQ4_1,
    kQ5_0,
    kQ5_1,
    kQ8_0,
    kQ2_K,
    kQ3_K,
    kQ4_K,
    kQ5_K,
    kQ6_K,
    kIq4Nl,
    kMxfp4,  // the GGUF block of MXFP4; a safetensors file keeps kF4E2M1 and kF8E8M0 apart
};

// The smallest piece of a row that can be read alone: `values` neighbouring values in `bytes` bytes.
struct DTypeBlock {
    int64_t values = 1;
    int64_t bytes = 1;
};

[[nodiscard]] constexpr DTypeBlock dtype_block(DType dtype) {
    switch (dtype) {
        case DType::kF32:
        case DType::kI32: return {.values = 1, .bytes = 4};
        case DType::kI64: return {.values = 1, .bytes = 8};
        case DType::kBF16:
        case DType::kF16:
        case DType::kI16: return {.values = 1, .bytes = 2};
        case DType::kF8E4M3:
        case DType::kF8E8M0:
        case DType::kU8:
        case DType::kI8: return {.values = 1, .bytes = 1};
        case DType::kF4E2M1: return {.values = 2, .bytes = 1};
        case DType::kQ4_0:
        case DType::kIq4Nl: return {.values = 32, .bytes = 18};
        case DType::kQ4_1: return {.values = 32, .bytes = 20};
        case DType::kQ5_0: return {.values = 32, .bytes = 22};
        case DType::kQ5_1: return {.values = 32, .bytes = 24};
        case DType::kQ8_0: return {.values = 32, .bytes = 34};
        case DType::kMxfp4: return {.values = 32, .bytes = 17};
        case DType::kQ2_K: return {.values = 256, .bytes = 84};
        case DType::kQ3_K: return {.values = 256, .bytes = 110};
        case DType::kQ4_K: return {.values = 256, .bytes = 144};
        case DType::kQ5_K: return {.values = 256, .bytes = 176};
        case DType::kQ6_K: return {.values = 256, .bytes = 210};
    }
    return {};
}

// A block type of GGUF: several values share scales that stand among them.
[[nodiscard]] constexpr bool is_block_quantised(DType dtype) { return dtype_block(dtype).values > 2; }

// Bytes of `count` values in a row; `count` is a multiple of the block's values.
[[nodiscard]] constexpr int64_t dtype_bytes(DType dtype, int64_t count) {
    const DTypeBlock block = dtype_block(dtype);
    return count / block.values * block.bytes;
}

// Bits of one element; 4 for packed FP4. Block types have no whole number of bits: ask for dtype_bytes.
[[nodiscard]] constexpr int dtype_bits(DType dtype) {
    DI_CHECK(!is_block_quantised(dtype), "a value of a block type has no bits of its own");
    const DTypeBlock block = dtype_block(dtype);
    return static_cast<int>(8 * block.bytes / block.values);
}

// Short name for messages: "f32", "bf16", "f8_e4m3", ...
[[nodiscard]] std::string_view dtype_name(DType dtype);

}  // namespace di
