// DSpark: context rows that every step leaves for the draft stages, and one parallel drafting round.
#include <algorithm>

#include "base/check.h"
#include "model/deepseek_v41/deepseek_v41.h"

namespace di::v41 {

// The targets' mean streams, projected once, give every stage its keys of the tokens seen so far.
void DeepseekV41::draft_context(const Rows& rows) {
    const Tensor context = space_.context_rows.head(rows.count());
    probe("draft.target_features", config_.layer_count, space_.captured.head(rows.count()));
    linear(space_.captured.head(rows.count()), parameters_.draft.context_projection, context);
    rms_norm(context, parameters_.draft.context_norm);
    for (int32_t stage = 0; stage < config_.draft.stage_count; ++stage) {
        const LayerView view = stage_view(stage);
        window_keys(view, rows, context);
        store_window(view, rows);
    }
}

void DeepseekV41::draft_begin(const DraftBatch& batch) {
    DI_CHECK(batch.depth >= 1 && batch.depth <= config_.draft.block_size,
             "a drafting round is deeper than the draft model allows");
    DI_CHECK(static_cast<int32_t>(batch.sequences.size()) <= options_.sequences_max,
             "a drafting round has more sequences than the model was made for");
    cache_ = batch.cache;
    draft_depth_ = batch.depth;
    draft_sequences_ = static_cast<int32_t>(batch.sequences.size());
    draft_rows_ = {};
    plan_.state_slots.clear();
    draft_ids_.clear();
    const auto window = static_cast<int32_t>(config_.sliding_window);
    for (int32_t sequence = 0; sequence < draft_sequences_; ++sequence) {
        const DraftRow& row = batch.sequences[static_cast<size_t>(sequence)];
        plan_.state_slots.push_back(row.state_slot);
        draft_rows_.local_position.push_back(row.position);
        draft_rows_.local_row.push_back(sequence * batch.depth);
        for (int32_t r = 0; r < batch.depth; ++r) {
            draft_ids_.push_back(r == 0 ? row.token_id : config_.draft.noise_token_id);
            draft_rows_.position.push_back(row.position + r);
            draft_rows_.sequence.push_back(sequence);
            // Every row sees the same context and all rows of its block: not causal inside it.
            draft_rows_.window_first.push_back(std::max(0, row.position - window));
            draft_rows_.window_last.push_back(row.position + batch.depth - 1);
            draft_rows_.is_image.push_back(0);
        }
    }
    Rows rows = upload_rows(draft_rows_, space_.streams, space_.pre_first);
    backend_.embed({.ids = upload(draft_ids_), .table = parameters_.embed, .streams = rows.streams});
    for (int32_t stage = 0; stage < config_.draft.stage_count; ++stage) {
        const LayerView view = stage_view(stage);
        block(view, rows, collapse(view, rows, rows.pre, view.parameters.attn_norm, "attn"));
    }
    const Tensor hidden = space_.draft_hidden.head(rows.count());
    const Tensor normed = space_.normed.head(rows.count());
    backend_.hyper_collapse({.streams = rows.streams, .pre = rows.pre, .collapsed = hidden});
    probe("draft.hidden_raw", config_.layer_count, hidden);
    backend_.rms_norm(
        {.input = hidden, .weight = parameters_.draft.output_norm, .output = normed, .epsilon = config_.rms_norm_eps});
    probe("draft.hidden_normed", config_.layer_count, normed);
    const Tensor base = space_.draft_base.head(rows.count());
    backend_.linear({.input = normed, .weight = parameters_.head, .bias = {}, .output = base, .round_output = false});
    probe("draft.base_logits", config_.layer_count, base);
}

Model::DraftStep DeepseekV41::draft_step(int32_t depth, std::span<const int32_t> previous_ids) {
    DI_CHECK(depth >= 0 && depth < draft_depth_, "a draft row outside the round was asked for");
    DI_CHECK(static_cast<int32_t>(previous_ids.size()) == draft_sequences_, "a draft step needs one token a sequence");
    const int64_t n = draft_sequences_;
    const DraftParameters& p = parameters_.draft;
    previous_ids_.assign(previous_ids.begin(), previous_ids.end());
    draft_ids_.clear();
    for (int32_t sequence = 0; sequence < draft_sequences_; ++sequence) {
        draft_ids_.push_back(sequence * draft_depth_ + depth);
    }
    const Tensor sources = upload(draft_ids_);
    const Tensor features = space_.draft_features.head(n);
    const Tensor markov = features.columns(config_.hidden_size, config_.draft.markov_rank);
    const Tensor logits = space_.draft_logits.head(n);
    const Tensor confidence = space_.draft_confidence.head(n);
    backend_.copy_rows({.source = space_.draft_hidden,
                        .source_rows = sources,
                        .target = features.columns(0, config_.hidden_size),
                        .target_rows = {}});
    backend_.gather_rows(
        {.table = p.markov_embed, .ids = backend_.upload({previous_ids_.data(), DType::kI64, {n, 1}}), .output = markov});
    backend_.copy_rows({.source = space_.draft_base, .source_rows = sources, .target = logits, .target_rows = {}});
    backend_.linear(
        {.input = markov, .weight = p.markov_head, .bias = {}, .output = logits, .round_output = false, .accumulate = true});
    backend_.linear({.input = features, .weight = p.confidence, .bias = {}, .output = confidence, .round_output = false});
    probe("draft.confidence_logit", depth, confidence);
    backend_.sigmoid({.x = confidence, .limit = 60.0F, .temperature = confidence_temperature(depth)});
    return {.logits = logits, .confidence = confidence};
}

float DeepseekV41::confidence_temperature(int32_t depth) const {
    const std::vector<float>& values = options_.confidence_temperatures;
    if (values.empty()) {
        return 1.0F;
    }
    return std::max(kConfidenceTemperatureMin, values[std::min(static_cast<size_t>(depth), values.size() - 1)]);
}

DeepseekV41::LayerView DeepseekV41::stage_view(int32_t stage) const {
    return {.parameters = parameters_.draft.stages[static_cast<size_t>(stage)],
            .id = config_.layer_count + stage,
            .frequencies = base_frequencies_,
            .ring = state_part(config_.layer_count + stage, "window"),
            .experts_per_token = config_.draft.experts_per_token};
}

}  // namespace di::v41
