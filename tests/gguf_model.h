#pragma once

// Small models in GGUF for tests, with every tensor and key of their family.

#include <string>
#include <vector>

#include "gguf_builder.h"

namespace di {

struct GgufModelShape {
    std::string family = "llama";
    uint32_t layers = 2;
    uint32_t heads = 4;
    uint32_t kv_heads = 2;
    uint64_t hidden = 64;
    uint64_t width = 96;
    uint64_t vocabulary = 40;
    uint64_t experts = 0;
    uint32_t claimed_experts = 0;  // what the key says; 0: the truth
    uint64_t router_rows = 0;      // of the router; 0: one for each expert
    uint32_t matrix_type = 0;      // as GGUF numbers them: 0 F32, 3 Q4_1, 8 Q8_0
    uint64_t block_bytes = 4;      // of a block of that type
    uint64_t block_values = 1;
    bool ties_embeddings = true;
    bool has_bias = false;
    bool has_head_norms = false;
};

// Metadata and tensors of a model of that shape; the bytes of each tensor are its index in the file.
class GgufModel {
  public:
    explicit GgufModel(GgufModelShape shape) : shape_(std::move(shape)) {
        add_keys();
        add_tensors();
    }

    GgufBuilder file;

  private:
    void add_keys() {
        const auto key = [&](std::string_view name) { return shape_.family + "." + std::string(name); };
        file.text("general.architecture", shape_.family);
        file.number<uint32_t>(key("block_count"), shape_.layers);
        file.number<uint32_t>(key("context_length"), 256);
        file.number<uint32_t>(key("embedding_length"), static_cast<uint32_t>(shape_.hidden));
        file.number<uint32_t>(key("feed_forward_length"), static_cast<uint32_t>(shape_.width));
        file.number<uint32_t>(key("attention.head_count"), shape_.heads);
        file.number<uint32_t>(key("attention.head_count_kv"), shape_.kv_heads);
        file.number<float>(key("attention.layer_norm_rms_epsilon"), 1e-5F);
        file.number<float>(key("rope.freq_base"), 1e5F);
        if (shape_.experts > 0) {
            file.number<uint32_t>(key("expert_count"),
                                  shape_.claimed_experts > 0 ? shape_.claimed_experts : static_cast<uint32_t>(shape_.experts));
            file.number<uint32_t>(key("expert_used_count"), 2);
            file.number<uint32_t>(key("expert_feed_forward_length"), static_cast<uint32_t>(shape_.width));
        }
    }

    void matrix(const std::string& name, std::vector<uint64_t> dims) {
        uint64_t values = 1;
        for (const uint64_t dim : dims) {
            values *= dim;
        }
        const uint64_t bytes = values / shape_.block_values * shape_.block_bytes;
        file.tensor(name, shape_.matrix_type, dims, std::string(bytes, static_cast<char>(count_++)));
    }
    void vector(const std::string& name, uint64_t length) {
        file.tensor(name, 0, {length}, std::string(4 * length, static_cast<char>(count_++)));
    }

    void add_tensors() {
        matrix("token_embd.weight", {shape_.hidden, shape_.vocabulary});
        vector("output_norm.weight", shape_.hidden);
        if (!shape_.ties_embeddings) {
            matrix("output.weight", {shape_.hidden, shape_.vocabulary});
        }
        for (uint32_t layer = 0; layer < shape_.layers; ++layer) {
            add_layer("blk." + std::to_string(layer) + ".");
        }
    }

    void add_layer(const std::string& prefix) {
        const uint64_t head = shape_.hidden / shape_.heads;
        const uint64_t keys = head * shape_.kv_heads;
        vector(prefix + "attn_norm.weight", shape_.hidden);
        matrix(prefix + "attn_q.weight", {shape_.hidden, shape_.hidden});
        matrix(prefix + "attn_k.weight", {shape_.hidden, keys});
        matrix(prefix + "attn_v.weight", {shape_.hidden, keys});
        matrix(prefix + "attn_output.weight", {shape_.hidden, shape_.hidden});
        if (shape_.has_bias) {
            vector(prefix + "attn_q.bias", shape_.hidden);
            vector(prefix + "attn_k.bias", keys);
            vector(prefix + "attn_v.bias", keys);
        }
        if (shape_.has_head_norms) {
            vector(prefix + "attn_q_norm.weight", head);
            vector(prefix + "attn_k_norm.weight", head);
        }
        vector(prefix + "ffn_norm.weight", shape_.hidden);
        if (shape_.experts == 0) {
            matrix(prefix + "ffn_gate.weight", {shape_.hidden, shape_.width});
            matrix(prefix + "ffn_up.weight", {shape_.hidden, shape_.width});
            matrix(prefix + "ffn_down.weight", {shape_.width, shape_.hidden});
            return;
        }
        matrix(prefix + "ffn_gate_inp.weight", {shape_.hidden, shape_.router_rows > 0 ? shape_.router_rows : shape_.experts});
        matrix(prefix + "ffn_gate_exps.weight", {shape_.hidden, shape_.width, shape_.experts});
        matrix(prefix + "ffn_up_exps.weight", {shape_.hidden, shape_.width, shape_.experts});
        matrix(prefix + "ffn_down_exps.weight", {shape_.width, shape_.hidden, shape_.experts});
    }

    GgufModelShape shape_;
    int count_ = 0;
};

}  // namespace di
