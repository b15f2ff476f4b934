// CSA2: window keys, compressed keys, the indexer that chooses among them.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model/block_parts.h"
#include "model/deepseek_v41/cache_layout.h"
#include "model/deepseek_v41/deepseek_v41.h"

namespace di::v41 {

void DeepseekV41::attention(const LayerView& view, const Rows& rows, const Tensor& normed) {
    const int64_t n = rows.count();
    const LayerParameters& p = view.parameters;
    const int32_t ratio = config_.ratio(view.id);
    const Tensor latent = space_.q_latent.head(n);
    const Tensor query = space_.query.head(n);
    const Tensor context = space_.context.head(n);
    const int64_t width = config_.head_count * config_.head_dim;

    linear(normed, p.q_a, latent);
    rms_norm(latent, p.q_norm);
    probe("attn.q_latent", view.id, latent);
    linear(latent, p.q_b, query.as({n, width}));
    backend_.rope({.x = query, .positions = rows.positions, .frequencies = view.frequencies});
    window_keys(view, rows, normed);
    if (ratio > 0 && config_.is_index_source(view.id)) {
        select(view, rows, normed);
    }
    const bool compressed = ratio > 0;
    backend_.sparse_attention({.query = query,
                               .local = scratch_view(window_format(options_), config_.head_dim, n, space_.local_rows.data),
                               .ring = view.ring,
                               .sequence = rows.sequence,
                               .window_first = rows.window_first,
                               .window_last = rows.window_last,
                               .state_slots = upload(plan_.state_slots),
                               .local_position = rows.local_position,
                               .local_row = rows.local_row,
                               .compressed = compressed ? block_part(config_.kv_source(view.id), "kv") : CacheView{},
                               .block_tables = upload(plan_.block_tables).as_rows(plan_.block_columns),
                               .selected = compressed ? space_.selected.head(n) : Tensor{},
                               .sink = p.sink,
                               .output = context,
                               .scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim))});
    // The value is the key, rotation included: turn the sum back by the query's own position.
    backend_.rope({.x = context, .positions = rows.positions, .frequencies = view.frequencies, .inverse = true});
    const Tensor grouped = space_.grouped.head(n);
    backend_.linear(
        {.input = context.as({n, width}), .weight = p.o_a, .bias = {}, .output = grouped, .groups = config_.o_groups});
    linear(grouped, p.o_b, space_.output.head(n));
    probe("attn.out", view.id, space_.output.head(n));
    store_window(view, rows);
}

// Keys of this step's rows in cache format. They join the ring only after the step's rows have read it.
void DeepseekV41::window_keys(const LayerView& view, const Rows& rows, const Tensor& input) {
    const int64_t n = rows.count();
    const Tensor kv = space_.kv.head(n);
    linear(input, view.parameters.kv, kv);
    rms_norm(kv, view.parameters.kv_norm);
    probe("attn.kv_normed", view.id, kv);
    backend_.rope({.x = kv.as({n, 1, config_.head_dim}), .positions = rows.positions, .frequencies = view.frequencies});
    backend_.store_rows({.input = kv,
                         .cache = scratch_view(window_format(options_), config_.head_dim, n, space_.local_rows.data),
                         .blocks = upload(zeros_).head(n),
                         .rows = upload(row_numbers_).head(n)});
}

void DeepseekV41::store_window(const LayerView& view, const Rows& rows) {
    const CacheView local = scratch_view(window_format(options_), config_.head_dim, rows.count(), space_.local_rows.data);
    backend_.copy_cache_rows({.source = local,
                              .source_blocks = upload(zeros_).head(rows.ring_source.rows()),
                              .source_rows = rows.ring_source,
                              .target = view.ring,
                              .target_blocks = rows.ring_slot,
                              .target_rows = rows.ring_row});
}

// Compressed KV and index keys of the groups that this step completes; the tokens of open groups are kept.
void DeepseekV41::compress(const LayerView& view, const Tensor& normed) {
    const int32_t ratio = config_.ratio(view.id);
    const GroupSet& groups = plan_.group_set(ratio);
    const int64_t n = plan_.all.rows();
    const int64_t dim = config_.head_dim;
    const Tensor latent = space_.latent.head(groups.groups());
    const CompressorParameters& p = view.parameters.compressor;
    if (config_.is_kv_source(view.id) && ratio == 1) {
        linear(normed, p.value, latent);
    }
    if (config_.is_kv_source(view.id) && ratio > 1) {
        const Tensor both = space_.value_score.head(n);
        backend_.linear(
            {.input = normed, .weight = p.value, .bias = {}, .output = both.columns(0, dim), .round_output = false});
        backend_.linear(
            {.input = normed, .weight = p.gate, .bias = {}, .output = both.columns(dim, dim), .round_output = false});
        const CacheView partial = state_part(view.id, "partial");
        if (groups.groups() > 0) {
            backend_.compress({.value_score = both,
                               .partial = partial,
                               .group_sequence = upload(groups.sequence),
                               .group_position = upload(groups.position),
                               .state_slots = upload(plan_.state_slots),
                               .local_position = upload(plan_.all.local_position),
                               .local_row = upload(plan_.all.local_row),
                               .output = latent,
                               .ratio = ratio});
        }
        backend_.copy_cache_rows({.source = scratch_view(RowFormat::kF32, 2 * dim, n, both.data),
                                  .source_blocks = upload(zeros_).head(static_cast<int64_t>(groups.partial_source.size())),
                                  .source_rows = upload(groups.partial_source),
                                  .target = partial,
                                  .target_blocks = upload(groups.partial_slot),
                                  .target_rows = upload(groups.partial_row)});
    }
    if (groups.groups() == 0) {
        return;
    }
    if (config_.is_kv_source(view.id)) {
        rms_norm(latent, p.norm);
        probe("attn.compressor.latent", view.id, latent);
        const Tensor rows = space_.compressed.head(groups.groups());
        backend_.copy_rows({.source = latent, .source_rows = {}, .target = rows, .target_rows = {}});
        backend_.rope(
            {.x = rows.as({groups.groups(), 1, dim}), .positions = upload(groups.position), .frequencies = view.frequencies});
        probe("attn.compressed_kv", view.id, rows);
        backend_.store_rows({.input = rows,
                             .cache = block_part(view.id, "kv"),
                             .blocks = upload(groups.block),
                             .rows = upload(groups.block_row)});
    }
    index_keys(view, groups);
}

