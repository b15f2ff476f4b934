#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/quant.h"

// A model's cache as data. The engine allocates from this table and knows nothing else of the model.
namespace di {

// A part of every block: rows that stand for `ratio` tokens each.
struct BlockPart {
    std::string name;  // "layers.2.kv", "layers.2.index_k"
    int32_t layer = 0;
    int64_t ratio = 1;  // tokens per row; rows per block = block_tokens / ratio
    int64_t dim = 0;    // values of a row
    RowFormat format = RowFormat::kF32;
    int64_t offset = 0;        // bytes from the block's start to the data of its first row
    int64_t data_stride = 0;   // bytes between rows
    int64_t scale_offset = 0;  // bytes from the block's start to the scales of its first row
    int64_t scale_stride = 0;
    int64_t bytes = 0;  // of this part in one block
};

// A part of every state slot: a ring of the last `tokens` tokens, slot = position mod tokens.
struct StatePart {
    std::string name;  // "layers.0.window", "mtp.0.window", "layers.2.partial"
    int32_t layer = 0;
    int64_t tokens = 0;
    int64_t dim = 0;
    RowFormat format = RowFormat::kF32;
    int64_t offset = 0;     // bytes from the slot's start
    int64_t row_bytes = 0;  // data, then scales of one row
    bool is_stored = true;  // false: can be made again from the rest (not part of what a KV store keeps)
};

struct CacheGeometry {
    int64_t block_tokens = 0;
    int64_t block_bytes = 0;  // with padding
    std::vector<BlockPart> blocks;
    int64_t state_bytes = 0;  // with padding
    std::vector<StatePart> states;
    int32_t history_tokens = 0;    // ids before the step that a sequence must bring along (n-gram look-back)
    int32_t backtrack_tokens = 0;  // how many tokens a sequence may be rolled back
};

}  // namespace di
