#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace di {

// A second copy of a sequence's state, as it is when exactly `position` tokens have run. The engine copies the whole slot
// before the step; the model stores into both slots what it stores, rows at `position` and behind into its own alone.
struct StateSnapshot {
    int32_t position = 0;    // first_position < position <= first_position + row_count
    int32_t state_slot = 0;  // where it goes; of nobody else
};

// The rows of one sequence in a step: consecutive tokens, prefill chunk or decode rows alike.
struct SequenceRows {
    int32_t first_row = 0;  // in the batch
    int32_t row_count = 0;
    int32_t first_position = 0;  // = tokens already in the cache
    int32_t prompt_length = 0;   // whole prompt; rows at or behind it are decode rows
    int32_t state_slot = 0;
    std::vector<StateSnapshot> snapshots{};  // by ascending position
    std::vector<int32_t> block_table;        // ids, enough for first_position + row_count tokens
    std::vector<int32_t>
        history;  // up to history_tokens ids before first_position, oldest first; kImageHistory inside an image span
};

// Mark of an image position in SequenceRows::history.
inline constexpr int32_t kImageHistory = -1;

// Memory of the caches, owned by kv/; laid out by the model's CacheGeometry.
struct CacheMemory {
    uint8_t* blocks = nullptr;  // [block count, block_bytes]
    uint8_t* states = nullptr;  // [slot count, state_bytes]
};

// One step of many sequences, rows ragged and mixed. Filled by engine/.
struct Batch {
    std::vector<int32_t> token_ids;        // [rows]
    std::vector<uint8_t> is_image;         // [rows] 1 inside an image span; empty: no image rows
    std::vector<int32_t> image_rows;       // rows whose embedding is given below
    std::vector<Tensor> image_embeddings;  // one row [d] for each entry of image_rows, on the device
    std::vector<SequenceRows> sequences;
    std::vector<int32_t> logit_rows;  // rows whose logits are wanted, ascending
    CacheMemory cache;

    [[nodiscard]] int32_t row_count() const { return static_cast<int32_t>(token_ids.size()); }
};

// One drafting round: for each sequence the token just sampled and the place of the last accepted one.
struct DraftRow {
    int32_t token_id = 0;  // sampled for position `position`, not yet run through the model
    int32_t position = 0;  // tokens in the cache
    int32_t state_slot = 0;
};

struct DraftBatch {
    std::vector<DraftRow> sequences;
    int32_t depth = 0;  // tokens to draft, 1 .. block size
    CacheMemory cache;
};

}  // namespace di
