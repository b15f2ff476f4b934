#include "model/transformer/transformer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "model/activations.h"
#include "model/transformer/rotary.h"

namespace di::transformer {

Tensor Transformer::forward(const Batch& batch) {
    DI_CHECK(batch.row_count() > 0 && batch.row_count() <= options_.rows_max,
             "a step has more rows than the model was made for");
    DI_CHECK(static_cast<int32_t>(batch.logit_rows.size()) <= options_.logit_rows_max,
             "a step wants more logits than the model was made for");
    DI_CHECK(batch.image_rows.empty(), "a model without a vision tower was given an image");
    cache_ = batch.cache;
    const Rows rows = plan_rows(batch);
    const Tensor hidden = space_.hidden.head(rows.count);
    backend_.embed({.ids = upload(batch.token_ids),
                    .table = parameters_.embed,
                    .streams = hidden.as({rows.count, 1, config_.hidden_size})});
    for (int32_t id = 0; id < config_.layer_count; ++id) {
        layer(id, rows);
    }
    return head(batch);
}

void Transformer::layer(int32_t id, const Rows& rows) {
    const LayerParameters& p = parameters_.layers[static_cast<size_t>(id)];
    const Tensor hidden = space_.hidden.head(rows.count);
    const Tensor normed = space_.normed.head(rows.count);
    const Tensor output = space_.output.head(rows.count);
    probe("hidden", id, hidden);
    backend_.rms_norm({.input = hidden, .weight = p.attention_norm, .output = normed, .epsilon = config_.rms_norm_eps});
    attention(id, rows);
    probe("attention", id, output);
    backend_.add({.x = hidden, .y = output});
    backend_.rms_norm({.input = hidden, .weight = p.feed_forward_norm, .output = normed, .epsilon = config_.rms_norm_eps});
    if (config_.has_experts(id)) {
        experts(id, rows.count);
    } else {
        feed_forward(id, rows.count);
    }
    probe("feed_forward", id, output);
    backend_.add({.x = hidden, .y = output});
}

void Transformer::attention(int32_t id, const Rows& rows) {
    const LayerParameters& p = parameters_.layers[static_cast<size_t>(id)];
    const int64_t n = rows.count;
    const int64_t kv_width = config_.transformer->kv_head_count * config_.head_dim;
    const Tensor normed = space_.normed.head(n);
    const Tensor query = space_.query.head(n);
    const Tensor key = space_.key.head(n);
    const Tensor value = space_.value.head(n);
    const Tensor context = space_.context.head(n);
    const CacheView keys = layer_view(geometry_, id, false, cache_.blocks);
    const CacheView values = layer_view(geometry_, id, true, cache_.blocks);
    backend_.linear({.input = normed, .weight = p.query, .bias = p.query_bias, .output = query});
    backend_.linear({.input = normed, .weight = p.key, .bias = p.key_bias, .output = key});
    backend_.linear({.input = normed, .weight = p.value, .bias = p.value_bias, .output = value});
    turn(query, p.query_norm, rows);
    turn(key, p.key_norm, rows);
    backend_.store_rows({.input = key.as({n, kv_width}), .cache = keys, .blocks = rows.blocks, .rows = rows.block_rows});
    backend_.store_rows({.input = value.as({n, kv_width}), .cache = values, .blocks = rows.blocks, .rows = rows.block_rows});
    backend_.causal_attention({.query = query,
                               .key = keys,
                               .value = values,
                               .sequence = rows.sequence,
                               .positions = rows.positions,
                               .block_tables = rows.block_tables,
                               .output = context,
                               .scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim))});
    backend_.linear({.input = context, .weight = p.output, .bias = p.output_bias, .output = space_.output.head(n)});
}

// Queries or keys: each head is normalised by itself where the family does so, then turned to its position.
void Transformer::turn(const Tensor& heads, const Tensor& norm, const Rows& rows) {
    if (!norm.empty()) {
        const Tensor flat(heads.data, heads.dtype, {rows.count * heads.shape[1], config_.head_dim});
        backend_.rms_norm({.input = flat, .weight = norm, .output = flat, .epsilon = config_.rms_norm_eps});
    }
    backend_.rope({.x = heads,
                   .positions = rows.positions,
                   .frequencies = frequencies_,
                   .splits_halves = !config_.transformer->rope.has_adjacent_pairs});
}

void Transformer::feed_forward(int32_t id, int64_t rows) {
    const ExpertWeights& p = parameters_.layers[static_cast<size_t>(id)].feed_forward;
    const int64_t width = p.gate.rows;
    const Tensor normed = space_.normed.head(rows);
    const Tensor gate_up = space_.gate_up.head(rows);
    const Tensor activated = space_.activated.head(rows);
    backend_.linear({.input = normed, .weight = p.gate, .bias = {}, .output = gate_up.columns(0, width)});
    backend_.linear({.input = normed, .weight = p.up, .bias = {}, .output = gate_up.columns(width, width)});
    backend_.gated_silu({.gate_up = gate_up, .output = activated});
    backend_.linear({.input = activated, .weight = p.down, .bias = {}, .output = space_.output.head(rows)});
}

