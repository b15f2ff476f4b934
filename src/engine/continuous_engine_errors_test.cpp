// What the engine refuses, and what breaks on the way: one clear record, and nobody else notices.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "engine/engine_harness.h"

namespace di {
namespace {

constexpr EngineLimits kLimits{.max_model_len = 32, .max_num_seqs = 4, .max_num_batched_tokens = 64, .kv_memory_bytes = 0};

// The bad request ends with an error that holds `text`; a good one beside it is as ever.
void expect_refused(const TokenRequest& bad, const std::string& text, bool has_vision = false) {
    EngineHarness harness(kLimits, {.has_vision = has_vision});
    const TokenRequest good = make_request(900, make_prompt(1, 5), 6);
    const Answers answers = harness.run({bad, good});
    const Answer& answer = answers.at(bad.id);
    EXPECT_EQ(answer.finish, FinishReason::kError);
    EXPECT_EQ(answer.last_record_count, 1);
    EXPECT_NE(answer.error.find(text), std::string::npos) << answer.error;
    EXPECT_TRUE(answers.at(900) == expected_answer(good, kLimits.max_model_len));
    EXPECT_TRUE(harness.is_drained());
}

TEST(ContinuousEngineErrors, BadPrompts) {
    expect_refused(make_request(1, {}, 4), "the prompt is empty");
    expect_refused(make_request(1, {3, 61}, 4), "prompt_token_ids[1] is 61, expected 0 .. 60");
    expect_refused(make_request(1, {-1}, 4), "prompt_token_ids[0] is -1");
    expect_refused(make_request(1, make_prompt(1, 33), 4), "33 tokens, expected at most 32");
    expect_refused(make_request(1, {}, 0), "the prompt is empty");
}

TEST(ContinuousEngineErrors, BadSampling) {
    TokenRequest request = make_request(1, make_prompt(1, 3), 4);
    request.sampling.temperature = -0.5;
    expect_refused(request, "temperature is -0.5");
    request.sampling.temperature = std::numeric_limits<double>::quiet_NaN();
    expect_refused(request, "temperature is nan");
    request.sampling.temperature = 1.0;
    request.sampling.stop_token_ids = {61};
    expect_refused(request, "stop_token_ids[0] is 61");
}

TEST(ContinuousEngineErrors, MoreThanTheWholePool) {
    EngineLimits limits = kLimits;
    limits.kv_memory_bytes = 3 * FakeModel().geometry().block_bytes;
    EngineHarness harness(limits);
    const Answers answers = harness.run({make_request(1, make_prompt(1, 10), 4), make_request(2, make_prompt(1, 10), 3)});
    EXPECT_EQ(answers.at(1).finish, FinishReason::kError);
    EXPECT_NE(answers.at(1).error.find(
                  "10 prompt tokens and up to 4 output tokens need 4 cache blocks of 4 tokens, expected at most 3"),
              std::string::npos)
        << answers.at(1).error;
    EXPECT_EQ(answers.at(2).finish, FinishReason::kLength);  // 12 cached tokens fit exactly
}

TEST(ContinuousEngineErrors, UsedIdIsRefusedAndItsOwnerGoesOn) {
    EngineHarness harness(kLimits);
    const TokenRequest first = make_request(1, make_prompt(1, 5), 8);
    harness.engine->add_request(first);
    Answers answers;
    collect(harness.engine->step(), answers);
    harness.engine->add_request(make_request(1, make_prompt(2, 5), 8));
    const std::vector<StepOutput> outputs = harness.engine->step();
    ASSERT_EQ(outputs.size(), 2U);
    EXPECT_EQ(outputs[1].finish, FinishReason::kError);
    EXPECT_NE(outputs[1].error->text.find("request id 1 belongs to"), std::string::npos);
    collect({outputs[0]}, answers);
    // Still taken: the refusal did not free the id.
    harness.engine->add_request(make_request(1, make_prompt(2, 5), 8));
    const std::vector<StepOutput> more = harness.engine->step();
    ASSERT_EQ(more.size(), 2U);
    EXPECT_EQ(more[1].finish, FinishReason::kError);
    collect({more[0]}, answers);
    while (harness.engine->has_unfinished()) {
        collect(harness.engine->step(), answers);
    }
    EXPECT_TRUE(answers.at(1) == expected_answer(first, kLimits.max_model_len));
}

TEST(ContinuousEngineErrors, LogitsThatAreNoNumbersEndOnlyTheirRequest) {
    EngineHarness harness(kLimits);
    const TokenRequest good = make_request(1, make_prompt(1, 5), 8);
    const Answers answers = harness.run({make_request(2, {3, kFakeNanToken, 4}, 8), good});
    EXPECT_EQ(answers.at(2).finish, FinishReason::kError);
    EXPECT_NE(answers.at(2).error.find("expected a finite number"), std::string::npos);
    EXPECT_TRUE(answers.at(2).token_ids.empty());
    EXPECT_TRUE(answers.at(1) == expected_answer(good, kLimits.max_model_len));
    EXPECT_TRUE(harness.is_drained());
}

TEST(ContinuousEngineErrors, ForbiddingEveryTokenIsAnError) {
    TokenRequest request = make_request(1, make_prompt(1, 3), 4);
    request.sampling.min_tokens = 2;
    for (int32_t id = 0; id < kFakeVocab; ++id) {
        request.sampling.stop_token_ids.push_back(id);
    }
    expect_refused(request, "no token may come");
}

RequestImage make_image(int32_t first_token, int64_t height, int64_t width) {
    RequestImage image{.grid_height = height, .grid_width = width, .first_token = first_token};
    image.patches.assign(static_cast<size_t>(height * width * kFakePatchValues), 0.25F);
    return image;
}

TEST(ContinuousEngineErrors, BadImages) {
    TokenRequest request = make_request(1, make_prompt(1, 20), 4);
    request.images = {make_image(2, 2, 2)};
    expect_refused(request, "no vision tower");
    request.images = {make_image(15, 2, 2)};
    expect_refused(request, "image 0 takes 6 tokens from position 15, expected a place inside 0 .. 20", true);
    request.images = {make_image(-1, 2, 2)};
    expect_refused(request, "from position -1", true);
    request.images = {make_image(2, 2, 2), make_image(7, 2, 2)};
    expect_refused(request, "image 1 takes 6 tokens from position 7, expected a place inside 8 .. 20", true);
    request.images = {make_image(2, 4, 4)};
    expect_refused(request, "4 x 4 patches, more than", true);
    request.images = {make_image(2, 2, 2)};
    request.images[0].patches.pop_back();
    expect_refused(request, "image 0 has 7 values in a grid of 2 x 2", true);
    request.images = {make_image(2, 2, 2)};
    request.images[0].patches[3] = std::numeric_limits<float>::infinity();
    expect_refused(request, "holds the value inf", true);
    request.images = {make_image(2, 2, 2)};
    request.images[0].grid_height = std::numeric_limits<int64_t>::max();
    expect_refused(request, "in a grid of 9223372036854775807 x 2", true);
    request.images[0].grid_height = 0;
    expect_refused(request, "in a grid of 0 x 2", true);
}

TEST(ContinuousEngineErrors, ImageWithoutMemoryEndsOnlyItsRequest) {
    EngineHarness harness(kLimits, {.has_vision = true});
    harness.backend.refused_bytes = 6 * kFakeEmbedding * 4;
    TokenRequest request = make_request(1, make_prompt(1, 20), 4);
    request.images = {make_image(2, 2, 2)};
    const TokenRequest good = make_request(2, make_prompt(1, 5), 6);
    const Answers answers = harness.run({request, good});
    EXPECT_EQ(answers.at(1).finish, FinishReason::kError);
    EXPECT_NE(answers.at(1).error.find("no memory for the embeddings of an image of 6 tokens"), std::string::npos);
    EXPECT_TRUE(answers.at(2) == expected_answer(good, kLimits.max_model_len));
    EXPECT_TRUE(harness.is_drained());
}

TEST(ContinuousEngineErrors, BadLimitsAreNamed) {
    const auto error = [](EngineLimits limits, std::vector<int32_t> eos) {
        CountingBackend backend;
        FakeModel model;
        const auto engine = Engine::create(model, backend, limits, {}, std::move(eos));
        return engine ? std::string("none") : engine.error().text;
    };
    EngineLimits limits = kLimits;
    EXPECT_EQ(error(limits, {1}), "none");
    EXPECT_EQ(error(limits, {61}), "the end token id is 61, expected 0 .. 60");
    limits.max_model_len = 0;
    EXPECT_NE(error(limits, {}).find("max_model_len is 0"), std::string::npos);
    limits = kLimits;
    limits.max_num_seqs = -3;
    EXPECT_NE(error(limits, {}).find("max_num_seqs is -3"), std::string::npos);
    limits = kLimits;
    limits.max_num_batched_tokens = 0;
    EXPECT_NE(error(limits, {}).find("max_num_batched_tokens is 0"), std::string::npos);
    limits = kLimits;
    limits.kv_memory_bytes = 55;
    EXPECT_NE(error(limits, {}).find("kv_memory_bytes is 55, expected room for 1 .. "), std::string::npos);
    limits.kv_memory_bytes = -1;
    EXPECT_NE(error(limits, {}).find("kv_memory_bytes is -1"), std::string::npos);
}

TEST(ContinuousEngineErrors, CacheThatCannotBeAllocatedIsOutOfMemory) {
    CountingBackend backend;
    FakeModel model;
    backend.refused_bytes = 4 * model.geometry().state_bytes;
    const auto engine = Engine::create(model, backend, kLimits, {}, {});
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, ErrorCode::kOutOfMemory);
    EXPECT_EQ(backend.live_count, 0);
}

}  // namespace
}  // namespace di
