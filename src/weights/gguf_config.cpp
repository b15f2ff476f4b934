#include "weights/gguf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weights/json_events.h"
#include "weights/limits.h"
#include "weights/transformer_config.h"

namespace di {

namespace {

// What tells the families apart before a file says anything.
struct Family {
    std::string_view name;          // general.architecture
    std::string_view architecture;  // as config.json calls it
    bool has_adjacent_pairs;        // rows of queries and keys are in the order of adjacent rotary pairs
    bool has_head_norms;
    bool has_experts;
};

constexpr std::array kFamilies{
    Family{"llama", "LlamaForCausalLM", true, false, false},
    Family{"qwen2", "Qwen2ForCausalLM", false, false, false},
    Family{"qwen3", "Qwen3ForCausalLM", false, true, false},
    Family{"qwen3moe", "Qwen3MoeForCausalLM", false, true, true},
};

Result<Family> find_family(const GgufMetadata& metadata) {
    DI_TRY(const std::string_view name, metadata.text("general.architecture"));
    const auto* found = std::ranges::find(kFamilies, name, &Family::name);
    if (found == kFamilies.end()) {
        return fail(ErrorCode::kUnsupported, "general.architecture is \"{}\", expected llama, qwen2, qwen3 or qwen3moe",
                    quoted_for_message(name));
    }
    return *found;
}

// Reads one file. Keys of a family begin with its name: "llama.block_count".
class Reader {
  public:
    Reader(const GgufFile& file, const Family& family) : file_(file), metadata_(file.metadata()), family_(family) {}

    Result<ModelConfig> read() {
        config_.architecture = family_.architecture;
        DI_TRY_STATUS(read_widths());
        DI_TRY_STATUS(read_tensors());
        DI_TRY_STATUS(read_rope());
        DI_TRY_STATUS(read_experts());
        DI_TRY_STATUS(refuse_others());
        DI_TRY_STATUS(read_token_ids());
        config_.transformer = std::move(transformer_);
        DI_TRY_STATUS(check_transformer_config(config_));
        return std::move(config_);
    }

  private:
    [[nodiscard]] std::string key(std::string_view name) const { return fmt::format("{}.{}", family_.name, name); }

    Result<int64_t> integer(std::string_view name, GgufMetadata::IntegerRange range,
                            std::optional<int64_t> fallback = std::nullopt) const {
        return metadata_.integer(key(name), range, fallback);
    }

    Status read_widths() {
        DI_TRY(const int64_t layers, integer("block_count", {1, limits::kLayerCountMax}));
        config_.layer_count = static_cast<int32_t>(layers);
        DI_TRY(config_.hidden_size, integer("embedding_length", {1, limits::kHiddenSizeMax}));
        DI_TRY(config_.max_position_embeddings, integer("context_length", {1, limits::kPositionsMax}));
        DI_TRY(config_.head_count, integer("attention.head_count", {1, limits::kHeadCountMax}));
        DI_TRY(transformer_.kv_head_count, integer("attention.head_count_kv", {1, limits::kHeadCountMax}, config_.head_count));
        const int64_t usual_dim = config_.hidden_size / config_.head_count;
        DI_TRY(config_.head_dim, integer("attention.key_length", {1, limits::kHeadDimMax}, usual_dim));
        DI_TRY(const int64_t value_dim, integer("attention.value_length", {1, limits::kHeadDimMax}, config_.head_dim));
        if (value_dim != config_.head_dim) {
            return fail(ErrorCode::kUnsupported, "{} is {}, expected the {} of the keys", key("attention.value_length"),
                        value_dim, config_.head_dim);
        }
        // A model of experts alone has none of these layers.
        const auto width = family_.has_experts ? std::optional<int64_t>(1) : std::nullopt;
        DI_TRY(transformer_.intermediate_size, integer("feed_forward_length", {1, limits::kIntermediateSizeMax}, width));
        DI_TRY(const double epsilon, metadata_.number(key("attention.layer_norm_rms_epsilon"), {0.0, 1.0}));
        config_.rms_norm_eps = static_cast<float>(epsilon);
        return {};
    }

