#pragma once

#include <cstdint>

#include "engine/step_work.h"
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

// Fills work.batch (its memory is used again) and the logit row numbers of work.rows: sequences in the order of work.rows, first the known
// tokens, then the drafts of each. Memory for the embeddings of image rows must be there.
void build_batch(const BatchContext& context, StepWork& work);

}  // namespace di
