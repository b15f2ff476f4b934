#pragma once

#include <cstdint>
#include <span>

#include "tensor/dtype.h"

// The block types of GGUF files, scalar and exact: the definition that every backend is compared with. The values are
// those of the PyPI package `gguf` bit by bit, in its order of float32 operations.
namespace di {

// Values of one block of a block type (is_block_quantised). `block` holds dtype_block(dtype).bytes bytes and may be
// unaligned; `values` has dtype_block(dtype).values elements.
void dequantise_block(DType dtype, const uint8_t* block, std::span<float> values);

// Columns [first, first + values.size()) of a row whose first block stands at `row`.
void dequantise_block_row(DType dtype, const uint8_t* row, int64_t first, std::span<float> values);

}  // namespace di
