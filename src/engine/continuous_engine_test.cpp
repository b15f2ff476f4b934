#include "engine/continuous_engine.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "engine/engine_harness.h"

namespace di {
namespace {

constexpr EngineLimits kRoomy{.max_model_len = 64, .max_num_seqs = 8, .max_num_batched_tokens = 256, .kv_memory_bytes = 0};

EngineLimits with_rows(int32_t rows) {
    EngineLimits limits = kRoomy;
    limits.max_num_batched_tokens = rows;
    return limits;
}

// Prompts of many lengths, every kind of sampling.
std::vector<TokenRequest> mixed_requests() {
    std::vector<TokenRequest> requests;
    constexpr int64_t kLengths[] = {1, 3, 4, 5, 11, 20, 33, 2, 8, 17};
    for (uint64_t id = 0; id < std::size(kLengths); ++id) {
        TokenRequest request = make_request(id, make_prompt(id + 100, kLengths[id]), static_cast<int32_t>(3 + id * 2));
        request.sampling.temperature = id % 3 == 0 ? 0.0 : 0.5 * static_cast<double>(id % 4 + 1);
        request.sampling.top_p = id % 2 == 0 ? 1.0 : 0.8;
        request.sampling.top_k = id % 4 == 1 ? 5 : -1;
        request.sampling.ignore_eos = id % 2 == 0;
        requests.push_back(request);
    }
    return requests;
}

void expect_rules(const std::vector<TokenRequest>& requests, const Answers& answers, int32_t max_model_len) {
    ASSERT_EQ(answers.size(), requests.size());
    for (const TokenRequest& request : requests) {
        const Answer& answer = answers.at(request.id);
        EXPECT_TRUE(answer == expected_answer(request, max_model_len)) << "request " << request.id << " " << answer.error;
        EXPECT_EQ(answer.last_record_count, 1);
        EXPECT_EQ(answer.usage.prompt_tokens, static_cast<int64_t>(request.prompt_token_ids.size()));
        EXPECT_EQ(answer.usage.completion_tokens, static_cast<int64_t>(answer.token_ids.size()));
    }
}

TEST(ContinuousEngine, BatchedRequestsAnswerAsEachAlone) {
    const std::vector<TokenRequest> requests = mixed_requests();
    EngineHarness together(kRoomy);
    expect_rules(requests, together.run(requests), kRoomy.max_model_len);
    EXPECT_EQ(*std::max_element(together.model.sequences_seen.begin(), together.model.sequences_seen.end()), 8);
    EXPECT_TRUE(together.is_drained());
    for (const TokenRequest& request : requests) {
        EngineHarness alone(kRoomy);
        expect_rules({request}, alone.run({request}), kRoomy.max_model_len);
    }
}

TEST(ContinuousEngine, CutPromptsAnswerAsWholeOnes) {
    const std::vector<TokenRequest> requests = mixed_requests();
    for (const int32_t rows : {1, 2, 3, 4, 7, 13}) {
        EngineHarness harness(with_rows(rows));
        expect_rules(requests, harness.run(requests), kRoomy.max_model_len);
        EXPECT_LE(*std::max_element(harness.model.rows_seen.begin(), harness.model.rows_seen.end()), rows);
        EXPECT_TRUE(harness.is_drained());
    }
}

TEST(ContinuousEngine, MixesPromptAndDecodeRowsAndUsesTheWholeBudget) {
    EngineHarness harness(with_rows(4), {}, {.asynchronous = false});
    Answers answers;
    harness.engine->add_request(make_request(1, make_prompt(1, 3), 10));
    collect(harness.engine->step(), answers);
    harness.engine->add_request(make_request(2, make_prompt(2, 7), 10));
    collect(harness.engine->step(), answers);  // 1 decode row, 3 of 7 prompt rows
    collect(harness.engine->step(), answers);  // 1 decode row, 3 more
    EXPECT_EQ(harness.model.rows_seen, (std::vector<int32_t>{3, 4, 4}));
    EXPECT_EQ(answers[1].token_ids.size(), 3U);
    EXPECT_TRUE(answers[2].token_ids.empty());
    collect(harness.engine->step(), answers);  // the last prompt row gives the first token
    EXPECT_EQ(harness.model.rows_seen.back(), 2);
    EXPECT_EQ(answers[2].token_ids.size(), 1U);
}

TEST(ContinuousEngine, FullPoolMakesRequestsWaitAndAllFinish) {
    EngineLimits limits = kRoomy;
    const int64_t block_bytes = FakeModel().geometry().block_bytes;
    limits.kv_memory_bytes = 7 * block_bytes + 5;  // 7 blocks of 4 tokens; each request needs 3
    std::vector<TokenRequest> requests;
    for (uint64_t id = 0; id < 6; ++id) {
        requests.push_back(make_request(id, make_prompt(id, 6), 7));
    }
    EngineHarness harness(limits);
    EXPECT_EQ(harness.engine->scheduler().blocks().count(), 7);
    expect_rules(requests, harness.run(requests), limits.max_model_len);
    EXPECT_EQ(*std::max_element(harness.model.sequences_seen.begin(), harness.model.sequences_seen.end()), 2);
    EXPECT_TRUE(harness.is_drained());
}

TEST(ContinuousEngine, NoMoreSequencesThanSlots) {
    EngineLimits limits = kRoomy;
    limits.max_num_seqs = 3;
    std::vector<TokenRequest> requests = mixed_requests();
    EngineHarness harness(limits);
    expect_rules(requests, harness.run(requests), limits.max_model_len);
    EXPECT_EQ(*std::max_element(harness.model.sequences_seen.begin(), harness.model.sequences_seen.end()), 3);
}

// Sequences 1 and 2 need 7 of 10 blocks each, 3 needs one.
int32_t waiting_behind_a_large_head(int32_t passed_max) {
    EngineLimits limits = kRoomy;
    limits.kv_memory_bytes = 10 * FakeModel().geometry().block_bytes;
    EngineHarness harness(limits, {}, {.asynchronous = false, .passed_max = passed_max});
    harness.engine->add_request(make_request(1, make_prompt(1, 20), 6));
    harness.engine->add_request(make_request(2, make_prompt(2, 20), 6));
    harness.engine->add_request(make_request(3, make_prompt(3, 2), 9));
    Answers answers;
    collect(harness.engine->step(), answers);
    const int32_t waiting = harness.engine->stats().waiting;
    for (const auto& [id, answer] : harness.run()) {
        EXPECT_EQ(answer.finish, FinishReason::kLength) << id;
    }
    return waiting;
}

TEST(ContinuousEngine, WhatFitsMayPassAHeadThatDoesNotAndNobodyMayIfNoneIsAllowed) {
    EXPECT_EQ(waiting_behind_a_large_head(4), 1);
    EXPECT_EQ(waiting_behind_a_large_head(0), 2);
}

TEST(ContinuousEngine, RecordsOfAStepComeInOrderOfArrival) {
    EngineHarness harness(kRoomy);
    harness.engine->add_request(make_request(9, make_prompt(1, 3), 4));
    harness.engine->add_request(make_request(4, {}, 4));  // an error, ready before any step
    harness.engine->add_request(make_request(7, make_prompt(2, 3), 4));
    harness.engine->add_request(make_request(2, make_prompt(3, 3), 0));
    harness.engine->abort_request(7);
    std::vector<uint64_t> ids;
    for (const StepOutput& output : harness.engine->step()) {
        ids.push_back(output.request_id);
    }
    EXPECT_EQ(ids, (std::vector<uint64_t>{9, 4, 7, 2}));
}

TEST(ContinuousEngine, AbortAtEveryStepEndsOnceAndFreesEverything) {
    // Two requests through a budget of 3 rows: waiting, cut prefill and decode are all met.
    for (int32_t abort_step = 0; abort_step < 20; ++abort_step) {
        EngineHarness harness(with_rows(3));
        const TokenRequest victim = make_request(1, make_prompt(5, 8), 9);
        const TokenRequest other = make_request(2, make_prompt(6, 7), 5);
        Answers answers;
        harness.engine->add_request(other);
        harness.engine->add_request(victim);
        for (int32_t step = 0; harness.engine->has_unfinished(); ++step) {
            if (step == abort_step) {
                harness.engine->abort_request(1);
                harness.engine->abort_request(1);
            }
            collect(harness.engine->step(), answers);
            ASSERT_LT(step, 100);
        }
        const Answer whole = expected_answer(victim, kRoomy.max_model_len);
        const Answer& answer = answers.at(1);
        EXPECT_EQ(answer.last_record_count, 1);
        if (answer.token_ids.size() < whole.token_ids.size()) {
            EXPECT_EQ(answer.finish, FinishReason::kAbort) << abort_step;
        }
        EXPECT_TRUE(std::equal(answer.token_ids.begin(), answer.token_ids.end(), whole.token_ids.begin()));
        EXPECT_TRUE(answers.at(2) == expected_answer(other, kRoomy.max_model_len));
        EXPECT_TRUE(harness.is_drained());
    }
}

TEST(ContinuousEngine, AbortOfASampleAtEveryStepEndsItAloneAndNothingIsDrawnForItAnyMore) {
    for (const bool is_asynchronous : {false, true}) {
        for (int32_t victim = 0; victim < 3; ++victim) {
            for (int32_t abort_step = 0; abort_step < 14; ++abort_step) {
                EngineHarness harness(kRoomy, {}, {.asynchronous = is_asynchronous});
                TokenRequest request = make_request(1, make_prompt(5, 8), 9);
                request.sampling.n = 3;
                harness.engine->add_request(request);
                Answers answers;
                size_t known = 0;  // tokens that the caller has of the victim when it aborts it
                for (int32_t step = 0; harness.engine->has_unfinished(); ++step) {
                    if (step == abort_step) {
                        known = answers[answer_key(1, victim)].token_ids.size();
                        harness.engine->abort_sample(1, victim);
                        harness.engine->abort_sample(1, victim);
                        harness.engine->abort_sample(1, 3);
                        harness.engine->abort_sample(2, victim);
                    }
                    collect(harness.engine->step(), answers);
                    ASSERT_LT(step, 100);
                }
                for (int32_t sample = 0; sample < 3; ++sample) {
                    const Answer whole = expected_answer(request, kRoomy.max_model_len, sample);
                    const Answer& answer = answers.at(answer_key(1, sample));
                    EXPECT_EQ(answer.last_record_count, 1);
                    if (sample != victim || known == 0 || known == whole.token_ids.size()) {
                        EXPECT_TRUE(answer == whole) << sample << " of " << victim << " at " << abort_step;
                        continue;
                    }
                    EXPECT_EQ(answer.finish, FinishReason::kAbort) << victim << " at " << abort_step;
                    EXPECT_EQ(answer.token_ids.size(), known);
                }
                EXPECT_TRUE(harness.is_drained());
            }
        }
    }
}

TEST(ContinuousEngine, AbortOfAnUnknownOrFinishedRequestIsIgnored) {
    EngineHarness harness(kRoomy);
    harness.engine->abort_request(5);
    EXPECT_FALSE(harness.engine->has_unfinished());
    EXPECT_TRUE(harness.engine->step().empty());
    const Answers answers = harness.run({make_request(5, make_prompt(1, 3), 2)});
    EXPECT_EQ(answers.at(5).finish, FinishReason::kLength);
    harness.engine->abort_request(5);
    EXPECT_TRUE(harness.engine->step().empty());
    // A finished id may be used again.
    EXPECT_EQ(harness.run({make_request(5, make_prompt(1, 3), 2)}).at(5).finish, FinishReason::kLength);
}

TEST(ContinuousEngine, EndTokensStopAndAreReturned) {
    TokenRequest request = make_request(1, make_prompt(1, 5), 10);
    request.sampling.golden_token_ids = {7, -1, kFakeEos};
    request.sampling.ignore_eos = false;
    EngineHarness harness(kRoomy);
    Answer answer = harness.run({request}).at(1);
    EXPECT_EQ(answer.finish, FinishReason::kStop);
    ASSERT_EQ(answer.token_ids.size(), 3U);
    EXPECT_EQ(answer.token_ids.front(), 7);
    EXPECT_EQ(answer.token_ids.back(), kFakeEos);

    request.sampling.ignore_eos = true;
    answer = harness.run({request}).at(1);
    EXPECT_EQ(answer.finish, FinishReason::kLength);
    EXPECT_EQ(answer.token_ids.size(), 10U);

    request.sampling.stop_token_ids = {50, 7};
    answer = harness.run({request}).at(1);
    EXPECT_EQ(answer.finish, FinishReason::kStop);
    EXPECT_EQ(answer.token_ids, std::vector<int32_t>{7});
}

TEST(ContinuousEngine, StopWinsOverLengthAtTheLastToken) {
    TokenRequest request = make_request(1, make_prompt(1, 5), 2);
    request.sampling.golden_token_ids = {7, 9};
    request.sampling.stop_token_ids = {9};
    EXPECT_EQ(EngineHarness(kRoomy).run({request}).at(1).finish, FinishReason::kStop);
}

TEST(ContinuousEngine, MinTokensKeepsEndTokensAway) {
    TokenRequest request = make_request(1, make_prompt(1, 5), 12);
    request.sampling.min_tokens = 8;
    request.sampling.temperature = 100.0;  // nearly uniform: an end token would come soon
    for (int32_t id = 0; id < 55; ++id) {
        request.sampling.stop_token_ids.push_back(id);
    }
    const Answer answer = EngineHarness(kRoomy).run({request}).at(1);
    EXPECT_GE(answer.token_ids.size(), 9U);
    for (size_t i = 0; i < 8; ++i) {
        EXPECT_GE(answer.token_ids[i], 55);
    }
    EXPECT_EQ(answer.finish, FinishReason::kStop);
    EXPECT_TRUE(answer == expected_answer(request, kRoomy.max_model_len));
}

TEST(ContinuousEngine, GoldenTokensAreForcedWithTheModelsOwnLogprobs) {
    TokenRequest free = make_request(1, make_prompt(1, 5), 6);
    const Answer drawn = EngineHarness(kRoomy).run({free}).at(1);
    TokenRequest forced = free;
    forced.sampling.golden_token_ids = drawn.token_ids;
    forced.sampling.seed = 12345;
    EXPECT_TRUE(EngineHarness(kRoomy).run({forced}).at(1) == drawn);
}

TEST(ContinuousEngine, ContextEndIsLength) {
    EngineLimits limits = kRoomy;
    limits.max_model_len = 10;
    EngineHarness harness(limits);
    const Answers answers = harness.run({make_request(1, make_prompt(1, 7), 100), make_request(2, make_prompt(2, 10), 100),
                                         make_request(3, make_prompt(3, 9), 100)});
    EXPECT_EQ(answers.at(1).token_ids.size(), 3U);
    EXPECT_EQ(answers.at(2).token_ids.size(), 1U);  // which is never run and needs no room
    EXPECT_EQ(answers.at(3).token_ids.size(), 1U);
    for (const auto& [id, answer] : answers) {
        EXPECT_EQ(answer.finish, FinishReason::kLength) << id;
        EXPECT_EQ(answer.last_record_count, 1);
    }
}

TEST(ContinuousEngine, NoTokensAskedForIsAnEmptyAnswerWithoutAStepOfTheModel) {
    EngineHarness harness(kRoomy);
    const Answer answer = harness.run({make_request(1, make_prompt(1, 7), 0)}).at(1);
    EXPECT_EQ(answer.finish, FinishReason::kLength);
    EXPECT_TRUE(answer.token_ids.empty());
    EXPECT_EQ(answer.usage.prompt_tokens, 7);
    EXPECT_EQ(harness.model.step_count, 0);
}

TEST(ContinuousEngine, UnseededRequestsDiffer) {
    std::vector<TokenRequest> requests;
    for (uint64_t id = 0; id < 2; ++id) {
        requests.push_back(make_request(id, make_prompt(1, 5), 12));
        requests.back().sampling.seed.reset();
    }
    const Answers answers = EngineHarness(kRoomy).run(requests);
    EXPECT_NE(answers.at(0).token_ids, answers.at(1).token_ids);
}

TEST(ContinuousEngine, TimesAreThoseOfTheClock) {
    EngineHarness harness(with_rows(4));
    harness.engine->add_request(make_request(1, make_prompt(1, 8), 2));
    harness.clock.advance_us(3000);
    Answers answers;
    collect(harness.engine->step(), answers);  // first half of the prompt
    harness.clock.advance_us(5000);
    collect(harness.engine->step(), answers);  // second half, first token
    harness.clock.advance_us(7000);
    collect(harness.engine->step(), answers);
    const RequestTiming& timing = answers.at(1).timing;
    EXPECT_DOUBLE_EQ(timing.queue_ms, 3.0);
    EXPECT_DOUBLE_EQ(timing.prefill_ms, 5.0);
    EXPECT_DOUBLE_EQ(timing.first_token_ms, 8.0);
    EXPECT_DOUBLE_EQ(timing.total_ms, 15.0);
}

}  // namespace
}  // namespace di
