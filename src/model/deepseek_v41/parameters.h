#pragma once

#include <vector>

#include "backend/backend.h"
#include "weights/checkpoint.h"
#include "weights/model_config.h"

// The checkpoint's tensors by their place in the model. Views into the checkpoint; names in parameters.cpp.
namespace di::v41 {

struct HyperParameters {  // one sub-block of the hyper-connections
    Tensor fn, base, scale;
};

struct CompressorParameters {  // kv sources
    Weight value;              // wkv [head_dim, d]
    Weight gate;               // wgate [head_dim, d]; ratio > 1 only
    Tensor norm;
};

struct IndexerParameters {  // index sources; the last two only where index keys are made
    Weight query;           // wq_b [heads * dim, q_lora]
    Weight head_weights;    // weights_proj [heads, d]
    Weight key;             // wk [dim, head_dim]
    Tensor key_norm;
};

struct EngramParameters {
    Weight table;      // embed [rows, head_dim]
    Weight key_value;  // wkv [(s + 1) * d, rows per token * head_dim]
    Tensor q_weight, k_weight;
};

struct LayerParameters {
    Tensor attn_norm, ffn_norm;
    Weight q_a, q_b, kv, o_a, o_b;
    Tensor q_norm, kv_norm, sink;
    HyperParameters attn_hyper, ffn_hyper;
    CompressorParameters compressor;
    IndexerParameters indexer;
    EngramParameters engram;
    Weight router;
    Tensor router_bias, router_bias_image;
    std::vector<ExpertWeights> experts;
    ExpertWeights shared;
};

struct DraftParameters {
    Weight context_projection;  // main_proj [d, targets * d]
    Tensor context_norm;        // main_norm
    Tensor output_norm;
    Weight markov_embed, markov_head;
    Weight confidence;  // [1, d + rank]
    std::vector<LayerParameters> stages;
};

struct VisionBlockParameters {
    Tensor norm1, norm2;
    Weight qkv, out, gate_up, down;
    Tensor qkv_bias, out_bias;
};

struct VisionParameters {
    Weight patch_embed;
    Tensor patch_bias, norm;
    std::vector<VisionBlockParameters> blocks;
    Weight aligner1, aligner2;
    Tensor aligner1_bias, aligner2_bias;
    Weight start, end, newline;  // [1, d] each: embedding rows of the span marks
};

struct Parameters {
    Weight embed, head;
    Tensor norm;
    std::vector<LayerParameters> layers;
    DraftParameters draft;
    VisionParameters vision;
};

[[nodiscard]] Parameters bind_parameters(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace di::v41