// From the latents of the nearest kv source, which are still in space_.latent.
void DeepseekV41::index_keys(const LayerView& view, const GroupSet& groups) {
    const IndexerParameters& p = view.parameters.indexer;
    const int64_t count = groups.groups();
    const Tensor keys = space_.index_key.head(count);
    linear(space_.latent.head(count), p.key, keys);
    rms_norm(keys, p.key_norm);
    backend_.rope({.x = keys.as({count, 1, config_.index_head_dim}),
                   .positions = upload(groups.position),
                   .frequencies = view.frequencies});
    probe("attn.indexer.keys", view.id, keys);
    backend_.store_rows({.input = keys,
                         .cache = block_part(view.id, "index_k"),
                         .blocks = upload(groups.block),
                         .rows = upload(groups.block_row)});
}

// The compressed rows that this layer and those that share its choice attend to.
void DeepseekV41::select(const LayerView& view, const Rows& rows, const Tensor& normed) {
    const int64_t n = rows.count();
    const IndexerParameters& p = view.parameters.indexer;
    const int64_t heads = config_.index_head_count;
    const int64_t dim = config_.index_head_dim;
    const Tensor query = space_.index_query.head(n);
    const Tensor weights = space_.index_weights.head(n);
    linear(space_.q_latent.head(n), p.query, query.as({n, heads * dim}));
    backend_.rope({.x = query, .positions = rows.positions, .frequencies = view.frequencies});
    backend_.fake_quantise({.x = query, .format = index_format(options_)});
    linear(normed, p.head_weights, weights);
    visible_rows(*rows.set, config_.ratio(view.id), visible_);

    const int32_t candidate_source = config_.candidate_source_layer_id.value_or(-1);
    Tensor scores;
    std::vector<float> score_memory;
    if (probe_) {  // host memory: probes are for backends that compute on the host
        const int64_t width = std::max(1, *std::max_element(visible_.begin(), visible_.end()));
        score_memory.resize(static_cast<size_t>(n * width));
        scores = {score_memory.data(), DType::kF32, {n, width}};
    }
    const Tensor candidates = candidate_source >= 0 ? space_.candidates.head(n) : Tensor{};
    backend_.index_select({.query = query,
                           .weights = weights,
                           .keys = block_part(config_.index_k_source(view.id), "index_k"),
                           .block_tables = upload(plan_.block_tables).as_rows(plan_.block_columns),
                           .sequence = rows.sequence,
                           .visible = upload(visible_),
                           .candidates = candidate_source >= 0 && view.id > candidate_source ? candidates : Tensor{},
                           .selected = space_.selected.head(n),
                           .candidates_out = view.id == candidate_source ? candidates : Tensor{},
                           .scores_out = scores,
                           .candidate_block = config_.candidate_block_size,
                           .scale = 1.0F / std::sqrt(static_cast<float>(dim * heads))});
    probe("attn.indexer.topk", view.id, space_.selected.head(n));
    if (probe_) {
        probe("attn.indexer.scores", view.id, scores);
    }
    if (view.id == candidate_source) {
        probe("attn.indexer.candidates", view.id, candidates);
    }
}

CacheView DeepseekV41::block_part(int32_t layer, std::string_view kind) const {
    for (const BlockPart& part : geometry_.blocks) {
        if (part.layer == layer && part.name.ends_with(kind)) {
            return block_view(geometry_, part, cache_.blocks);
        }
    }
    DI_CHECK(false, "a layer without this cache was asked for it");
    return {};
}

CacheView DeepseekV41::state_part(int32_t layer, std::string_view kind) const {
    for (const StatePart& part : geometry_.states) {
        if (part.layer == layer && part.name.ends_with(kind)) {
            return state_view(geometry_, part, cache_.states);
        }
    }
    DI_CHECK(false, "a layer without this state was asked for it");
    return {};
}

}  // namespace di::v41