    [[nodiscard]] const GgufTensor* find_tensor(std::string_view name) const {
        const auto& tensors = file_.header().tensors;
        const auto found = std::ranges::find(tensors, name, &GgufTensor::name);
        return found == tensors.end() ? nullptr : &*found;
    }

    // What only the tensors tell.
    Status read_tensors() {
        const GgufTensor* embedding = find_tensor("token_embd.weight");
        if (embedding == nullptr) {
            return fail(ErrorCode::kNotFound, "tensor token_embd.weight is missing, expected the embedding");
        }
        config_.vocab_size = embedding->shape.front();
        if (config_.vocab_size > limits::kVocabSizeMax) {
            return fail(ErrorCode::kInvalidFile, "token_embd.weight has {} rows, expected at most {}", config_.vocab_size,
                        limits::kVocabSizeMax);
        }
        transformer_.ties_embeddings = find_tensor("output.weight") == nullptr;
        transformer_.has_qkv_bias = find_tensor("blk.0.attn_q.bias") != nullptr;
        transformer_.has_output_bias = find_tensor("blk.0.attn_output.bias") != nullptr;
        transformer_.has_head_norms = family_.has_head_norms;
        return {};
    }

    Status read_rope() {
        DI_TRY(config_.rope_dim, integer("rope.dimension_count", {1, limits::kHeadDimMax}, config_.head_dim));
        if (config_.rope_dim != config_.head_dim) {
            return fail(ErrorCode::kUnsupported, "{} is {}, expected {}: rotation of a part of the head is not supported",
                        key("rope.dimension_count"), config_.rope_dim, config_.head_dim);
        }
        constexpr GgufMetadata::NumberRange kTheta{.min = 1.5, .max = 1e12};  // its logarithm is a divisor
        constexpr GgufMetadata::NumberRange kFactor{.min = 1.0, .max = 1e6};
        constexpr double kUsualTheta = 10000.0;
        DI_TRY(config_.rope_theta, metadata_.number(key("rope.freq_base"), kTheta, kUsualTheta));
        TransformerRope& rope = transformer_.rope;
        rope.has_adjacent_pairs = family_.has_adjacent_pairs;
        // Files from before 2024 have the factor alone.
        DI_TRY(const double old_factor, metadata_.number(key("rope.scale_linear"), kFactor, 1.0));
        DI_TRY(const std::string_view kind,
               metadata_.text(key("rope.scaling.type"),
                              old_factor == 1.0 ? std::string_view("none") : std::string_view("linear")));
        if (kind == "linear") {
            DI_TRY(rope.factor, metadata_.number(key("rope.scaling.factor"), kFactor, old_factor));
            rope.kind = RopeKind::kLinear;
        } else if (kind != "none") {
            return fail(ErrorCode::kUnsupported, "{} is \"{}\", expected \"none\" or \"linear\"", key("rope.scaling.type"),
                        quoted_for_message(kind));
        }
        return read_divisors(rope);
    }

    // Llama 3.1 and later bring the divisors of the frequencies as a tensor.
    Status read_divisors(TransformerRope& rope) {
        const GgufTensor* tensor = find_tensor("rope_freqs.weight");
        if (tensor == nullptr) {
            return {};
        }
        if (tensor->dtype != DType::kF32 || tensor->shape != std::vector<int64_t>{config_.rope_dim / 2}) {
            return fail(ErrorCode::kInvalidFile, "rope_freqs.weight is {} with {} values, expected {} of f32",
                        dtype_name(tensor->dtype), tensor->shape.back(), config_.rope_dim / 2);
        }
        rope.divisors.resize(static_cast<size_t>(config_.rope_dim / 2));
        std::memcpy(rope.divisors.data(), file_.data(*tensor), rope.divisors.size() * sizeof(float));
        for (const float divisor : rope.divisors) {
            if (!(divisor > 0.0F) || !std::isfinite(divisor)) {
                return fail(ErrorCode::kInvalidFile, "rope_freqs.weight holds {}, expected positive numbers", divisor);
            }
        }
        return {};
    }

