// The backbone: a step of all layers, and what a layer does besides its attention.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "model/deepseek_v41/cache_layout.h"
#include "model/deepseek_v41/deepseek_v41.h"

namespace di::v41 {

Tensor DeepseekV41::forward(const Batch& batch) {
    DI_CHECK(batch.row_count() > 0 && batch.row_count() <= options_.rows_max,
             "a step has more rows than the model was made for");
    DI_CHECK(static_cast<int32_t>(batch.logit_rows.size()) <= options_.logit_rows_max,
             "a step wants more logits than the model was made for");
    DI_CHECK(static_cast<int32_t>(batch.sequences.size()) <= options_.sequences_max,
             "a step has more sequences than the model was made for");
    cache_ = batch.cache;
    make_step_plan(config_, options_, geometry_, batch, plan_);
    routing_.begin_step();
    if (plan_.stores_max() > static_cast<int64_t>(zeros_.size())) {
        zeros_.resize(static_cast<size_t>(plan_.stores_max()));
    }
    Rows rows = upload_rows(plan_.all, space_.streams, space_.pre_first);
    embed(batch, rows);
    for (int32_t id = 0; id < config_.layer_count && rows.count() > 0; ++id) {
        layer(id, batch, rows);
    }
    if (config_.draft.present() && rows.count() > 0) {
        draft_context(rows);
    }
    return head(rows);
}

void DeepseekV41::embed(const Batch& batch, const Rows& rows) {
    backend_.embed({.ids = upload(batch.token_ids), .table = parameters_.embed, .streams = rows.streams});
    const int64_t s = config_.hc_mult;
    const Tensor flat(rows.streams.data, rows.streams.dtype, {rows.count() * s, config_.hidden_size});
    stream_rows_.resize(batch.image_rows.size() * static_cast<size_t>(s));
    const Tensor zeros = upload(zeros_).head(s);
    for (size_t i = 0; i < batch.image_rows.size(); ++i) {
        const Tensor targets(stream_rows_.data() + static_cast<int64_t>(i) * s, DType::kI32, {s});
        for (int64_t stream = 0; stream < s; ++stream) {
            targets.ptr<int32_t>()[stream] = static_cast<int32_t>(batch.image_rows[i] * s + stream);
        }
        backend_.copy_rows(
            {.source = Tensor(batch.image_embeddings[i].data, batch.image_embeddings[i].dtype, {1, config_.hidden_size}),
             .source_rows = zeros,
             .target = flat,
             .target_rows = backend_.upload(targets)});
    }
}

void DeepseekV41::layer(int32_t id, const Batch& batch, Rows& rows) {
    const LayerView view = layer_view(id);
    if (config_.engram_index(id) >= 0) {
        engram(id, batch, rows);
    }
    probe("streams_in", id, rows.streams);
    Tensor normed = collapse(view, rows, rows.pre, view.parameters.attn_norm, "attn");
    if (config_.is_index_k_source(id)) {
        compress(view, normed);
    }
    if (id == config_.split_layer() && !plan_.tail_is_all) {
        normed = drop_rows(rows, normed);
        if (rows.count() == 0) {
            return;
        }
    }
    const auto& targets = config_.draft.target_layer_ids;
    if (const auto target = std::find(targets.begin(), targets.end(), id); config_.draft.present() && target != targets.end()) {
        const Tensor column =
            space_.captured.head(rows.count()).columns((target - targets.begin()) * config_.hidden_size, config_.hidden_size);
        backend_.stream_mean({.streams = rows.streams, .output = column});
    }
    block(view, rows, normed);
}

// The two sub-blocks: each folds the streams with the weights of the one before, and spreads its output over them.
void DeepseekV41::block(const LayerView& view, Rows& rows, const Tensor& normed) {
    const int64_t n = rows.count();
    const Tensor output = space_.output.head(n);
    mixes(view, view.parameters.attn_hyper, rows, space_.attn_pre.head(n), "hc_attn");
    attention(view, rows, normed);
    backend_.hyper_expand(
        {.streams = rows.streams, .output = output, .post = space_.post.head(n), .comb = space_.comb.head(n)});
    probe("streams_mid", view.id, rows.streams);
    mixes(view, view.parameters.ffn_hyper, rows, space_.pre.head(n), "hc_ffn");
    feed_forward(view, rows);
    backend_.hyper_expand(
        {.streams = rows.streams, .output = output, .post = space_.post.head(n), .comb = space_.comb.head(n)});
    rows.pre = space_.pre.head(n);
    probe("streams_out", view.id, rows.streams);
}

void DeepseekV41::feed_forward(const LayerView& view, const Rows& rows) {
    const int64_t n = rows.count();
    const LayerParameters& p = view.parameters;
    const Tensor normed = collapse(view, rows, space_.attn_pre.head(n), p.ffn_norm, "ffn");
    const Tensor experts = place_routing(view, n);
    const Tensor weights(space_.router_weights.data, DType::kF32, {n, view.experts_per_token});
    backend_.router({.input = normed,
                     .weight = p.router,
                     .bias = p.router_bias,
                     .bias_image = p.router_bias_image,
                     .is_image = rows.is_image,
                     .experts = experts,
                     .weights = weights,
                     .scaling = config_.routed_scaling_factor});
    probe("ffn.router.experts", view.id, experts);
    probe("ffn.router.weights", view.id, weights);
    backend_.moe({.input = normed,
                  .experts = experts,
                  .weights = weights,
                  .routed = p.experts,
                  .shared = p.shared,
                  .output = space_.output.head(n),
                  .limit = config_.swiglu_limit,
                  .quantise_input = quantises_input(p.shared.gate)});
    probe("ffn.out", view.id, space_.output.head(n));
}

// The draft stages share the room behind the layers.
Tensor DeepseekV41::place_routing(const LayerView& view, int64_t rows) {
    const Tensor& all = space_.router_experts;
    if (view.id < config_.layer_count) {
        return routing_.place(view.id, rows, all);
    }
    return {all.row<int32_t>(config_.layer_count), DType::kI32, {rows, view.experts_per_token}};
}

void DeepseekV41::engram(int32_t id, const Batch& batch, const Rows& rows) {
    const EngramHash& hash = engram_hashes_[static_cast<size_t>(config_.engram_index(id))];
    const EngramParameters& p = parameters_.layers[static_cast<size_t>(id)].engram;
    engram_step_rows(hash, config_.engram, options_.token_classes, batch, engram_ids_);
    const Tensor ids(engram_ids_.data(), DType::kI64, {rows.count(), config_.engram.rows_per_token()});
    probe("engram_hash_ids", id, ids);
    const Tensor gathered = space_.engram_rows.head(rows.count());
    const Tensor key_value = space_.engram_key_value.head(rows.count());
    backend_.gather_rows({.table = p.table, .ids = backend_.upload(ids), .output = gathered});
    linear(gathered, p.key_value, key_value);
    backend_.engram_mix({.streams = rows.streams,
                         .key_value = key_value,
                         .q_weight = p.q_weight,
                         .k_weight = p.k_weight,
                         .is_image = rows.is_image,
                         .epsilon = config_.rms_norm_eps});
}

Tensor DeepseekV41::collapse(const LayerView& view, const Rows& rows, const Tensor& pre, const Tensor& norm,
                             std::string_view name) {
    const Tensor collapsed = space_.collapsed.head(rows.count());
    const Tensor normed = space_.normed.head(rows.count());
    backend_.hyper_collapse({.streams = rows.streams, .pre = pre, .collapsed = collapsed});
    backend_.rms_norm({.input = collapsed, .weight = norm, .output = normed, .epsilon = config_.rms_norm_eps});
    if (probe_) {
        probe(fmt::format("{}.collapsed", name), view.id, collapsed);
        probe(fmt::format("{}.normed", name), view.id, normed);
    }
    return normed;
}

void DeepseekV41::mixes(const LayerView& view, const HyperParameters& hyper, const Rows& rows, const Tensor& pre,
                        std::string_view name) {
    const Tensor post = space_.post.head(rows.count());
    const Tensor comb = space_.comb.head(rows.count());
    backend_.hyper_mixes({.streams = rows.streams,
                          .fn = hyper.fn,
                          .base = hyper.base,
                          .scale = hyper.scale,
                          .pre = pre,
                          .post = post,
                          .comb = comb,
                          .iterations = config_.hc_sinkhorn_iters,
                          .hc_epsilon = config_.hc_eps,
                          .norm_epsilon = config_.rms_norm_eps});
    if (probe_) {
        probe(fmt::format("{}.pre", name), view.id, pre);
        probe(fmt::format("{}.post", name), view.id, post);
        probe(fmt::format("{}.comb", name), view.id, comb);
    }
}

// From here on only the rows that replay keeps, or the same rows with the narrowed window. Returns `normed` of those.
Tensor DeepseekV41::drop_rows(Rows& rows, const Tensor& normed) {
    const RowSet& tail = plan_.tail;
    if (tail.rows() == plan_.all.rows()) {
        rows = upload_rows(tail, rows.streams, rows.pre);
        return normed;
    }
    const Tensor before = rows.streams;
    rows = upload_rows(tail, space_.streams_kept, rows.pre.head(tail.rows()));
    if (tail.rows() == 0) {
        return normed.head(0);
    }
    const Tensor source = upload(tail.batch_row);
    const Tensor kept = space_.normed_kept.head(tail.rows());
    backend_.copy_rows({.source = before, .source_rows = source, .target = rows.streams, .target_rows = {}});
    backend_.copy_rows({.source = normed, .source_rows = source, .target = kept, .target_rows = {}});
    return kept;
}

Tensor DeepseekV41::head(const Rows& rows) {
    const auto count = static_cast<int64_t>(plan_.logit_rows.size());
    if (count == 0) {
        return space_.logits.head(0);
    }
    const Tensor collapsed = space_.collapsed.head(rows.count());
    const Tensor input = space_.head_input.head(count);
    const Tensor logits = space_.logits.head(count);
    backend_.hyper_collapse({.streams = rows.streams, .pre = rows.pre, .collapsed = collapsed});
    probe("final.collapsed", config_.layer_count, collapsed);
    backend_.copy_rows({.source = collapsed, .source_rows = upload(plan_.logit_rows), .target = input, .target_rows = {}});
    rms_norm(input, parameters_.norm);
    probe("final.normed", config_.layer_count, input);
    backend_.linear({.input = input, .weight = parameters_.head, .bias = {}, .output = logits, .round_output = false});
    return logits;
}

DeepseekV41::LayerView DeepseekV41::layer_view(int32_t id) const {
    return {.parameters = parameters_.layers[static_cast<size_t>(id)],
            .id = id,
            .frequencies = config_.ratio(id) > 0 ? yarn_frequencies_ : base_frequencies_,
            .ring = state_part(id, "window"),
            .experts_per_token = config_.experts_per_token};
}

DeepseekV41::Rows DeepseekV41::upload_rows(const RowSet& set, const Tensor& streams, const Tensor& pre) {
    const int64_t n = set.rows();
    const Tensor is_image(const_cast<uint8_t*>(set.is_image.data()), DType::kU8, {n});
    return {.set = &set,
            .streams = streams.head(n),
            .pre = pre.head(n),
            .positions = upload(set.position),
            .sequence = upload(set.sequence),
            .window_first = upload(set.window_first),
            .window_last = upload(set.window_last),
            .is_image = backend_.upload(is_image),
            .local_position = upload(set.local_position),
            .local_row = upload(set.local_row),
            .ring_source = upload(set.ring_source),
            .ring_slot = upload(set.ring_slot),
            .ring_row = upload(set.ring_row)};
}

Tensor DeepseekV41::upload(const std::vector<int32_t>& values) {
    // A view for reading; the backend copies it or reads it in place.
    return backend_.upload({const_cast<int32_t*>(values.data()), DType::kI32, {static_cast<int64_t>(values.size())}});
}

// Only linears that are stored quantised have quantised inputs.
bool DeepseekV41::quantises_input(const Weight& weight) const {
    return options_.act_quant == ActQuant::kFp8 && weight.scale_layout != ScaleLayout::kNone;
}

void DeepseekV41::linear(const Tensor& input, const Weight& weight, const Tensor& output) {
    backend_.linear(
        {.input = input, .weight = weight, .bias = {}, .output = output, .quantise_input = quantises_input(weight)});
}

void DeepseekV41::rms_norm(const Tensor& values, const Tensor& weight) {
    backend_.rms_norm({.input = values, .weight = weight, .output = values, .epsilon = config_.rms_norm_eps});
}

void DeepseekV41::probe(std::string_view name, int32_t layer, const Tensor& value) const {
    if (probe_) {
        probe_(name, layer, value);
    }
}

}  // namespace di::v41
