#include "model/transformer/parameters.h"

namespace di::transformer {

namespace {

ExpertWeights gated(const Checkpoint& checkpoint, const std::string& name) {
    return {.gate = checkpoint.weight(name + ".gate_proj"),
            .up = checkpoint.weight(name + ".up_proj"),
            .down = checkpoint.weight(name + ".down_proj")};
}

LayerParameters bind_layer(const ModelConfig& config, const Checkpoint& checkpoint, int32_t id) {
    const std::string layer = fmt::format("layers.{}.", id);
    const std::string attention = layer + "self_attn.";
    LayerParameters p;
    p.attention_norm = checkpoint.tensor(layer + "input_layernorm.weight");
    p.feed_forward_norm = checkpoint.tensor(layer + "post_attention_layernorm.weight");
    p.query = checkpoint.weight(attention + "q_proj");
    p.key = checkpoint.weight(attention + "k_proj");
    p.value = checkpoint.weight(attention + "v_proj");
    p.output = checkpoint.weight(attention + "o_proj");
    if (config.transformer->has_qkv_bias) {
        p.query_bias = checkpoint.tensor(attention + "q_proj.bias");
        p.key_bias = checkpoint.tensor(attention + "k_proj.bias");
        p.value_bias = checkpoint.tensor(attention + "v_proj.bias");
    }
    if (config.transformer->has_output_bias) {
        p.output_bias = checkpoint.tensor(attention + "o_proj.bias");
    }
    if (config.transformer->has_head_norms) {
        p.query_norm = checkpoint.tensor(attention + "q_norm.weight");
        p.key_norm = checkpoint.tensor(attention + "k_norm.weight");
    }
    if (!config.has_experts(id)) {
        p.feed_forward = gated(checkpoint, layer + "mlp");
        return p;
    }
    p.router = checkpoint.weight(layer + "mlp.gate");
    for (int32_t expert = 0; expert < config.routed_expert_count; ++expert) {
        p.experts.push_back(gated(checkpoint, fmt::format("{}mlp.experts.{}", layer, expert)));
    }
    return p;
}

}  // namespace

Parameters bind_parameters(const ModelConfig& config, const Checkpoint& checkpoint) {
    Parameters parameters;
    parameters.embed = checkpoint.weight("embed_tokens");
    parameters.head = config.transformer->ties_embeddings ? parameters.embed : checkpoint.weight("lm_head");
    parameters.norm = checkpoint.tensor("norm.weight");
    for (int32_t layer = 0; layer < config.layer_count; ++layer) {
        parameters.layers.push_back(bind_layer(config, checkpoint, layer));
    }
    return parameters;
}

}  // namespace di::transformer
