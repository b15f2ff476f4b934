#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

// What a model's config says, as typed values: the fields that every family has, DeepSeek-V4.1's own in ModelConfig itself
// (names are the file's, in whole words), those of the Llama-like families in `transformer`. Every check has passed when
// parse_model_config returns a value.
namespace di {

struct RopeScaling {
    double factor = 1.0;
    double beta_fast = 32.0;
    double beta_slow = 1.0;
    int64_t original_max_position_embeddings = 0;
};

struct EngramConfig {
    std::vector<int32_t> layer_ids;   // empty: no Engram
    std::vector<int64_t> table_rows;  // rows of each layer's table
    int32_t max_ngram_size = 0;       // n = 2 .. max
    int32_t head_count = 0;
    int64_t head_dim = 0;
    int64_t vocab_size = 0;             // lower bound of the primes
    int32_t pad_token_id = 0;           // raw id
    int64_t compressed_vocab_size = 0;  // classes of the token map

    [[nodiscard]] bool present() const { return !layer_ids.empty(); }
    // Table rows looked up per token and layer.
    [[nodiscard]] int64_t rows_per_token() const { return int64_t{max_ngram_size - 1} * head_count; }
};

struct DraftConfig {          // DSpark
    int32_t stage_count = 0;  // num_nextn_predict_layers; 0: no draft model
    int32_t block_size = 0;
    int32_t noise_token_id = 0;
    std::vector<int32_t> target_layer_ids;
    int64_t markov_rank = 0;
    int32_t routed_expert_count = 0;
    int32_t experts_per_token = 0;
    bool captures_attention_input = true;  // dspark_target_attn_input

    [[nodiscard]] bool present() const { return stage_count > 0; }
};

struct VisionConfig {
    int32_t layer_count = 0;  // 0: no vision tower
    int64_t hidden_size = 0;
    int64_t head_count = 0;
    int64_t intermediate_size = 0;
    int64_t patch_size = 0;
    int64_t downsample_ratio = 0;
    double rope_theta = 10000.0;
    int64_t max_image_tokens = 0;
    int64_t min_pixels = 0;
    std::optional<double> max_wh_ratio;

    [[nodiscard]] bool present() const { return layer_count > 0; }
};

enum class RopeKind : uint8_t { kPlain, kLinear, kLlama3 };

// Angles of the Llama-like families.
struct TransformerRope {
    RopeKind kind = RopeKind::kPlain;
    bool has_adjacent_pairs = false;  // pairs are (2 i, 2 i + 1); else (i, i + head_dim / 2)
    double factor = 1.0;              // of kLinear and kLlama3
    double low_frequency_factor = 1.0;
    double high_frequency_factor = 4.0;
    int64_t original_max_position_embeddings = 0;
    // Divisors of the frequencies that a file brings ready-made, [rope_dim / 2]; empty: made from the values above.
    std::vector<float> divisors;
};

// Llama, Mistral, Qwen2, Qwen3 and Qwen3-MoE: pre-norm layers of grouped-query attention and a gated feed-forward.
struct TransformerConfig {
    int64_t kv_head_count = 0;
    int64_t intermediate_size = 0;  // of layers without experts
    bool has_qkv_bias = false;
    bool has_output_bias = false;  // of the attention's output
    bool has_head_norms = false;   // queries and keys are normalised head by head before they turn
    bool ties_embeddings = false;  // the output head is the embedding
    TransformerRope rope;
    std::vector<int32_t> dense_layer_ids;  // ascending: layers without experts in a model that has some
    bool normalises_expert_weights = false;
};

// No quantization_config: values of 16 or 32 bits; or the official one.
enum class StoredWeights : uint8_t { kPlain, kPlain32, kFp8Fp4 };

struct ModelConfig {
    std::string architecture;
    StoredWeights stored = StoredWeights::kPlain;
    // Where the config is part of a file of weights: the type of each of expected_tensors(), in their order. Empty: as `stored` says.
    std::vector<DType> file_dtypes;
    int32_t bos_token_id = 0;  // -1: none (only GGUF files may lack these)
    int32_t eos_token_id = 1;
    std::vector<int32_t> other_eos_token_ids;  // further ends of an answer
    int32_t pad_token_id = 2;
    std::optional<int32_t> image_token_id;
    bool adds_bos = true;  // tokenizer_compatibility: "release" puts BOS before text, "native" leaves it to the tokenizer

