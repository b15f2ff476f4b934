#pragma once

#include <cstdint>
#include <span>

#include "engine/sequence.h"
#include "model/batch.h"
#include "model/geometry.h"

namespace di {

// What the builder must know besides the sequences.
struct BatchContext {
    int64_t block_tokens = 0;
    int32_t history_tokens = 0;
    int64_t embedding_size = 0;  // values of an image row
    DType embedding_dtype = DType::kF32;
    CacheMemory cache;
};

// Fills `batch` (whatever it held before; its memory is used again) with the rows of one step: sequences in the order of
// `scheduled`, rows [cached, cached + row_count) of each. A logit row is the last row of every sequence that draws a token, in
// the same order. Embeddings of the image rows must be there.
void build_batch(const BatchContext& context, std::span<const ScheduledRows> scheduled, Batch& batch);

}  // namespace di
