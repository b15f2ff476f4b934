#include "weights/transformer_config.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/ranges.h>

#include "weights/limits.h"

namespace di {

namespace {

using Presence = ConfigReader::Presence;

// What tells the families apart before a file says anything.
struct Family {
    std::string_view architecture;
    std::string_view model_type;
    bool has_qkv_bias;  // always; else as attention_bias says
    bool reads_bias;    // attention_bias counts, for the output too
    bool has_head_norms;
    bool has_experts;
    bool always_slides;  // sliding_window counts without use_sliding_window
};

constexpr std::array kFamilies{
    Family{"LlamaForCausalLM", "llama", false, true, false, false, false},
    Family{"MistralForCausalLM", "mistral", false, false, false, false, true},
    Family{"Qwen2ForCausalLM", "qwen2", true, false, false, false, false},
    Family{"Qwen3ForCausalLM", "qwen3", false, true, true, false, false},
    Family{"Qwen3MoeForCausalLM", "qwen3_moe", false, true, true, true, false},
};

const Family* find_family(std::string_view architecture) {
    const auto* found = std::ranges::find(kFamilies, architecture, &Family::architecture);
    return found == kFamilies.end() ? nullptr : found;
}

void read_constants(ConfigReader& top, const Family& family) {
    top.must_be_text("model_type", family.model_type, Presence::kOptional);
    top.must_be_text("hidden_act", "silu", Presence::kOptional);
    top.must_be_boolean("mlp_bias", false, Presence::kOptional);
    top.must_be_number("pretraining_tp", 1, Presence::kOptional);
    top.must_be_number("partial_rotary_factor", 1, Presence::kOptional);
    if (top.has("quantization_config")) {
        top.reject("quantization_config", "none: weights in BF16, F16 or F32 (or a GGUF file)", ErrorCode::kUnsupported);
    }
}

// Transformers 5 writes `dtype`, those before `torch_dtype`.
void read_dtype(ConfigReader& top, ModelConfig& config) {
    const std::string_view key = top.has("dtype") ? "dtype" : "torch_dtype";
    const std::string dtype = top.text(key, "bfloat16");
    if (dtype != "bfloat16" && dtype != "float16" && dtype != "float32") {
        top.reject(key, "\"bfloat16\", \"float16\" or \"float32\"", ErrorCode::kUnsupported);
    }
    config.stored = dtype == "float32" ? StoredWeights::kPlain32 : StoredWeights::kPlain;
}

void read_widths(ConfigReader& top, ModelConfig& config, TransformerConfig& transformer) {
    config.vocab_size = top.integer("vocab_size", {1, limits::kVocabSizeMax});
    config.hidden_size = top.integer("hidden_size", {1, limits::kHiddenSizeMax});
    config.layer_count = top.small_integer("num_hidden_layers", {1, limits::kLayerCountMax});
    config.head_count = top.integer("num_attention_heads", {1, limits::kHeadCountMax});
    transformer.kv_head_count = top.integer("num_key_value_heads", {1, limits::kHeadCountMax}, config.head_count);
    config.head_dim = top.integer("head_dim", {1, limits::kHeadDimMax}, config.hidden_size / config.head_count);
    config.rope_dim = config.head_dim;
    config.rms_norm_eps = static_cast<float>(top.number("rms_norm_eps", {0.0, 1.0}));
    config.max_position_embeddings = top.integer("max_position_embeddings", {1, limits::kPositionsMax});
    transformer.intermediate_size = top.integer("intermediate_size", {1, limits::kIntermediateSizeMax});
    transformer.ties_embeddings = top.boolean("tie_word_embeddings", false);
}

void read_attention(ConfigReader& top, const Family& family, const ModelConfig& config, TransformerConfig& transformer) {
    if (family.reads_bias) {
        transformer.has_qkv_bias = transformer.has_output_bias = top.boolean("attention_bias", false);
    } else {
        top.must_be_boolean("attention_bias", family.has_qkv_bias, Presence::kOptional);
        transformer.has_qkv_bias = family.has_qkv_bias;
    }
    transformer.has_head_norms = family.has_head_norms;
    const bool slides = top.boolean("use_sliding_window", family.always_slides);
    if (slides && top.has("sliding_window") &&
        top.integer("sliding_window", {1, limits::kPositionsMax}) < config.max_position_embeddings) {
        top.reject("sliding_window",
                   fmt::format("none, or at least max_position_embeddings = {}: sliding windows are not in this version",
                               config.max_position_embeddings),
                   ErrorCode::kUnsupported);
    }
}

void read_scaling(ConfigReader& reader, const ModelConfig& config, TransformerRope& rope) {
    const std::string_view key = reader.has("rope_type") ? "rope_type" : "type";
    const std::string kind = reader.text(key, "default");
    if (kind == "default") {
        return;
    }
    if (kind != "linear" && kind != "llama3") {
        reader.reject(key, "\"default\", \"linear\" or \"llama3\"", ErrorCode::kUnsupported);
        return;
    }
    rope.factor = reader.number("factor", {1.0, 1e6});
    rope.kind = RopeKind::kLinear;
    if (kind == "llama3") {
        rope.kind = RopeKind::kLlama3;
        rope.low_frequency_factor = reader.number("low_freq_factor", {1e-6, 1e6});
        rope.high_frequency_factor = reader.number("high_freq_factor", {1e-6, 1e6});
        rope.original_max_position_embeddings =
            reader.integer("original_max_position_embeddings", {1, config.max_position_embeddings});
        if (rope.high_frequency_factor <= rope.low_frequency_factor) {
            reader.reject("high_freq_factor", fmt::format("more than low_freq_factor = {}", rope.low_frequency_factor));
        }
    }
}

// Transformers 5 keeps all of it in `rope_parameters`, those before rope_theta beside `rope_scaling`.
void read_rope(ConfigReader& top, ModelConfig& config, TransformerRope& rope, Status& status) {
    constexpr NumberRange kTheta{1.5, 1e12};  // its logarithm is a divisor
    constexpr double kUsualTheta = 10000.0;
    auto parameters = top.object("rope_parameters", Presence::kOptional);
    config.rope_theta = parameters && parameters->has("rope_theta") ? parameters->number("rope_theta", kTheta)
                                                                    : top.number("rope_theta", kTheta, kUsualTheta);
    auto scaling = parameters ? std::move(parameters) : top.object("rope_scaling", Presence::kOptional);
    if (scaling) {
        read_scaling(*scaling, config, rope);
        status = scaling->status();
    }
}

void read_experts(ConfigReader& top, ModelConfig& config, TransformerConfig& transformer) {
    config.routed_expert_count = top.small_integer("num_experts", {1, limits::kExpertCountMax});
    config.experts_per_token = top.small_integer("num_experts_per_tok", {1, std::max(1, config.routed_expert_count)});
    config.moe_intermediate_size = top.integer("moe_intermediate_size", {1, limits::kIntermediateSizeMax});
    transformer.normalises_expert_weights = top.boolean("norm_topk_prob", false);
    const int32_t step = top.small_integer("decoder_sparse_step", {1, limits::kLayerCountMax}, 1);
    const std::vector<int32_t> dense =
        top.small_integers("mlp_only_layers", {0, config.layer_count - 1}, config.layer_count, true);
    for (int32_t layer = 0; layer < config.layer_count; ++layer) {
        if ((layer + 1) % step != 0 || std::ranges::find(dense, layer) != dense.end()) {
            transformer.dense_layer_ids.push_back(layer);
        }
    }
}

// An answer may end with several ids. Files of pieces of models have none, and ids that are not there are none.
void read_token_ids(ConfigReader& top, ModelConfig& config) {
    constexpr int64_t kEndsMax = 64;
    const IntegerRange range{0, config.vocab_size - 1};
    const std::vector<int32_t> ends = top.one_or_more("eos_token_id", range, kEndsMax);
    if (ends.empty()) {
        top.reject("eos_token_id", fmt::format("an integer from 0 to {}, or a list of such", range.max));
        return;
    }
    config.eos_token_id = ends.front();
    config.other_eos_token_ids.assign(ends.begin() + 1, ends.end());
    config.bos_token_id = top.small_integer("bos_token_id", range, config.eos_token_id);
    // -1 is how some files say that there is none.
    const int32_t pad = top.small_integer("pad_token_id", {-1, range.max}, -1);
    config.pad_token_id = pad < 0 ? config.eos_token_id : pad;
}

}  // namespace

bool is_transformer(std::string_view architecture) { return find_family(architecture) != nullptr; }

std::string transformer_architectures() {
    std::vector<std::string_view> names;
    for (const Family& family : kFamilies) {
        names.push_back(family.architecture);
    }
    return fmt::format("{}", fmt::join(names, ", "));
}

Status check_transformer_config(const ModelConfig& config) {
    const TransformerConfig& transformer = *config.transformer;
    if (config.head_count % transformer.kv_head_count != 0) {
        return fail(ErrorCode::kInvalidFile, "num_attention_heads is {}, expected a multiple of num_key_value_heads = {}",
                    config.head_count, transformer.kv_head_count);
    }
    if (config.head_dim < 2 || config.head_dim % 2 != 0) {
        return fail(ErrorCode::kInvalidFile, "head_dim is {}, expected an even number from 2 on", config.head_dim);
    }
    if (!transformer.rope.divisors.empty() && std::ssize(transformer.rope.divisors) != config.rope_dim / 2) {
        return fail(ErrorCode::kInvalidFile, "{} divisors of rope frequencies, expected {} (half of head_dim)",
                    transformer.rope.divisors.size(), config.rope_dim / 2);
    }
    const int64_t experts = int64_t{config.layer_count} * config.routed_expert_count;
    if (experts > limits::kExpertTotalMax) {
        return fail(ErrorCode::kInvalidFile, "the layers have {} experts together, expected at most {}", experts,
                    limits::kExpertTotalMax);
    }
    return {};
}

Result<ModelConfig> read_transformer_config(ConfigReader& top, std::string_view architecture) {
    const Family& family = *find_family(architecture);
    ModelConfig config;
    config.architecture = architecture;
    config.adds_bos = false;  // the tokenizer's files say whether one is added
    TransformerConfig transformer;
    Status rope;
    read_constants(top, family);
    read_dtype(top, config);
    read_widths(top, config, transformer);
    DI_TRY_STATUS(top.status());  // the bounds below are made from these values
    read_attention(top, family, config, transformer);
    read_rope(top, config, transformer.rope, rope);
    if (family.has_experts) {
        read_experts(top, config, transformer);
    }
    read_token_ids(top, config);
    DI_TRY_STATUS(rope);
    DI_TRY_STATUS(top.status());
    config.transformer = std::move(transformer);
    DI_TRY_STATUS(check_transformer_config(config));
    return config;
}

}  // namespace di
