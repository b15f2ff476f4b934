#include "model/deepseek_v41/parameters.h"

namespace di::v41 {

namespace {

// Names below one prefix ("layers.3.").
class Scope {
  public:
    Scope(const Checkpoint& checkpoint, std::string prefix) : checkpoint_(checkpoint), prefix_(std::move(prefix)) {}

    [[nodiscard]] Weight weight(std::string_view name) const { return checkpoint_.weight(prefix_ + std::string(name)); }
    [[nodiscard]] Tensor tensor(std::string_view name) const { return checkpoint_.tensor(prefix_ + std::string(name)); }
    [[nodiscard]] ExpertWeights expert(const std::string& name) const {
        return {.gate = weight(name + ".w1"), .up = weight(name + ".w3"), .down = weight(name + ".w2")};
    }

  private:
    const Checkpoint& checkpoint_;
    std::string prefix_;
};

LayerParameters bind_block(const Scope& scope, int32_t expert_count) {
    LayerParameters layer;
    layer.attn_norm = scope.tensor("attn_norm.weight");
    layer.ffn_norm = scope.tensor("ffn_norm.weight");
    layer.q_a = scope.weight("attn.wq_a");
    layer.q_norm = scope.tensor("attn.q_norm.weight");
    layer.q_b = scope.weight("attn.wq_b");
    layer.kv = scope.weight("attn.wkv");
    layer.kv_norm = scope.tensor("attn.kv_norm.weight");
    layer.sink = scope.tensor("attn.attn_sink");
    layer.o_a = scope.weight("attn.wo_a");
    layer.o_b = scope.weight("attn.wo_b");
    layer.attn_hyper = {
        .fn = scope.tensor("hc_attn_fn"), .base = scope.tensor("hc_attn_base"), .scale = scope.tensor("hc_attn_scale")};
    layer.ffn_hyper = {
        .fn = scope.tensor("hc_ffn_fn"), .base = scope.tensor("hc_ffn_base"), .scale = scope.tensor("hc_ffn_scale")};
    layer.router = scope.weight("ffn.gate");
    layer.router_bias = scope.tensor("ffn.gate.bias");
    layer.router_bias_image = scope.tensor("ffn.gate.bias_vl");
    for (int32_t expert = 0; expert < expert_count; ++expert) {
        layer.experts.push_back(scope.expert(fmt::format("ffn.experts.{}", expert)));
    }
    layer.shared = scope.expert("ffn.shared_experts");
    return layer;
}

void bind_extras(const ModelConfig& config, int32_t id, const Scope& scope, LayerParameters& layer) {
    if (config.is_kv_source(id)) {
        layer.compressor.value = scope.weight("attn.compressor.wkv");
        layer.compressor.norm = scope.tensor("attn.compressor.norm.weight");
        if (config.ratio(id) > 1) {
            layer.compressor.gate = scope.weight("attn.compressor.wgate");
        }
    }
    if (config.is_index_source(id)) {
        layer.indexer.query = scope.weight("attn.indexer.wq_b");
        layer.indexer.head_weights = scope.weight("attn.indexer.weights_proj");
    }
    if (config.is_index_k_source(id)) {
        layer.indexer.key = scope.weight("attn.indexer.wk");
        layer.indexer.key_norm = scope.tensor("attn.indexer.k_norm.weight");
    }
    if (config.engram_index(id) >= 0) {
        layer.engram = {.table = scope.weight("engram.embed"),
                        .key_value = scope.weight("engram.wkv"),
                        .q_weight = scope.tensor("engram.q_weight"),
                        .k_weight = scope.tensor("engram.k_weight")};
    }
}

DraftParameters bind_draft(const ModelConfig& config, const Checkpoint& checkpoint) {
    DraftParameters draft;
    for (int32_t stage = 0; stage < config.draft.stage_count; ++stage) {
        draft.stages.push_back(bind_block(Scope(checkpoint, fmt::format("mtp.{}.", stage)), config.draft.routed_expert_count));
    }
    const Scope first(checkpoint, "mtp.0.");
    const Scope last(checkpoint, fmt::format("mtp.{}.", config.draft.stage_count - 1));
    draft.context_projection = first.weight("main_proj");
    draft.context_norm = first.tensor("main_norm.weight");
    draft.output_norm = last.tensor("norm.weight");
    draft.markov_embed = last.weight("markov_head.embed");
    draft.markov_head = last.weight("markov_head.head");
    draft.confidence = last.weight("confidence_head.proj");
    return draft;
}

// A bf16 vector as a table of one row.
Weight one_row(const Tensor& vector) { return {.dtype = vector.dtype, .data = vector.data, .rows = 1, .cols = vector.size()}; }

VisionParameters bind_vision(const ModelConfig& config, const Checkpoint& checkpoint) {
    const Scope scope(checkpoint, "");
    VisionParameters vision;
    vision.patch_embed = scope.weight("vision.patch_embed.proj");
    vision.patch_bias = scope.tensor("vision.patch_embed.proj.bias");
    vision.norm = scope.tensor("vision.norm.weight");
    for (int32_t b = 0; b < config.vision.layer_count; ++b) {
        const Scope block(checkpoint, fmt::format("vision.blocks.{}.", b));
        vision.blocks.push_back({.norm1 = block.tensor("norm1.weight"),
                                 .norm2 = block.tensor("norm2.weight"),
                                 .qkv = block.weight("attn.wqkv"),
                                 .out = block.weight("attn.wo"),
                                 .gate_up = block.weight("mlp.w1"),
                                 .down = block.weight("mlp.w2"),
                                 .qkv_bias = block.tensor("attn.wqkv.bias"),
                                 .out_bias = block.tensor("attn.wo.bias")});
    }
    vision.aligner1 = scope.weight("aligner.w1");
    vision.aligner1_bias = scope.tensor("aligner.w1.bias");
    vision.aligner2 = scope.weight("aligner.w2");
    vision.aligner2_bias = scope.tensor("aligner.w2.bias");
    vision.start = one_row(scope.tensor("image_start"));
    vision.end = one_row(scope.tensor("image_end"));
    vision.newline = one_row(scope.tensor("image_newline"));
    return vision;
}

}  // namespace

Parameters bind_parameters(const ModelConfig& config, const Checkpoint& checkpoint) {
    Parameters parameters;
    parameters.embed = checkpoint.weight("embed");
    parameters.head = checkpoint.weight("head");
    parameters.norm = checkpoint.tensor("norm.weight");
    for (int32_t layer = 0; layer < config.layer_count; ++layer) {
        const Scope scope(checkpoint, fmt::format("layers.{}.", layer));
        parameters.layers.push_back(bind_block(scope, config.routed_expert_count));
        bind_extras(config, layer, scope, parameters.layers.back());
    }
    if (config.draft.present()) {
        parameters.draft = bind_draft(config, checkpoint);
    }
    if (config.vision.present()) {
        parameters.vision = bind_vision(config, checkpoint);
    }
    return parameters;
}

}  // namespace di::v41
