#include "engine/batch_builder.h"

#include <algorithm>

#include "base/check.h"

namespace di {

namespace {

// One row of an image's embeddings, as the model wants it.
Tensor embedding_row(const BatchContext& context, const SequenceImage& image, int32_t position) {
    DI_CHECK(image.embeddings != nullptr, "an image row without embeddings was scheduled");
    const Tensor rows(image.embeddings.get(), context.embedding_dtype, {image.token_count, context.embedding_size});
    Tensor row = rows.slice(position - image.input.first_token, 1);
    return {row.data, row.dtype, {context.embedding_size}};
}

void add_rows(const BatchContext& context, const Sequence& sequence, int32_t row_count, Batch& batch) {
    for (int32_t position = sequence.cached; position < sequence.cached + row_count; ++position) {
        const int32_t row = batch.row_count();
        batch.token_ids.push_back(sequence.tokens[static_cast<size_t>(position)]);
        const int32_t image = sequence.image_at(position);
        batch.is_image.push_back(image >= 0 ? 1 : 0);
        if (image >= 0) {
            batch.image_rows.push_back(row);
            batch.image_embeddings.push_back(embedding_row(context, sequence.images[static_cast<size_t>(image)], position));
        }
    }
}

void fill_history(const Sequence& sequence, int32_t history_tokens, std::vector<int32_t>& history) {
    history.clear();
    for (int32_t position = std::max(0, sequence.cached - history_tokens); position < sequence.cached; ++position) {
        const bool is_image = sequence.image_at(position) >= 0;
        history.push_back(is_image ? kImageHistory : sequence.tokens[static_cast<size_t>(position)]);
    }
}

void fill_sequence(const BatchContext& context, const ScheduledRows& scheduled, int32_t first_row, SequenceRows& rows) {
    const Sequence& sequence = *scheduled.sequence;
    rows.first_row = first_row;
    rows.row_count = scheduled.row_count;
    rows.first_position = sequence.cached;
    rows.prompt_length = sequence.prompt_length;
    rows.state_slot = sequence.state_slot;
    // The rest of the table is reserved, but no row of this step can touch it.
    const int64_t tokens = int64_t{sequence.cached} + scheduled.row_count;
    const int64_t blocks = (tokens + context.block_tokens - 1) / context.block_tokens;
    DI_CHECK(blocks <= static_cast<int64_t>(sequence.block_table.size()), "a sequence is longer than its blocks");
    rows.block_table.assign(sequence.block_table.begin(), sequence.block_table.begin() + blocks);
    fill_history(sequence, context.history_tokens, rows.history);
}

}  // namespace

void build_batch(const BatchContext& context, std::span<const ScheduledRows> scheduled, Batch& batch) {
    batch.token_ids.clear();
    batch.is_image.clear();
    batch.image_rows.clear();
    batch.image_embeddings.clear();
    batch.logit_rows.clear();
    batch.sequences.resize(scheduled.size());
    batch.cache = context.cache;
    for (size_t i = 0; i < scheduled.size(); ++i) {
        const ScheduledRows& entry = scheduled[i];
        DI_CHECK(entry.row_count >= 1 && entry.row_count <= entry.sequence->rows_wanted(),
                 "rows that a sequence does not have");
        DI_CHECK(entry.sequence->state_slot >= 0, "a sequence without a state slot was scheduled");
        fill_sequence(context, entry, batch.row_count(), batch.sequences[i]);
        add_rows(context, *entry.sequence, entry.row_count, batch);
        if (entry.draws_token()) {
            batch.logit_rows.push_back(batch.row_count() - 1);
        }
    }
    if (batch.image_rows.empty()) {
        batch.is_image.clear();
    }
}

}  // namespace di
