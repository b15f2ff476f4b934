#include "engine/batch_builder.h"

#include <gtest/gtest.h>

#include "engine/fake_model.h"

namespace di {
namespace {

BatchContext make_context() {
    BatchContext context;
    context.block_tokens = 4;
    context.history_tokens = 3;
    context.embedding_size = 2;
    return context;
}

Sequence make_sequence(int32_t prompt_length, int32_t output_length, int32_t cached, int32_t slot) {
    Sequence sequence;
    for (int32_t i = 0; i < prompt_length + output_length; ++i) {
        sequence.tokens.push_back(10 * (slot + 1) + i);
    }
    sequence.prompt_length = prompt_length;
    sequence.cached = cached;
    sequence.state_slot = slot;
    sequence.block_table = {slot * 100, slot * 100 + 1, slot * 100 + 2, slot * 100 + 3};
    return sequence;
}

StepRows make_rows(Sequence& sequence, int32_t row_count, std::vector<int32_t> drafts = {}) {
    StepRows rows;
    rows.sequence = &sequence;
    rows.first_position = sequence.cached;
    rows.row_count = row_count;
    rows.drafts = std::move(drafts);
    rows.draws_token = row_count - static_cast<int32_t>(rows.drafts.size()) == sequence.rows_wanted();
    return rows;
}

StepWork make_work(std::vector<StepRows> rows) {
    StepWork work;
    work.rows = std::move(rows);
    work.used = work.rows.size();
    return work;
}

TEST(BatchBuilder, LaysRowsOfSequencesBehindEachOther) {
    Sequence whole = make_sequence(3, 0, 0, 0);
    Sequence cut = make_sequence(9, 0, 2, 1);
    Sequence decode = make_sequence(4, 2, 5, 2);
    StepWork work = make_work({make_rows(whole, 3), make_rows(cut, 4), make_rows(decode, 3, {7, 8})});
    work.batch.token_ids = {1, 2, 3};  // of an earlier step
    work.batch.image_rows = {7};
    build_batch(make_context(), work);
    const Batch& batch = work.batch;
    EXPECT_EQ(batch.token_ids, (std::vector<int32_t>{10, 11, 12, 22, 23, 24, 25, 35, 7, 8}));
    EXPECT_EQ(batch.logit_rows, (std::vector<int32_t>{2, 7, 8, 9}));  // the cut prompt draws nothing
    EXPECT_EQ(work.rows[2].first_logit_row, 1);
    EXPECT_EQ(work.rows[2].logit_row_count, 3);
    EXPECT_TRUE(batch.is_image.empty());
    EXPECT_TRUE(batch.image_rows.empty());
    ASSERT_EQ(batch.sequences.size(), 3U);
    const SequenceRows& rows = batch.sequences[1];
    EXPECT_EQ(rows.first_row, 3);
    EXPECT_EQ(rows.row_count, 4);
    EXPECT_EQ(rows.first_position, 2);
    EXPECT_EQ(rows.prompt_length, 9);
    EXPECT_EQ(rows.state_slot, 1);
    EXPECT_EQ(rows.block_table, (std::vector<int32_t>{100, 101}));  // 6 tokens of 4
    EXPECT_EQ(rows.history, (std::vector<int32_t>{20, 21}));
    EXPECT_TRUE(batch.sequences[0].history.empty());
    EXPECT_EQ(batch.sequences[2].history, (std::vector<int32_t>{32, 33, 34}));
    EXPECT_EQ(batch.sequences[2].block_table.size(), 2U);
    EXPECT_TRUE(batch.sequences[2].snapshots.empty());
}

TEST(BatchBuilder, ImageRowsCarryTheirEmbeddingsAlsoAcrossACut) {
    CountingBackend backend;
    Sequence sequence = make_sequence(10, 0, 4, 0);
    SequenceImage& image = sequence.images.emplace_back();
    RequestImage input;
    input.first_token = 3;
    image.input = std::make_shared<const RequestImage>(input);
    image.token_count = 3;  // positions 3, 4, 5
    image.embeddings = allocate_device(backend, 3 * 2 * 4);
    auto* values = static_cast<float*>(image.embeddings.get());
    for (int i = 0; i < 6; ++i) {
        values[i] = static_cast<float>(i);
    }
    StepWork work = make_work({make_rows(sequence, 4)});
    build_batch(make_context(), work);
    const Batch& batch = work.batch;
    EXPECT_EQ(batch.is_image, (std::vector<uint8_t>{1, 1, 0, 0}));
    EXPECT_EQ(batch.image_rows, (std::vector<int32_t>{0, 1}));
    ASSERT_EQ(batch.image_embeddings.size(), 2U);
    EXPECT_EQ(batch.image_embeddings[0].size(), 2);
    EXPECT_EQ(batch.image_embeddings[0].ptr<float>()[0], 2.0F);
    EXPECT_EQ(batch.image_embeddings[1].ptr<float>()[1], 5.0F);
    EXPECT_EQ(batch.sequences[0].history, (std::vector<int32_t>{11, 12, kImageHistory}));
    EXPECT_TRUE(batch.logit_rows.empty());
}

TEST(BatchBuilder, PromptsThatAskForItHaveLogitsOfEveryRow) {
    Sequence sequence = make_sequence(9, 0, 2, 1);
    sequence.sampling.prompt_logprobs = true;
    StepWork work = make_work({make_rows(sequence, 4)});
    build_batch(make_context(), work);
    EXPECT_EQ(work.batch.logit_rows, (std::vector<int32_t>{0, 1, 2, 3}));
    EXPECT_EQ(work.rows[0].logit_row_count, 4);
}

TEST(BatchBuilderDeathTest, RowsWithoutBlocksEndTheProcess) {
    Sequence sequence = make_sequence(30, 0, 0, 0);
    StepWork work = make_work({make_rows(sequence, 17)});
    EXPECT_DEATH(build_batch(make_context(), work), "longer than its blocks");
}

}  // namespace
}  // namespace di
