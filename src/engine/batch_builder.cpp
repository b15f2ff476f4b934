#include "engine/batch_builder.h"

#include <algorithm>

#include "base/check.h"

namespace di {

namespace {

// One row of an image's embeddings, as the model wants it.
Tensor embedding_row(const BatchContext& context, const SequenceImage& image, int32_t position) {
    DI_CHECK(image.embeddings != nullptr, "an image row without embeddings was scheduled");
    const Tensor rows(image.embeddings.get(), context.embedding_dtype, {image.token_count, context.embedding_size});
    Tensor row = rows.slice(position - image.input->first_token, 1);
    return {row.data, row.dtype, {context.embedding_size}};
}

void add_rows(const BatchContext& context, const StepRows& entry, Batch& batch) {
    const Sequence& sequence = *entry.sequence;
    const auto draft_count = static_cast<int32_t>(entry.drafts.size());
    for (int32_t i = 0; i < entry.row_count - draft_count; ++i) {
        const int32_t position = entry.first_position + i;
        const int32_t row = batch.row_count();
        batch.token_ids.push_back(sequence.tokens[static_cast<size_t>(position)]);
        const int32_t image = sequence.image_at(position);
        batch.is_image.push_back(image >= 0 ? 1 : 0);
        if (image >= 0) {
            batch.image_rows.push_back(row);
            batch.image_embeddings.push_back(embedding_row(context, sequence.images[static_cast<size_t>(image)], position));
        }
    }
    batch.token_ids.insert(batch.token_ids.end(), entry.drafts.begin(), entry.drafts.end());
    batch.is_image.insert(batch.is_image.end(), entry.drafts.size(), uint8_t{0});
}

// Rows whose logits are wanted: all of a prompt that asks for them, else the row of the last known token and the drafts.
void add_logit_rows(StepRows& entry, int32_t first_row, Batch& batch) {
    entry.first_logit_row = static_cast<int32_t>(batch.logit_rows.size());
    const auto draws = static_cast<int32_t>(entry.drafts.size()) + 1;
    const bool takes_all = entry.sequence->sampling.prompt_logprobs && entry.first_position < entry.sequence->prompt_length;
    entry.logit_row_count = takes_all ? entry.row_count : (entry.draws_token ? draws : 0);
    for (int32_t row = entry.row_count - entry.logit_row_count; row < entry.row_count; ++row) {
        batch.logit_rows.push_back(first_row + row);
    }
}

void fill_history(const Sequence& sequence, int32_t end, int32_t history_tokens, std::vector<int32_t>& history) {
    history.clear();
    for (int32_t position = std::max(0, end - history_tokens); position < end; ++position) {
        const bool is_image = sequence.image_at(position) >= 0;
        history.push_back(is_image ? kImageHistory : sequence.tokens[static_cast<size_t>(position)]);
    }
}

void fill_sequence(const BatchContext& context, const StepRows& entry, int32_t first_row, SequenceRows& rows) {
    const Sequence& sequence = *entry.sequence;
    rows.first_row = first_row;
    rows.row_count = entry.row_count;
    rows.first_position = entry.first_position;
    rows.prompt_length = sequence.prompt_length;
    rows.state_slot = sequence.state_slot;
    rows.snapshots = entry.snapshots;
    // The rest of the table is reserved, but no row of this step can touch it.
    const int64_t tokens = int64_t{entry.first_position} + entry.row_count;
    const int64_t blocks = (tokens + context.block_tokens - 1) / context.block_tokens;
    DI_CHECK(blocks <= static_cast<int64_t>(sequence.block_table.size()), "a sequence is longer than its blocks");
    rows.block_table.assign(sequence.block_table.begin(), sequence.block_table.begin() + blocks);
    fill_history(sequence, entry.first_position, context.history_tokens, rows.history);
}

}  // namespace

void build_batch(const BatchContext& context, StepWork& work) {
    Batch& batch = work.batch;
    batch.token_ids.clear();
    batch.is_image.clear();
    batch.image_rows.clear();
    batch.image_embeddings.clear();
    batch.logit_rows.clear();
    batch.sequences.resize(work.used);
    batch.cache = context.cache;
    for (size_t i = 0; i < work.used; ++i) {
        StepRows& entry = work.rows[i];
        const Sequence& sequence = *entry.sequence;
        const auto draft_count = static_cast<int32_t>(entry.drafts.size());
        DI_CHECK(entry.row_count > draft_count && entry.first_position + entry.row_count - draft_count <= sequence.length(),
                 "rows that a sequence does not have");
        DI_CHECK(sequence.state_slot >= 0, "a sequence without a state slot was scheduled");
        const int32_t first_row = batch.row_count();
        fill_sequence(context, entry, first_row, batch.sequences[i]);
        add_rows(context, entry, batch);
        add_logit_rows(entry, first_row, batch);
    }
    if (batch.image_rows.empty()) {
        batch.is_image.clear();
    }
}

}  // namespace di
