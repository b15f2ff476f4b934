#include "model/deepseek_v41/workspace.h"

#include <algorithm>

#include "model/activations.h"
#include "model/deepseek_v41/cache_layout.h"
#include "model/deepseek_v41/step_plan.h"

namespace di::v41 {

namespace {

void lay_out_draft(const ModelConfig& config, const ModelOptions& options, int64_t rows, ActivationLayout& layout,
                   Workspace& space) {
    const int64_t sequences = options.sequences_max;
    const int64_t draft_rows = sequences * config.draft.block_size;
    const int64_t d = config.hidden_size;
    space.captured = layout.activations({rows, static_cast<int64_t>(config.draft.target_layer_ids.size()) * d});
    space.context_rows = layout.activations({rows, d});
    space.draft_hidden = layout.activations({draft_rows, d});
    space.draft_base = layout.take(DType::kF32, {draft_rows, config.vocab_size});
    space.draft_logits = layout.take(DType::kF32, {sequences, config.vocab_size});
    space.draft_features = layout.activations({sequences, d + config.draft.markov_rank});
    space.draft_confidence = layout.take(DType::kF32, {sequences, 1});
}

void lay_out_attention(const ModelConfig& config, const ModelOptions& options, int64_t rows, ActivationLayout& layout,
                       Workspace& space) {
    space.q_latent = layout.activations({rows, config.q_lora_rank});
    space.query = layout.activations({rows, config.head_count, config.head_dim});
    space.kv = layout.activations({rows, config.head_dim});
    space.local_rows = layout.take(DType::kU8, {rows, row_bytes(window_format(options), config.head_dim)});
    space.context = layout.activations({rows, config.head_count, config.head_dim});
    space.grouped = layout.activations({rows, config.o_groups * config.o_lora_rank});
    space.value_score = layout.take(DType::kF32, {rows, 2, config.head_dim});
    space.latent = layout.activations({rows, config.head_dim});
    space.compressed = layout.activations({rows, config.head_dim});
    if (config.index_source_layer_ids.empty()) {
        return;
    }
    space.index_key = layout.activations({rows, config.index_head_dim});
    space.index_query = layout.activations({rows, config.index_head_count, config.index_head_dim});
    space.index_weights = layout.activations({rows, config.index_head_count});
    space.selected = layout.take(DType::kI32, {rows, config.index_topk});
    if (config.candidate_source_layer_id) {
        space.candidates = layout.take(DType::kI32, {rows, config.candidate_topk_blocks});
    }
}

}  // namespace

Workspace make_workspace(const ModelConfig& config, const ModelOptions& options, DType activation_dtype, void* memory) {
    ActivationLayout layout(activation_dtype, memory);
    Workspace space;
    const int64_t rows = std::max<int64_t>(options.rows_max, int64_t{options.sequences_max} * config.draft.block_size);
    const int64_t d = config.hidden_size;
    const int64_t s = config.hc_mult;
    space.streams = layout.activations({rows, s, d});
    space.pre_first = layout.take(DType::kF32, {rows, s});
    space.pre = layout.take(DType::kF32, {rows, s});
    space.attn_pre = layout.take(DType::kF32, {rows, s});
    space.post = layout.take(DType::kF32, {rows, s});
    space.comb = layout.take(DType::kF32, {rows, s, s});
    space.collapsed = layout.activations({rows, d});
    space.normed = layout.activations({rows, d});
    space.output = layout.activations({rows, d});
    if (replay_drops_rows(options.replay)) {
        space.streams_kept = layout.activations({rows, s, d});
        space.normed_kept = layout.activations({rows, d});
    }
    lay_out_attention(config, options, rows, layout, space);
    const int64_t slots = std::max(config.experts_per_token, config.draft.experts_per_token);
    space.router_experts = layout.take(DType::kI32, {config.layer_count + 1, rows, slots});
    space.router_weights = layout.take(DType::kF32, {rows, slots});
    if (config.engram.present()) {
        space.engram_rows = layout.activations({rows, config.engram.rows_per_token() * config.engram.head_dim});
        space.engram_key_value = layout.activations({rows, (s + 1) * d});
    }
    if (config.draft.present()) {
        lay_out_draft(config, options, rows, layout, space);
    }
    space.head_input = layout.activations({options.logit_rows_max, d});
    space.logits = layout.take(DType::kF32, {options.logit_rows_max, config.vocab_size});
    space.bytes = layout.bytes();
    return space;
}

VisionWorkspace make_vision_workspace(const ModelConfig& config, DType activation_dtype, int64_t patches, int64_t cells,
                                      void* memory) {
    ActivationLayout layout(activation_dtype, memory);
    const VisionConfig& vision = config.vision;
    VisionWorkspace space;
    space.x = layout.activations({patches, vision.hidden_size});
    space.normed = layout.activations({patches, vision.hidden_size});
    space.attended = layout.activations({patches, vision.hidden_size});
    space.qkv = layout.activations({patches, 3 * vision.hidden_size});
    space.gate_up = layout.activations({patches, 2 * vision.intermediate_size});
    space.hidden = layout.activations({patches, vision.intermediate_size});
    space.cells = layout.activations({cells, vision.hidden_size * vision.downsample_ratio * vision.downsample_ratio});
    space.aligned = layout.activations({cells, config.hidden_size});
    space.embedded = layout.activations({cells, config.hidden_size});
    space.bytes = layout.bytes();
    return space;
}

int64_t vision_workspace_bytes(const ModelConfig& config, DType activation_dtype) {
    if (!config.vision.present()) {
        return 0;
    }
    const int64_t cells = config.vision.max_image_tokens;
    const int64_t patches = cells * config.vision.downsample_ratio * config.vision.downsample_ratio;
    return make_vision_workspace(config, activation_dtype, patches, cells, nullptr).bytes;
}

}  // namespace di::v41
