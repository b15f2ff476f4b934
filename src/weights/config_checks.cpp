#include "weights/config_checks.h"

#include <algorithm>
#include <functional>
#include <set>
#include <span>
#include <string_view>

#include "weights/engram_primes.h"
#include "weights/limits.h"

namespace di {

namespace {

struct NamedSize {
    std::string_view name;
    int64_t value;
};

Status check_widths(const ModelConfig& config) {
    // Scales cover 32 values along a row, in weights, activations and caches alike.
    const NamedSize quantised[] = {
        {"text_config.hidden_size", config.hidden_size},
        {"text_config.head_dim", config.head_dim},
        {"text_config.q_lora_rank", config.q_lora_rank},
        {"text_config.o_lora_rank", config.o_lora_rank},
        {"text_config.moe_intermediate_size", config.moe_intermediate_size},
        {"text_config.index_head_dim", config.index_head_dim},
        {"text_config.engram_head_dim", config.engram.head_dim},
    };
    for (const NamedSize& size : quantised) {
        if (size.value % 32 != 0) {
            return fail(ErrorCode::kInvalidFile, "{} is {}, expected a multiple of 32", size.name, size.value);
        }
    }
    if (config.head_count % config.o_groups != 0) {
        return fail(ErrorCode::kInvalidFile, "text_config.num_attention_heads is {}, expected a multiple of o_groups = {}",
                    config.head_count, config.o_groups);
    }
    const bool has_index = !config.index_source_layer_ids.empty();
    const int64_t rope_max = has_index ? std::min(config.head_dim, config.index_head_dim) : config.head_dim;
    if (config.rope_dim % 2 != 0 || config.rope_dim > rope_max) {
        return fail(ErrorCode::kInvalidFile, "text_config.qk_rope_head_dim is {}, expected an even number of at most {} ({})",
                    config.rope_dim, rope_max, has_index ? "the smaller of head_dim and index_head_dim" : "head_dim");
    }
    const int64_t experts = int64_t{config.layer_count} * config.routed_expert_count +
                            int64_t{config.draft.stage_count} * config.draft.routed_expert_count;
    if (experts > limits::kExpertTotalMax) {
        return fail(ErrorCode::kInvalidFile, "layers and stages have {} routed experts together, expected at most {}", experts,
                    limits::kExpertTotalMax);
    }
    return {};
}

Status check_ratios(const ModelConfig& config) {
    const int64_t expected = int64_t{config.layer_count} + config.draft.stage_count;
    if (std::ssize(config.compress_ratios) != expected) {
        return fail(ErrorCode::kInvalidFile,
                    "text_config.compress_ratios has {} entries, expected {} (num_hidden_layers + num_nextn_predict_layers)",
                    config.compress_ratios.size(), expected);
    }
    for (int32_t layer = 0; layer < expected; ++layer) {
        const int32_t ratio = config.ratio(layer);
        if (ratio != 0 && kPageTokens % ratio != 0) {
            return fail(ErrorCode::kInvalidFile, "text_config.compress_ratios[{}] is {}, expected 0 or a divisor of {}", layer,
                        ratio, kPageTokens);
        }
        if (ratio != 0 && layer >= config.layer_count) {
            return fail(ErrorCode::kInvalidFile, "text_config.compress_ratios[{}] is {}, expected 0 for a draft stage", layer,
                        ratio);
        }
    }
    return {};
}

// Sources ascend, compress, and each is also in `within`.
Status check_source_list(const ModelConfig& config, std::string_view name, std::span<const int32_t> sources,
                         std::string_view within_name, std::span<const int32_t> within) {
    for (size_t i = 0; i < sources.size(); ++i) {
        if (i > 0 && sources[i] <= sources[i - 1]) {
            return fail(ErrorCode::kInvalidFile, "text_config.{} has {} after {}, expected strictly increasing layers", name,
                        sources[i], sources[i - 1]);
        }
        if (config.ratio(sources[i]) == 0) {
            return fail(ErrorCode::kInvalidFile, "text_config.{} contains layer {}, whose compress_ratio is 0", name,
                        sources[i]);
        }
        if (std::ranges::find(within, sources[i]) == within.end()) {
            return fail(ErrorCode::kInvalidFile, "text_config.{} contains layer {}, expected it in {} too", name, sources[i],
                        within_name);
        }
    }
    return {};
}

Status check_sources(const ModelConfig& config) {
    DI_TRY_STATUS(check_source_list(config, "index_source_layer_ids", config.index_source_layer_ids, "index_source_layer_ids",
                                    config.index_source_layer_ids));
    DI_TRY_STATUS(check_source_list(config, "index_k_source_layer_ids", config.index_k_source_layer_ids,
                                    "index_source_layer_ids", config.index_source_layer_ids));
    DI_TRY_STATUS(check_source_list(config, "kv_source_layer_ids", config.kv_source_layer_ids, "index_k_source_layer_ids",
                                    config.index_k_source_layer_ids));
    for (int32_t layer = 0; layer < config.layer_count; ++layer) {
        if (config.ratio(layer) == 0) {
            continue;
        }
        const NamedSize owners[] = {{"kv_source_layer_ids", config.kv_source(layer)},
                                    {"index_source_layer_ids", config.index_source(layer)},
                                    {"index_k_source_layer_ids", config.index_k_source(layer)}};
        for (const NamedSize& owner : owners) {
            if (owner.value < 0) {
                return fail(ErrorCode::kInvalidFile,
                            "layer {} has compress_ratio {}, but text_config.{} has no layer at or before it", layer,
                            config.ratio(layer), owner.name);
            }
            const int32_t owner_ratio = config.ratio(static_cast<int32_t>(owner.value));
            if (owner_ratio != config.ratio(layer)) {
                return fail(ErrorCode::kInvalidFile,
                            "layer {} has compress_ratio {}, its source {} in text_config.{} has {}, expected the same", layer,
                            config.ratio(layer), owner.value, owner.name, owner_ratio);
            }
        }
    }
    return {};
}

// The YoCo split: from the first ratio-1 layer on, everything shares its cache.
Status check_split(const ModelConfig& config) {
    const int32_t split = config.split_layer();
    if (split < 0) {
        return {};
    }
    if (!config.is_kv_source(split)) {
        return fail(ErrorCode::kInvalidFile,
                    "layer {} is the first with compress_ratio 1, expected it in text_config.kv_source_layer_ids", split);
    }
    for (int32_t layer = split; layer < config.layer_count; ++layer) {
        if (config.ratio(layer) != 1) {
            return fail(ErrorCode::kInvalidFile,
                        "text_config.compress_ratios[{}] is {}, expected 1 from layer {} on (the first with 1)", layer,
                        config.ratio(layer), split);
        }
    }
    for (const int32_t layer : config.engram.layer_ids) {
        if (layer >= split) {
            return fail(ErrorCode::kInvalidFile,
                        "text_config.engram_layer_ids contains {}, expected layers before {} (the first with compress_ratio 1)",
                        layer, split);
        }
    }
    const auto& targets = config.draft.target_layer_ids;
    const auto below = std::ranges::count_if(targets, [&](int32_t layer) { return layer < split; });
    if (below != 0 && below != std::ssize(targets)) {
        return fail(
            ErrorCode::kInvalidFile,
            "text_config.dspark_target_layer_ids lie on both sides of layer {}, expected all at or behind it, or all before it",
            split);
    }
    return {};
}

Status check_candidates(const ModelConfig& config) {
    if (!config.candidate_source_layer_id) {
        return {};
    }
    const int32_t source = *config.candidate_source_layer_id;
    if (!config.is_index_source(source) || !config.is_kv_source(source)) {
        return fail(
            ErrorCode::kInvalidFile,
            "text_config.candidate_source_layer_id is {}, expected a layer of index_source_layer_ids and kv_source_layer_ids",
            source);
    }
    for (const int32_t layer : config.index_source_layer_ids) {
        if (layer > source && config.ratio(layer) != config.ratio(source)) {
            return fail(ErrorCode::kInvalidFile,
                        "index source {} has compress_ratio {}, expected {} as the candidate source {} before it", layer,
                        config.ratio(layer), config.ratio(source), source);
        }
    }
    const int64_t candidates = config.candidate_topk_blocks * config.candidate_block_size;
    if (candidates < config.index_topk) {
        return fail(ErrorCode::kInvalidFile,
                    "text_config.candidate_topk_blocks * candidate_block_size is {}, expected at least index_topk = {}",
                    candidates, config.index_topk);
    }
    for (const int32_t ratio : config.compress_ratios) {
        if (ratio != 0 && kPageTokens / ratio % config.candidate_block_size != 0) {
            return fail(
                ErrorCode::kInvalidFile,
                "text_config.candidate_block_size is {}, expected a divisor of the {} rows of a page at compress_ratio {}",
                config.candidate_block_size, kPageTokens / ratio, ratio);
        }
    }
    return {};
}

Status check_engram(const ModelConfig& config) {
    const EngramConfig& engram = config.engram;
    if (!engram.present()) {
        return {};
    }
    if (engram.table_rows.size() != engram.layer_ids.size()) {
        return fail(ErrorCode::kInvalidFile,
                    "text_config.engram_num_embeddings has {} entries, expected {} as engram_layer_ids",
                    engram.table_rows.size(), engram.layer_ids.size());
    }
    if (std::ranges::adjacent_find(engram.layer_ids, std::greater_equal<>{}) != engram.layer_ids.end()) {
        return fail(ErrorCode::kInvalidFile, "text_config.engram_layer_ids are not strictly increasing");
    }
    const int64_t rows_per_layer = engram.rows_per_token();
    const auto primes = primes_from(engram.vocab_size, rows_per_layer * std::ssize(engram.layer_ids));
    for (size_t i = 0; i < engram.layer_ids.size(); ++i) {
        int64_t sum = 0;
        for (int64_t k = 0; k < rows_per_layer; ++k) {
            sum += primes[i * static_cast<size_t>(rows_per_layer) + static_cast<size_t>(k)];
        }
        if (engram.table_rows[i] < sum) {
            return fail(ErrorCode::kInvalidFile,
                        "text_config.engram_num_embeddings[{}] is {}, expected at least {} (the sum of its primes)", i,
                        engram.table_rows[i], sum);
        }
    }
    return {};
}

Status check_draft(const ModelConfig& config) {
    const auto& targets = config.draft.target_layer_ids;
    if (!config.draft.present()) {
        return {};
    }
    if (targets.empty() || std::set<int32_t>(targets.begin(), targets.end()).size() != targets.size()) {
        return fail(ErrorCode::kInvalidFile,
                    "text_config.dspark_target_layer_ids is empty or names a layer twice, expected different layers");
    }
    return {};
}

}  // namespace

Status check_model_config(const ModelConfig& config) {
    DI_TRY_STATUS(check_widths(config));
    DI_TRY_STATUS(check_ratios(config));
    DI_TRY_STATUS(check_sources(config));
    DI_TRY_STATUS(check_split(config));
    DI_TRY_STATUS(check_candidates(config));
    DI_TRY_STATUS(check_engram(config));
    return check_draft(config);
}

}  // namespace di