    int64_t vocab_size = 0;
    int64_t hidden_size = 0;
    int32_t layer_count = 0;
    int64_t head_count = 0;
    int64_t head_dim = 0;
    int64_t rope_dim = 0;
    int64_t q_lora_rank = 0;
    int64_t o_lora_rank = 0;
    int64_t o_groups = 0;
    float rms_norm_eps = 0.0F;
    float swiglu_limit = 0.0F;
    int64_t max_position_embeddings = 0;
    double rope_theta = 0.0;
    double compress_rope_theta = 0.0;
    RopeScaling rope_scaling;  // for layers with ratio > 0
    int64_t sliding_window = 0;
    std::vector<int32_t> compress_ratios;  // layers, then draft stages (0)
    std::vector<int32_t> kv_source_layer_ids;
    std::vector<int32_t> index_source_layer_ids;
    std::vector<int32_t> index_k_source_layer_ids;
    int64_t index_head_count = 0;
    int64_t index_head_dim = 0;
    int64_t index_topk = 0;
    std::optional<int32_t> candidate_source_layer_id;
    int64_t candidate_topk_blocks = 0;
    int64_t candidate_block_size = 0;
    int64_t moe_intermediate_size = 0;
    int32_t routed_expert_count = 0;
    int32_t shared_expert_count = 0;
    int32_t experts_per_token = 0;
    float routed_scaling_factor = 1.0F;
    int32_t hc_mult = 0;
    int32_t hc_sinkhorn_iters = 0;
    float hc_eps = 0.0F;
    bool use_fp4_sparse_kv = true;

    EngramConfig engram;
    DraftConfig draft;
    VisionConfig vision;

    std::optional<TransformerConfig> transformer;  // set: one of the Llama-like families; V4.1's own fields are then unused

    // Every token that ends an answer.
    [[nodiscard]] std::vector<int32_t> end_token_ids() const;
    // Whether the layer routes to experts.
    [[nodiscard]] bool has_experts(int32_t layer) const;
    [[nodiscard]] int32_t ratio(int32_t layer) const { return compress_ratios[static_cast<size_t>(layer)]; }
    // The owner of what `layer` reads: the largest source id <= layer, -1 if there is none.
    [[nodiscard]] int32_t kv_source(int32_t layer) const;
    [[nodiscard]] int32_t index_source(int32_t layer) const;
    [[nodiscard]] int32_t index_k_source(int32_t layer) const;
    [[nodiscard]] bool is_kv_source(int32_t layer) const;
    [[nodiscard]] bool is_index_source(int32_t layer) const;
    [[nodiscard]] bool is_index_k_source(int32_t layer) const;
    // First layer with ratio 1 (the YoCo split), -1 if there is none.
    [[nodiscard]] int32_t split_layer() const;
    // Place of `layer` in engram.layer_ids, -1 if it has no Engram.
    [[nodiscard]] int32_t engram_index(int32_t layer) const;
};

// Tokens of one cache page.
inline constexpr int64_t kPageTokens = 128;

// `json_text` is the content of config.json. The error names key, value and what was expected.
[[nodiscard]] Result<ModelConfig> parse_model_config(std::string_view json_text);
// Reads `model`/config.json, or the metadata of `model` where that is a .gguf file.
[[nodiscard]] Result<ModelConfig> load_model_config(const std::string& model);

}  // namespace di