void Transformer::experts(int32_t id, int64_t rows) {
    const LayerParameters& p = parameters_.layers[static_cast<size_t>(id)];
    const Tensor normed = space_.normed.head(rows);
    const Tensor chosen = routing_.place(id, rows, space_.router_experts);
    const Tensor weights = space_.router_weights.head(rows);
    backend_.router({.input = normed,
                     .weight = p.router,
                     .bias = {},
                     .bias_image = {},
                     .is_image = {},
                     .experts = chosen,
                     .weights = weights,
                     .scaling = 1.0F,
                     .score = RouterScore::kSoftmax,
                     .normalises = config_.transformer->normalises_expert_weights});
    probe("router.experts", id, chosen);
    backend_.moe({.input = normed,
                  .experts = chosen,
                  .weights = weights,
                  .routed = p.experts,
                  .shared = {},
                  .output = space_.output.head(rows),
                  .limit = std::numeric_limits<float>::infinity()});
}

Tensor Transformer::head(const Batch& batch) {
    const auto count = static_cast<int64_t>(batch.logit_rows.size());
    const Tensor logits = space_.logits.head(count);
    if (count == 0) {
        return logits;
    }
    const Tensor input = space_.head_input.head(count);
    backend_.copy_rows({.source = space_.hidden, .source_rows = upload(batch.logit_rows), .target = input, .target_rows = {}});
    backend_.rms_norm({.input = input, .weight = parameters_.norm, .output = input, .epsilon = config_.rms_norm_eps});
    backend_.linear({.input = input, .weight = parameters_.head, .bias = {}, .output = logits, .round_output = false});
    return logits;
}

Transformer::Rows Transformer::plan_rows(const Batch& batch) {
    for (auto* values : {&sequence_, &positions_, &blocks_, &block_rows_, &block_tables_}) {
        values->clear();
    }
    routing_.begin_step();
    size_t columns = 1;
    for (const SequenceRows& rows : batch.sequences) {
        columns = std::max(columns, rows.block_table.size());
    }
    const auto block_tokens = static_cast<int32_t>(geometry_.block_tokens);
    for (size_t id = 0; id < batch.sequences.size(); ++id) {
        const SequenceRows& rows = batch.sequences[id];
        DI_CHECK(rows.first_row == static_cast<int32_t>(positions_.size()),
                 "the sequences of a step have gaps between their rows");
        for (int32_t position = rows.first_position; position < rows.first_position + rows.row_count; ++position) {
            const auto column = static_cast<size_t>(position / block_tokens);
            DI_CHECK(column < rows.block_table.size(), "a sequence has too few cache blocks for its rows");
            sequence_.push_back(static_cast<int32_t>(id));
            positions_.push_back(position);
            blocks_.push_back(rows.block_table[column]);
            block_rows_.push_back(position % block_tokens);
        }
        block_tables_.insert(block_tables_.end(), rows.block_table.begin(), rows.block_table.end());
        block_tables_.resize((id + 1) * columns, -1);
    }
    const auto sequences = static_cast<int64_t>(batch.sequences.size());
    return {.count = batch.row_count(),
            .sequence = upload(sequence_),
            .positions = upload(positions_),
            .blocks = upload(blocks_),
            .block_rows = upload(block_rows_),
            .block_tables = upload(block_tables_).as_rows(static_cast<int64_t>(columns)).head(sequences)};
}

Result<std::unique_ptr<Model>> Transformer::create(const ModelConfig& config, const Checkpoint& checkpoint, Backend& backend,
                                                   const ModelOptions& options) {
    DI_TRY_STATUS(check_step_sizes(options));
    if (options.replay != Replay::kOff) {
        return fail(ErrorCode::kUnsupported, "{} has no layers that replay could skip, expected replay off",
                    config.architecture);
    }
    if (options.act_quant != ActQuant::kNone) {
        return fail(ErrorCode::kUnsupported, "{} has no FP8 weights whose inputs could be quantised, expected act-quant none",
                    config.architecture);
    }
    std::unique_ptr<Transformer> model(new Transformer(config, checkpoint, backend, options));
    const int64_t bytes = make_workspace(config, options, backend.activation_dtype(), nullptr).bytes;
    DI_TRY(model->memory_, allocate_activations(backend, bytes, options));
    model->space_ = make_workspace(config, options, backend.activation_dtype(), model->memory_.get());
    return model;
}

Transformer::Transformer(const ModelConfig& config, const Checkpoint& checkpoint, Backend& backend, const ModelOptions& options)
    : config_(config),
      options_(options),
      backend_(backend),
      geometry_(make_geometry(config, options)),
      parameters_(bind_parameters(config, checkpoint)),
      frequency_values_(frequencies(config)),
      frequencies_(frequency_values_.data(), DType::kF32, {static_cast<int64_t>(frequency_values_.size())}),
      routing_(config.layer_count, config.routed_expert_count, config.experts_per_token) {}

void Transformer::draft_begin(const DraftBatch&) { DI_CHECK(false, "this model drafts nothing"); }

Model::DraftStep Transformer::draft_step(int32_t, std::span<const int32_t>) {
    DI_CHECK(false, "this model drafts nothing");
    return {};
}

void Transformer::encode_image(const ImageInput&, const Tensor&) { DI_CHECK(false, "this model has no vision tower"); }

Tensor Transformer::upload(const std::vector<int32_t>& values) {
    // A view for reading; the backend copies it or reads it in place.
    return backend_.upload({const_cast<int32_t*>(values.data()), DType::kI32, {static_cast<int64_t>(values.size())}});
}

void Transformer::probe(std::string_view name, int32_t layer, const Tensor& value) const {
    if (probe_) {
        probe_(name, layer, value);
    }
}

}  // namespace di::transformer
