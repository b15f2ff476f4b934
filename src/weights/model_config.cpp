#include "weights/model_config.h"

#include <algorithm>
#include <utility>

#include "base/file_io.h"
#include "weights/config_checks.h"
#include "weights/config_reader.h"
#include "weights/gguf_config.h"
#include "weights/gguf_tensors.h"
#include "weights/inventory.h"
#include "weights/limits.h"
#include "weights/transformer_config.h"

namespace di {

namespace {

using Presence = ConfigReader::Presence;

constexpr IntegerRange kAnyWidth{1, limits::kHiddenSizeMax};

// The largest source <= layer; the lists are strictly increasing.
int32_t owner_of(const std::vector<int32_t>& sources, int32_t layer) {
    const auto above = std::ranges::upper_bound(sources, layer);
    return above == sources.begin() ? -1 : *std::prev(above);
}

void read_architecture(ConfigReader& top, ModelConfig& config) {
    config.architecture = "DeepseekV41ForCausalLM";
    if (top.only_text("architectures") != config.architecture) {
        top.reject("architectures", fmt::format("[\"{}\"] or one of {}", config.architecture, transformer_architectures()),
                   ErrorCode::kUnsupported);
    }
    top.must_be_text("model_type", "deepseek_v41", Presence::kRequired);
    top.must_be_text("dtype", "bfloat16", top.has("torch_dtype") ? Presence::kOptional : Presence::kRequired);
    top.must_be_text("torch_dtype", "bfloat16", Presence::kOptional);
    top.must_be_boolean("tie_word_embeddings", false, Presence::kOptional);
}

void read_quantization(ConfigReader& top, ModelConfig& config, Status& status) {
    auto object = top.object("quantization_config", Presence::kOptional);
    if (!object) {
        return;
    }
    ConfigReader& reader = *object;
    reader.must_be_text("quant_method", "fp8", Presence::kRequired);
    reader.must_be_text("activation_scheme", "dynamic", Presence::kRequired);
    reader.must_be_integers("weight_block_size", {32, 32}, Presence::kRequired);
    reader.must_be_text("scale_fmt", "ue8m0", Presence::kRequired);
    reader.must_be_text("expert_dtype", "fp4", Presence::kRequired);
    config.stored = StoredWeights::kFp8Fp4;
    status = reader.status();
}

// Special ids stand at the top; some writers repeat them, or have them only, in text_config.
void read_token_ids(ConfigReader& top, ConfigReader& text, ModelConfig& config) {
    const IntegerRange range{0, config.vocab_size - 1};
    const auto read = [&](std::string_view key, int32_t fallback) {
        return top.has(key) || !text.has(key) ? top.small_integer(key, range, fallback) : text.small_integer(key, range);
    };
    config.bos_token_id = read("bos_token_id", config.bos_token_id);
    config.eos_token_id = read("eos_token_id", config.eos_token_id);
    config.pad_token_id = read("pad_token_id", config.pad_token_id);
    if (top.has("image_token_id")) {
        config.image_token_id = top.small_integer("image_token_id", range);
    }
    const std::string policy = top.text("tokenizer_compatibility", "release");
    if (policy != "release" && policy != "native") {
        top.reject("tokenizer_compatibility", "\"release\" or \"native\"");
    }
    config.adds_bos = policy == "release";
}

void read_constants(ConfigReader& text) {
    text.must_be_text("model_type", "deepseek_v41_text", Presence::kOptional);
    text.must_be_number("num_key_value_heads", 1, Presence::kOptional);
    text.must_be_text("hidden_act", "silu", Presence::kOptional);
    text.must_be_boolean("attention_bias", false, Presence::kOptional);
    text.must_be_number("attention_dropout", 0.0, Presence::kOptional);
    text.must_be_boolean("tie_word_embeddings", false, Presence::kOptional);
    text.must_be_text("scoring_func", "sqrtsoftplus", Presence::kOptional);
    text.must_be_text("topk_method", "noaux_tc", Presence::kOptional);
    text.must_be_boolean("norm_topk_prob", true, Presence::kOptional);
    text.must_be_boolean("hc_shifted", true, Presence::kOptional);
}

void read_widths(ConfigReader& text, ModelConfig& config) {
    config.vocab_size = text.integer("vocab_size", {1, limits::kVocabSizeMax});
    config.hidden_size = text.integer("hidden_size", kAnyWidth);
    config.layer_count = text.small_integer("num_hidden_layers", {1, limits::kLayerCountMax});
    config.head_count = text.integer("num_attention_heads", {1, limits::kHeadCountMax});
    config.head_dim = text.integer("head_dim", {1, limits::kHeadDimMax});
    config.rope_dim = text.integer("qk_rope_head_dim", {2, limits::kHeadDimMax});
    config.q_lora_rank = text.integer("q_lora_rank", {1, limits::kLoraRankMax});
    config.o_lora_rank = text.integer("o_lora_rank", {1, limits::kLoraRankMax});
    config.o_groups = text.integer("o_groups", {1, limits::kHeadCountMax});
    config.rms_norm_eps = static_cast<float>(text.number("rms_norm_eps", {0.0, 1.0}));
    config.swiglu_limit = static_cast<float>(text.number("swiglu_limit", {1e-6, 1e6}));
    config.max_position_embeddings = text.integer("max_position_embeddings", {1, limits::kPositionsMax});
    config.sliding_window = text.integer("sliding_window", {1, limits::kSlidingWindowMax});
    config.hc_mult = text.small_integer("hc_mult", {1, limits::kStreamCountMax});
    config.hc_sinkhorn_iters = text.small_integer("hc_sinkhorn_iters", {1, limits::kSinkhornItersMax});
    config.hc_eps = static_cast<float>(text.number("hc_eps", {0.0, 1.0}));
    config.use_fp4_sparse_kv = text.boolean("use_fp4_sparse_kv", true);
}

void read_experts(ConfigReader& text, ModelConfig& config) {
    config.moe_intermediate_size = text.integer("moe_intermediate_size", {1, limits::kIntermediateSizeMax});
    config.routed_expert_count = text.small_integer("n_routed_experts", {1, limits::kExpertCountMax});
    config.shared_expert_count = text.small_integer("n_shared_experts", {1, limits::kSharedExpertCountMax});
    config.experts_per_token = text.small_integer("num_experts_per_tok", {1, config.routed_expert_count});
    config.routed_scaling_factor = static_cast<float>(text.number("routed_scaling_factor", {1e-6, 1e6}));
}

// Layers that compress ask for the keys below; a model of window layers only needs none of them.
void read_sparse_attention(ConfigReader& text, ModelConfig& config) {
    const IntegerRange layers{0, config.layer_count - 1};
    config.compress_ratios =
        text.small_integers("compress_ratios", {0, kPageTokens}, limits::kLayerCountMax + limits::kDraftStageCountMax);
    const bool has_compressed = std::ranges::any_of(config.compress_ratios, [](int32_t ratio) { return ratio > 0; });
    const bool is_optional = !has_compressed;
    config.kv_source_layer_ids = text.small_integers("kv_source_layer_ids", layers, config.layer_count, is_optional);
    config.index_source_layer_ids = text.small_integers("index_source_layer_ids", layers, config.layer_count, is_optional);
    config.index_k_source_layer_ids = text.has("index_k_source_layer_ids")
                                          ? text.small_integers("index_k_source_layer_ids", layers, config.layer_count)
                                          : config.kv_source_layer_ids;
    const std::optional<int64_t> absent = is_optional ? std::optional<int64_t>(0) : std::nullopt;
    config.index_head_count = text.integer("index_n_heads", {1, limits::kHeadCountMax}, absent);
    config.index_head_dim = text.integer("index_head_dim", {1, limits::kHeadDimMax}, absent);
    config.index_topk = text.integer("index_topk", {1, limits::kIndexTopkMax}, absent);
    const int32_t candidate = text.small_integer("candidate_source_layer_id", {-1, config.layer_count - 1}, -1);
    if (candidate >= 0) {
        config.candidate_source_layer_id = candidate;
        config.candidate_topk_blocks = text.integer("candidate_topk_blocks", {1, limits::kCandidateBlocksMax});
        config.candidate_block_size = text.integer("candidate_block_size", {1, kPageTokens});
    }
}

void read_rope(ConfigReader& text, ModelConfig& config, Status& status) {
    constexpr NumberRange kTheta{1.5, 1e12};  // its logarithm is a divisor
    config.rope_theta = text.number("rope_theta", kTheta);
    const bool has_compressed = std::ranges::any_of(config.compress_ratios, [](int32_t ratio) { return ratio > 0; });
    const auto presence = has_compressed ? Presence::kRequired : Presence::kOptional;
    config.compress_rope_theta =
        text.number("compress_rope_theta", kTheta, has_compressed ? std::nullopt : std::optional(config.rope_theta));
    config.rope_scaling.original_max_position_embeddings = config.max_position_embeddings;
    auto object = text.object("rope_scaling", presence);
    if (!object) {
        return;
    }
    ConfigReader& reader = *object;
    reader.must_be_text("rope_type", "yarn", reader.has("type") ? Presence::kOptional : Presence::kRequired);
    reader.must_be_text("type", "yarn", Presence::kOptional);
    config.rope_scaling.factor = reader.number("factor", {1.0, 1e6});
    config.rope_scaling.beta_fast = reader.number("beta_fast", {1e-6, 1e6}, config.rope_scaling.beta_fast);
    config.rope_scaling.beta_slow = reader.number("beta_slow", {1e-6, 1e6}, config.rope_scaling.beta_slow);
    config.rope_scaling.original_max_position_embeddings =
        reader.integer("original_max_position_embeddings", {1, limits::kPositionsMax});
    if (config.rope_scaling.beta_fast < config.rope_scaling.beta_slow) {
        reader.reject("beta_fast", fmt::format("at least beta_slow = {}", config.rope_scaling.beta_slow));
    }
    status = reader.status();
}

void read_engram(ConfigReader& text, ModelConfig& config) {
    EngramConfig& engram = config.engram;
    engram.layer_ids = text.small_integers("engram_layer_ids", {0, config.layer_count - 1}, limits::kEngramLayersMax, true);
    if (!engram.present()) {
        return;
    }
    engram.table_rows = text.integers("engram_num_embeddings", {1, limits::kTableRowsMax}, limits::kEngramLayersMax);
    engram.max_ngram_size = text.small_integer("engram_max_ngram_size", {2, limits::kNgramSizeMax});
    engram.head_count = text.small_integer("engram_n_heads", {1, limits::kEngramHeadsMax});
    engram.head_dim = text.integer("engram_head_dim", {1, limits::kHeadDimMax});
    engram.vocab_size = text.integer("engram_vocab_size", {1, limits::kEngramVocabMax});
    engram.pad_token_id = text.small_integer("engram_pad_token_id", {0, config.vocab_size - 1});
    engram.compressed_vocab_size = text.integer("engram_compressed_vocab_size", {1, config.vocab_size});
}

void read_draft(ConfigReader& text, ModelConfig& config) {
    DraftConfig& draft = config.draft;
    draft.stage_count = text.small_integer("num_nextn_predict_layers", {0, limits::kDraftStageCountMax}, 0);
    if (!draft.present()) {
        return;
    }
    draft.block_size = text.small_integer("dspark_block_size", {1, limits::kDraftBlockMax});
    draft.noise_token_id = text.small_integer("dspark_noise_token_id", {0, config.vocab_size - 1});
    draft.target_layer_ids = text.small_integers("dspark_target_layer_ids", {0, config.layer_count - 1}, config.layer_count);
    draft.markov_rank = text.integer("dspark_markov_rank", {1, limits::kLoraRankMax});
    draft.routed_expert_count = text.small_integer("dspark_n_routed_experts", {1, limits::kExpertCountMax});
    draft.experts_per_token = text.small_integer("dspark_num_experts_per_tok", {1, draft.routed_expert_count});
    draft.captures_attention_input = text.boolean("dspark_target_attn_input", true);
}

void read_vision(ConfigReader& top, ModelConfig& config, Status& status) {
    auto object = top.object("vision_config", Presence::kOptional);
    if (!object) {
        return;
    }
    VisionConfig& vision = config.vision;
    ConfigReader& reader = *object;
    vision.layer_count = reader.small_integer("num_hidden_layers", {0, limits::kLayerCountMax}, 0);
    if (vision.present()) {
        reader.must_be_text("model_type", "deepseek_v41_vision", Presence::kOptional);
        vision.hidden_size = reader.integer("hidden_size", {4, limits::kVisionHiddenMax});
        vision.head_count = reader.integer("num_attention_heads", {1, limits::kHeadCountMax});
        vision.intermediate_size = reader.integer("intermediate_size", {1, limits::kIntermediateSizeMax});
        vision.patch_size = reader.integer("patch_size", {1, limits::kPatchSizeMax});
        vision.downsample_ratio = reader.integer("downsample_ratio", {1, limits::kDownsampleMax});
        vision.rope_theta = reader.number("rope_theta", {1.5, 1e12});
        // The smallest span, one cell with its three markers, takes four tokens.
        vision.max_image_tokens = reader.integer("max_image_tokens", {4, limits::kImageTokensMax});
        vision.min_pixels = reader.integer("min_pixels", {0, limits::kMinPixelsMax});
        if (reader.has("max_wh_ratio")) {
            vision.max_wh_ratio = reader.number("max_wh_ratio", {1.0, 1e6});
        }
        if (vision.hidden_size % (4 * vision.head_count) != 0) {
            reader.reject("hidden_size", fmt::format("a multiple of 4 * num_attention_heads = {}", 4 * vision.head_count));
        }
        if (!top.has("image_token_id")) {
            top.reject("image_token_id", "an id, because vision_config has layers");
        }
    }
    status = reader.status();
}

// A flaw of an inner object is found before the flaws of values that depend on it.
Status first_error(std::initializer_list<Status> statuses) {
    for (const Status& status : statuses) {
        if (!status) {
            return status;
        }
    }
    return {};
}

}  // namespace

bool ModelConfig::has_experts(int32_t layer) const {
    return routed_expert_count > 0 && !(transformer && std::ranges::binary_search(transformer->dense_layer_ids, layer));
}

int32_t ModelConfig::kv_source(int32_t layer) const { return owner_of(kv_source_layer_ids, layer); }
int32_t ModelConfig::index_source(int32_t layer) const { return owner_of(index_source_layer_ids, layer); }
int32_t ModelConfig::index_k_source(int32_t layer) const { return owner_of(index_k_source_layer_ids, layer); }
bool ModelConfig::is_kv_source(int32_t layer) const { return layer >= 0 && kv_source(layer) == layer; }
bool ModelConfig::is_index_source(int32_t layer) const { return layer >= 0 && index_source(layer) == layer; }
bool ModelConfig::is_index_k_source(int32_t layer) const { return layer >= 0 && index_k_source(layer) == layer; }

int32_t ModelConfig::split_layer() const {
    for (int32_t layer = 0; layer < layer_count; ++layer) {
        if (ratio(layer) == 1) {
            return layer;
        }
    }
    return -1;
}

std::vector<int32_t> ModelConfig::end_token_ids() const {
    std::vector<int32_t> ids = other_eos_token_ids;
    if (eos_token_id >= 0) {
        ids.insert(ids.begin(), eos_token_id);
    }
    return ids;
}

int32_t ModelConfig::engram_index(int32_t layer) const {
    const auto found = std::ranges::find(engram.layer_ids, layer);
    return found == engram.layer_ids.end() ? -1 : static_cast<int32_t>(found - engram.layer_ids.begin());
}

Result<ModelConfig> parse_model_config(std::string_view json_text) {
    DI_TRY(ConfigReader top, ConfigReader::parse(json_text));
    if (const auto architecture = top.only_text("architectures"); architecture && is_transformer(*architecture)) {
        return read_transformer_config(top, *architecture);
    }
    ModelConfig config;
    Status quantization;
    read_architecture(top, config);
    read_quantization(top, config, quantization);
    DI_TRY_STATUS(first_error({top.status(), quantization}));

    auto text_object = top.object("text_config", Presence::kRequired);
    if (!text_object) {
        return tl::unexpected<Error>(top.status().error());
    }
    ConfigReader& text = *text_object;
    Status rope;
    Status vision;
    read_constants(text);
    read_widths(text, config);
    DI_TRY_STATUS(text.status());  // the bounds below are made from these values
    read_experts(text, config);
    read_sparse_attention(text, config);
    read_rope(text, config, rope);
    read_engram(text, config);
    read_draft(text, config);
    read_token_ids(top, text, config);
    read_vision(top, config, vision);
    DI_TRY_STATUS(first_error({text.status(), rope, vision, top.status()}));
    DI_TRY_STATUS(check_model_config(config));
    return config;
}

Result<ModelConfig> load_model_config(const std::string& model) {
    if (is_gguf_path(model)) {
        DI_TRY(const GgufFile file, GgufFile::open(model));
        DI_TRY(ModelConfig config, read_gguf_config(file));
        DI_TRY(const std::vector<GgufPart> parts, match_gguf_tensors(file, expected_tensors(config)));
        for (const GgufPart& part : parts) {
            config.file_dtypes.push_back(part.dtype);
        }
        return config;
    }
    const std::string path = model + "/config.json";
    DI_TRY(const std::string json_text, read_file(path, limits::kConfigBytesMax));
    auto config = parse_model_config(json_text);
    if (!config) {
        return fail_in(path, std::move(config.error()));
    }
    return config;
}

}  // namespace di
