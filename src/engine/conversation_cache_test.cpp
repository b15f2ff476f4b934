// Every prefix counts: what conversations find in the cache, through the whole engine.
#include <algorithm>

#include <gtest/gtest.h>

#include "engine/engine_harness.h"

namespace di {
namespace {

constexpr EngineLimits kRoomy{
    .max_model_len = 400, .max_num_seqs = 4, .max_num_batched_tokens = 64, .kv_memory_bytes = 0, .snapshot_slots = 20000};

// Whole blocks of `prompt` that begin some token list of `seen`; the last token is never taken from the cache.
int64_t longest_known(const std::vector<std::vector<int32_t>>& seen, const std::vector<int32_t>& prompt, int64_t block_tokens) {
    int64_t best = 0;
    for (const std::vector<int32_t>& tokens : seen) {
        const auto [mine, theirs] = std::mismatch(prompt.begin(), prompt.end(), tokens.begin(), tokens.end());
        const auto common = std::min<int64_t>(mine - prompt.begin(), static_cast<int64_t>(prompt.size()) - 1);
        best = std::max(best, common / block_tokens * block_tokens);
    }
    return best;
}

TEST(ConversationCache, TurnsFindAllThatAnyTurnBeforeLeft) {
    for (const int64_t block_tokens : {int64_t{4}, int64_t{16}}) {
        constexpr uint64_t kSeed = 5;
        SCOPED_TRACE(testing::Message() << "seed " << kSeed << " block of " << block_tokens);
        SeededRandom random(kSeed);
        EngineLimits limits = kRoomy;
        const FakeShape shape{.block_tokens = block_tokens, .draft_depth = 3};
        limits.kv_memory_bytes = 20000 * FakeModel(shape).geometry().block_bytes;
        EngineHarness harness(limits, shape, {.deterministic = true});
        std::vector<std::vector<int32_t>> seen;
        std::vector<std::vector<int32_t>> histories;
        for (uint64_t turn = 1; turn <= 200; ++turn) {
            std::vector<int32_t> prompt;
            if (!histories.empty() && random.below(4) > 0) {
                prompt = histories[static_cast<size_t>(random.below(static_cast<int64_t>(histories.size())))];
            } else {
                prompt = make_prompt(static_cast<uint64_t>(random.below(3)), 1 + random.below(30));
            }
            const std::vector<int32_t> question = make_prompt(random.next(), 1 + random.below(20));
            prompt.insert(prompt.end(), question.begin(), question.end());
            if (prompt.size() > 350) {
                continue;
            }
            const TokenRequest request = make_request(turn, prompt, static_cast<int32_t>(1 + random.below(25)));
            const Answer answer = harness.run({request}).at(turn);
            ASSERT_EQ(answer.usage.cached_tokens, longest_known(seen, prompt, block_tokens)) << "turn " << turn;
            ASSERT_TRUE(answer == expected_answer(request, limits.max_model_len));
            std::vector<int32_t> history = prompt;
            history.insert(history.end(), answer.token_ids.begin(), answer.token_ids.end());
            if (std::find(history.begin(), history.end(), kFakeNanToken) == history.end()) {  // which may only be drawn
                histories.push_back(history);
            }
            history.pop_back();  // the last token drawn was never run
            seen.push_back(std::move(history));
        }
        EXPECT_TRUE(harness.is_drained());
    }
}

TEST(ConversationCache, AbortedTurnsLeaveTheirPrefix) {
    EngineHarness harness(kRoomy, {}, {.asynchronous = false});
    const std::vector<int32_t> prompt = make_prompt(1, 33);
    harness.engine->add_request(make_request(1, prompt, 100));
    for (int step = 0; step < 5; ++step) {
        (void)harness.engine->step();
    }
    harness.engine->abort_request(1);
    harness.run();
    std::vector<int32_t> more = prompt;
    more.push_back(7);
    const Answer answer = harness.run({make_request(2, more, 2)}).at(2);
    EXPECT_EQ(answer.usage.cached_tokens, 32);
    EXPECT_EQ(answer.cache_miss, CacheMiss::kNone);
}

TEST(ConversationCache, ForgetsEverythingWhenAskedAlsoInTheMiddleOfRequests) {
    EngineHarness harness(kRoomy, {}, {.deterministic = true});
    const std::vector<int32_t> prompt = make_prompt(1, 33);
    EXPECT_EQ(harness.run({make_request(1, prompt, 2)}).at(1).usage.cached_tokens, 0);
    EXPECT_EQ(harness.run({make_request(2, prompt, 2)}).at(2).usage.cached_tokens, 32);
    const TokenRequest request = make_request(3, prompt, 40);
    harness.engine->add_request(request);
    Answers answers;
    for (int step = 0; step < 5; ++step) {
        collect(harness.engine->step(), answers);
    }
    collect(harness.engine->flush(), answers);
    harness.engine->reset_prefix_cache();
    EXPECT_EQ(harness.engine->stats().blocks_cached, 0);
    for (int step = 0; step < 1000 && harness.engine->has_unfinished(); ++step) {
        collect(harness.engine->step(), answers);
    }
    EXPECT_TRUE(answers.at(3) == expected_answer(request, kRoomy.max_model_len));
    EXPECT_TRUE(harness.is_drained());
    harness.engine->reset_prefix_cache();
    EXPECT_EQ(harness.run({make_request(4, prompt, 2)}).at(4).usage.cached_tokens, 0);
}

TEST(ConversationCache, SaysWhyNotMoreWasFound) {
    EngineHarness harness(kRoomy, {}, {.asynchronous = false});
    const std::vector<int32_t> prompt = make_prompt(1, 33);
    EXPECT_EQ(harness.run({make_request(1, prompt, 2)}).at(1).cache_miss, CacheMiss::kNew);
    EXPECT_EQ(harness.run({make_request(2, prompt, 2)}).at(2).cache_miss, CacheMiss::kNone);
    TokenRequest salted = make_request(3, prompt, 2);
    salted.cache_salt = "tenant";
    const Answer other = harness.run({salted}).at(3);
    EXPECT_EQ(other.usage.cached_tokens, 0);
    EXPECT_EQ(other.cache_miss, CacheMiss::kNew);
    TokenRequest scored = make_request(4, prompt, 2);
    scored.sampling.prompt_logprobs = true;
    EXPECT_EQ(harness.run({scored}).at(4).cache_miss, CacheMiss::kPromptRows);
    EngineHarness off(kRoomy, {}, {.prefix_cache = false});
    EXPECT_EQ(off.run({make_request(1, prompt, 2)}).at(1).cache_miss, CacheMiss::kDisabled);
}

// B29: the ids of images are the same whatever they show.
TEST(ConversationCache, ImagesAreTakenForWhatTheyShow) {
    EngineHarness harness(kRoomy, {.has_vision = true}, {.asynchronous = false});
    TokenRequest request = make_request(1, make_prompt(1, 30), 3);
    RequestImage image{.grid_height = 2, .grid_width = 2, .first_token = 5};
    image.patches.assign(4 * kFakePatchValues, 2.0F);
    request.images = {image};
    const Answer first = harness.run({request}).at(1);
    TokenRequest other = request;
    other.id = 2;
    other.images[0].patches[0] = 3.0F;
    const Answer second = harness.run({other}).at(2);
    EXPECT_EQ(second.usage.cached_tokens, 4);  // the block in front of the image
    EXPECT_TRUE(second == expected_answer(other, kRoomy.max_model_len));
    TokenRequest turned = request;  // the same values and as many tokens, but 1 x 4 patches
    turned.id = 4;
    turned.images[0].grid_height = 1;
    turned.images[0].grid_width = 4;
    EXPECT_EQ(harness.run({turned}).at(4).usage.cached_tokens, 4);
    request.id = 3;
    request.sampling.seed = 78;
    const Answer again = harness.run({request}).at(3);
    EXPECT_EQ(again.usage.cached_tokens, 28);
    EXPECT_TRUE(again == first);
}

TEST(ConversationCache, NothingGrowsOverTenThousandRequestsInASmallCache) {
    EngineLimits limits = kRoomy;
    const int64_t block_bytes = FakeModel().geometry().block_bytes;
    limits.max_model_len = 40;
    limits.kv_memory_bytes = 30 * block_bytes;
    limits.snapshot_slots = 12;
    EngineHarness harness(limits);
    SeededRandom random(9);
    for (uint64_t id = 1; id <= 10000; ++id) {
        harness.engine->add_request(
            make_request(id, make_prompt(static_cast<uint64_t>(random.below(50)), 1 + random.below(20)), 3));
        if (random.below(10) == 0) {
            harness.engine->abort_request(id - static_cast<uint64_t>(random.below(3)));
        }
        (void)harness.engine->step();
    }
    harness.run();
    harness.engine->check_invariants();
    EXPECT_EQ(harness.engine->stats().finished + harness.engine->stats().aborted, 10000);
    EXPECT_TRUE(harness.is_drained());
}

}  // namespace
}  // namespace di
