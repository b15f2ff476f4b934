#pragma once

#include "model/model.h"

// Every activation buffer of the model, sized once for the largest step and laid out in one allocation.
namespace di::v41 {

struct Workspace {
    // Residual streams and their mixes; `kept` copies are used when replay drops rows.
    Tensor streams, streams_kept;  // [rows, s, d]
    Tensor pre_first, pre;         // [rows, s] f32; pre_first is the constant (1, 0, 0, ...)
    Tensor attn_pre, post;         // [rows, s] f32
    Tensor comb;                   // [rows, s, s] f32
    Tensor collapsed;              // [rows, d]
    Tensor normed, normed_kept;    // [rows, d]
    Tensor output;                 // [rows, d] of a sub-block
    // Attention.
    Tensor q_latent;            // [rows, q_lora]
    Tensor query;               // [rows, heads, head_dim]
    Tensor kv;                  // [rows, head_dim]
    Tensor local_rows;          // [rows, window row bytes] u8: this step's window keys, as cached
    Tensor context;             // [rows, heads, head_dim]
    Tensor grouped;             // [rows, o_groups * o_lora]
    Tensor value_score;         // [rows, 2, head_dim] f32
    Tensor latent, compressed;  // [rows, head_dim]
    Tensor index_key;           // [rows, index dim]
    Tensor index_query;         // [rows, index heads, index dim]
    Tensor index_weights;       // [rows, index heads]
    Tensor selected;            // [rows, topk] i32
    Tensor candidates;          // [rows, candidate blocks] i32
    // Feed-forward.
    Tensor router_experts;  // [layers + 1, rows, topk] i32: of every layer of a step, one behind the other; then draft stages
    Tensor router_weights;  // [rows, topk] f32
    // Engram.
    Tensor engram_rows;       // [rows, rows per token * dim]
    Tensor engram_key_value;  // [rows, (s + 1) * d]
    // Draft.
    Tensor captured;          // [rows, targets * d]
    Tensor context_rows;      // [rows, d]
    Tensor draft_hidden;      // [sequences * block, d]
    Tensor draft_base;        // [sequences * block, vocab] f32
    Tensor draft_logits;      // [sequences, vocab] f32
    Tensor draft_features;    // [sequences, d + rank]
    Tensor draft_confidence;  // [sequences, 1] f32
    // Head.
    Tensor head_input;  // [logit rows, d]
    Tensor logits;      // [logit rows, vocab] f32

    int64_t bytes = 0;
};

// Lays the buffers out from `memory` on; with nullptr only the sizes count.
[[nodiscard]] Workspace make_workspace(const ModelConfig& config, const ModelOptions& options, DType activation_dtype,
                                       void* memory);

// Scratch of the vision tower for one image of the largest size, allocated while one is encoded.
[[nodiscard]] int64_t vision_workspace_bytes(const ModelConfig& config, DType activation_dtype);

// The buffers of one image.
struct VisionWorkspace {
    Tensor x, normed, attended;  // [patches, hidden]
    Tensor qkv;                  // [patches, 3 * hidden]
    Tensor gate_up, hidden;      // [patches, 2 * intermediate], [patches, intermediate]
    Tensor cells;                // [cells, hidden * ratio^2]
    Tensor aligned, embedded;    // [cells, d]
    int64_t bytes = 0;
};
[[nodiscard]] VisionWorkspace make_vision_workspace(const ModelConfig& config, DType activation_dtype, int64_t patches,
                                                    int64_t cells, void* memory);

}  // namespace di::v41
