#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace di {

// Where the scales of a quantised matrix stand (checkpoint.md section 3 of the format).
enum class ScaleLayout : uint8_t {
    kNone,        // F32, BF16 or F16 values, or block types, which hold their scales
    kBlock32x32,  // UE8M0 [ceil(rows/32), ceil(cols/32)], FP8 linears
    kRow32,       // UE8M0 [rows, ceil(cols/32)], FP4 experts and FP8 tables
};

// A weight matrix [rows, cols] as it lies in the file, usually memory-mapped; y = x W^T.
// Does not own. `data` may be unaligned.
struct Weight {
    DType dtype = DType::kBF16;  // kF32, kBF16, kF16, kF8E4M3, kF4E2M1 or a block type, of whose block `cols` is a multiple
    ScaleLayout scale_layout = ScaleLayout::kNone;
    const void* data = nullptr;
    const uint8_t* scale = nullptr;
    int64_t rows = 0;  // outputs
    int64_t cols = 0;  // inputs

    [[nodiscard]] bool empty() const { return data == nullptr; }
    [[nodiscard]] int64_t row_bytes() const { return dtype_bytes(dtype, cols); }
    [[nodiscard]] int64_t scale_cols() const { return (cols + 31) / 32; }
    [[nodiscard]] int64_t data_bytes() const { return rows * row_bytes(); }
    [[nodiscard]] int64_t scale_bytes() const {
        switch (scale_layout) {
            case ScaleLayout::kNone: return 0;
            case ScaleLayout::kBlock32x32: return (rows + 31) / 32 * scale_cols();
            case ScaleLayout::kRow32: return rows * scale_cols();
        }
        return 0;
    }
};

}  // namespace di
