#pragma once

#include <cstdint>

#include "model/geometry.h"
#include "weights/model_config.h"

// The least work that a model asks for, counted from its config: what a machine's limits are held against.
namespace di {

struct WorkCount {
    double bytes = 0.0;  // weights and cache that must be read
    double flops = 0.0;  // multiplications and additions of the linears
};

// One decoded token of a sequence with `context` tokens: resident weights once, the experts that a token uses, its Engram rows,
// its embedding row, the cache rows that attention and index must read. Lower bounds throughout: a smaller floor time never flatters.
[[nodiscard]] WorkCount decode_work(const ModelConfig& config, const CacheGeometry& geometry, int64_t context);

// A prompt of `tokens` in steps of `rows`: the arithmetic of every token but the head's, all weights once a step.
[[nodiscard]] WorkCount prefill_work(const ModelConfig& config, int64_t tokens, int64_t rows);

}  // namespace di