    Status read_experts() {
        DI_TRY(const int64_t count, integer("expert_count", {0, limits::kExpertCountMax},
                                            family_.has_experts ? std::nullopt : std::optional<int64_t>(0)));
        if (!family_.has_experts) {
            return count == 0
                       ? Status{}
                       : fail(ErrorCode::kUnsupported, "{} is {}, expected none: experts are only supported for qwen3moe",
                              key("expert_count"), count);
        }
        config_.routed_expert_count = static_cast<int32_t>(count);
        DI_TRY(const int64_t used, integer("expert_used_count", {1, std::max<int64_t>(1, count)}));
        config_.experts_per_token = static_cast<int32_t>(used);
        DI_TRY(config_.moe_intermediate_size, integer("expert_feed_forward_length", {1, limits::kIntermediateSizeMax}));
        transformer_.normalises_expert_weights = true;  // as this family always does
        return {};
    }

    // What would change the result and is not done here.
    Status refuse_others() const {
        DI_TRY(const int64_t window, integer("attention.sliding_window", {0, limits::kPositionsMax}, 0));
        if (window > 0 && window < config_.max_position_embeddings) {
            return fail(ErrorCode::kUnsupported, "{} is {}, expected none, or at least the context of {}",
                        key("attention.sliding_window"), window, config_.max_position_embeddings);
        }
        for (const std::string_view name : {"logit_scale", "residual_scale", "embedding_scale", "attention.scale",
                                            "expert_shared_count", "expert_weights_scale", "attn_logit_softcapping",
                                            "final_logit_softcapping", "attention.clamp_kqv", "attention.max_alibi_bias"}) {
            if (metadata_.has(key(name))) {
                return fail(ErrorCode::kUnsupported, "{} is {}, expected no such key: it is not supported", key(name),
                            metadata_.shown(key(name)));
            }
        }
        DI_TRY(const bool adds_eos, metadata_.boolean("tokenizer.ggml.add_eos_token", false));
        if (adds_eos) {
            return fail(ErrorCode::kUnsupported, "tokenizer.ggml.add_eos_token is true, expected false: prompts are continued");
        }
        return {};
    }

    Result<int32_t> token_id(std::string_view name) const {
        const std::string full_key = fmt::format("tokenizer.ggml.{}", name);
        if (!metadata_.has(full_key)) {
            return -1;
        }
        DI_TRY(const int64_t id, metadata_.integer(full_key, {0, config_.vocab_size - 1}));
        return static_cast<int32_t>(id);
    }

    Status read_token_ids() {
        DI_TRY(config_.bos_token_id, token_id("bos_token_id"));
        DI_TRY(config_.eos_token_id, token_id("eos_token_id"));
        DI_TRY(config_.pad_token_id, token_id("padding_token_id"));
        DI_TRY(const std::string_view model, metadata_.text("tokenizer.ggml.model", ""));
        DI_TRY(const std::string_view kind, metadata_.text("tokenizer.ggml.pre", ""));
        // The rule of those who write these files: sentence pieces and Llama 3 begin with it unless the file says no.
        const bool usually = model == "llama" || kind == "llama-bpe" || kind == "llama3" || kind == "llama-v3";
        DI_TRY(const bool adds_bos, metadata_.boolean("tokenizer.ggml.add_bos_token", usually));
        config_.adds_bos = adds_bos && config_.bos_token_id >= 0;
        return {};
    }

    const GgufFile& file_;
    const GgufMetadata& metadata_;
    const Family& family_;
    ModelConfig config_;
    TransformerConfig transformer_;
};

}  // namespace

Result<ModelConfig> read_gguf_config(const GgufFile& file) {
    auto family = find_family(file.metadata());
    if (!family) {
        return fail_in(file.path(), std::move(family.error()));
    }
    auto config = Reader(file, *family).read();
    if (!config) {
        return fail_in(file.path(), std::move(config.error()));
    }
    return config;
}

}  // namespace di
