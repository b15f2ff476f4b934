#pragma once

#include <string_view>

#include "backend/backend.h"
#include "model/geometry.h"
#include "model/model.h"

// Cache and activations of the Llama-like families as data.
namespace di::transformer {

// Keys and values of every layer, one row a token, in f16 (KvQuant::kOff: f32); no state: a sequence can go back to any token.
[[nodiscard]] CacheGeometry make_geometry(const ModelConfig& config, const ModelOptions& options);

// Keys (`is_value` false) or values of a layer in the cache's blocks.
[[nodiscard]] CacheView layer_view(const CacheGeometry& geometry, int32_t layer, bool is_value, uint8_t* blocks);

struct Workspace {
    Tensor hidden;          // [rows, d] residual stream
    Tensor normed, output;  // [rows, d] of a sub-block
    Tensor query, context;  // [rows, heads, head_dim]
    Tensor key, value;      // [rows, kv heads, head_dim]
    Tensor gate_up;         // [rows, 2 * width]
    Tensor activated;       // [rows, width]
    Tensor router_experts;  // [layers, rows, topk] i32: of every layer of a step, one behind the other
    Tensor router_weights;  // [rows, topk] f32
    Tensor head_input;      // [logit rows, d]
    Tensor logits;          // [logit rows, vocab] f32
    int64_t bytes = 0;
};

// Lays the buffers out from `memory` on; with nullptr only the sizes count.
[[nodiscard]] Workspace make_workspace(const ModelConfig& config, const ModelOptions& options, DType activation_dtype,
                                       void* memory);

}  // namespace di::transformer
