#include "model/deepseek_v41/deepseek_v41.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/check.h"
#include "model/activations.h"
#include "model/deepseek_v41/cache_layout.h"
#include "model/deepseek_v41/rotary.h"

namespace di::v41 {

namespace {

// A class for every id, and as many classes as the tables were made for: others would read rows of another n-gram.
Status check_token_classes(const ModelConfig& config, std::span<const int32_t> classes) {
    if (static_cast<int64_t>(classes.size()) != config.vocab_size) {
        return fail(ErrorCode::kInvalidFile, "the tokenizer gives Engram classes for {} ids, expected {} (vocab_size)",
                    classes.size(), config.vocab_size);
    }
    const auto [least, most] = std::minmax_element(classes.begin(), classes.end());
    if (*least < 0) {
        return fail(ErrorCode::kInvalidFile, "the tokenizer gives the Engram class {}, expected >= 0", *least);
    }
    const int64_t class_count = int64_t{*most} + 1;
    if (class_count != config.engram.compressed_vocab_size) {
        return fail(ErrorCode::kInvalidFile,
                    "the tokenizer gives {} Engram classes, expected {} (engram_compressed_vocab_size)", class_count,
                    config.engram.compressed_vocab_size);
    }
    return {};
}

Status check_confidence_temperatures(const ModelConfig& config, std::span<const float> temperatures) {
    if (static_cast<int64_t>(temperatures.size()) > std::max<int64_t>(1, config.draft.block_size)) {
        return fail(ErrorCode::kInvalidArgument,
                    "{} confidence temperatures were given, expected one, or at most one for each of the model's {} drafts",
                    temperatures.size(), config.draft.block_size);
    }
    for (const float temperature : temperatures) {
        if (!std::isfinite(temperature) || temperature < 0.0F) {
            return fail(ErrorCode::kInvalidArgument, "a confidence temperature is {}, expected a number >= 0", temperature);
        }
    }
    return {};
}

// The options that no batch can break later.
Status check_options(const ModelConfig& config, const ModelOptions& options) {
    DI_TRY_STATUS(check_step_sizes(options));
    DI_TRY_STATUS(check_confidence_temperatures(config, options.confidence_temperatures));
    if (config.engram.present()) {
        DI_TRY_STATUS(check_token_classes(config, options.token_classes));
    }
    const bool chooses_keep = options.replay == Replay::kMask || options.replay == Replay::kCompact;
    const int64_t keep_min = config.sliding_window + make_geometry(config, options).backtrack_tokens;
    if (chooses_keep && options.replay_keep != 0 && options.replay_keep < keep_min) {
        return fail(ErrorCode::kInvalidArgument, "replay must keep at least {} tokens (window + rollback), not {}", keep_min,
                    options.replay_keep);
    }
    return {};
}

Tensor place_frequencies(const std::vector<float>& values, void* memory) {
    return {memory, DType::kF32, {static_cast<int64_t>(values.size())}};
}

}  // namespace

Result<std::unique_ptr<Model>> DeepseekV41::create(const ModelConfig& config, const Checkpoint& checkpoint, Backend& backend,
                                                   const ModelOptions& options) {
    DI_TRY_STATUS(check_options(config, options));
    std::unique_ptr<DeepseekV41> model(new DeepseekV41(config, checkpoint, backend, options));
    const int64_t bytes = make_workspace(config, options, backend.activation_dtype(), nullptr).bytes;
    DI_TRY(model->memory_, allocate_activations(backend, bytes, options));
    model->space_ = make_workspace(config, options, backend.activation_dtype(), model->memory_.get());
    const Tensor& first = model->space_.pre_first;
    std::vector<float> ones(static_cast<size_t>(first.size()), 0.0F);
    for (int64_t row = 0; row < first.rows(); ++row) {
        ones[static_cast<size_t>(row * config.hc_mult)] = 1.0F;
    }
    backend.copy_rows({.source = backend.upload({ones.data(), DType::kF32, {first.rows(), config.hc_mult}}),
                       .source_rows = {},
                       .target = first,
                       .target_rows = {}});
    backend.synchronize();
    return model;
}

DeepseekV41::DeepseekV41(const ModelConfig& config, const Checkpoint& checkpoint, Backend& backend, const ModelOptions& options)
    : config_(config),
      options_(options),
      backend_(backend),
      geometry_(make_geometry(config, options)),
      parameters_(bind_parameters(config, checkpoint)),
      engram_hashes_(engram_hashes(config.engram)),
      base_values_(base_frequencies(config)),
      yarn_values_(yarn_frequencies(config)),
      base_frequencies_(place_frequencies(base_values_, base_values_.data())),
      yarn_frequencies_(place_frequencies(yarn_values_, yarn_values_.data())),
      routing_(config.layer_count, config.routed_expert_count, config.experts_per_token) {
    const int64_t rows =
        std::max<int64_t>({options.rows_max, int64_t{options.sequences_max} * config.draft.block_size, config.hc_mult});
    zeros_.assign(static_cast<size_t>(rows), 0);
    row_numbers_.resize(static_cast<size_t>(rows));
    std::iota(row_numbers_.begin(), row_numbers_.end(), 0);
}

}  // namespace di::v41
