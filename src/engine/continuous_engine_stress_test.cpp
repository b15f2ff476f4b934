// Random arrivals and aborts, images among them: the invariants of the engine, and every answer by the rules.
#include <algorithm>

#include <gtest/gtest.h>

#include "engine/engine_harness.h"

namespace di {
namespace {

RequestImage random_image(SeededRandom& random, int32_t first_token) {
    RequestImage image{.grid_height = 1 + random.below(3), .grid_width = 1 + random.below(3), .first_token = first_token};
    for (int64_t i = 0; i < image.grid_height * image.grid_width * kFakePatchValues; ++i) {
        image.patches.push_back(static_cast<float>(random.below(100)));
    }
    return image;
}

TokenRequest random_request(SeededRandom& random, uint64_t id) {
    const int64_t length = 1 + random.below(random.below(4) == 0 ? 44 : 9);
    TokenRequest request = make_request(id, make_prompt(random.next(), length), static_cast<int32_t>(1 + random.below(12)));
    request.sampling.temperature = static_cast<double>(random.below(4)) * 0.5;
    request.sampling.top_p = random.below(2) == 0 ? 1.0 : 0.7;
    request.sampling.ignore_eos = random.below(2) == 0;
    int64_t place = random.below(6);
    while (random.below(2) == 0) {
        RequestImage image = random_image(random, static_cast<int32_t>(place));
        place += image.grid_height * image.grid_width + 2;
        if (place > length) {
            break;
        }
        request.images.push_back(std::move(image));
        place += random.below(5);
    }
    return request;
}

// One engine, one seed, some hundred steps.
class Storm {
  public:
    Storm(uint64_t seed, const EngineLimits& limits, const EngineBehaviour& behaviour)
        : limits_(limits),
          is_asynchronous_(behaviour.asynchronous),
          random_(seed),
          harness_(limits, {.has_vision = true}, behaviour) {}

    void run() {
        for (int step = 0; step < 250; ++step) {
            for (int64_t arrivals = random_.below(3); arrivals > 0; --arrivals) {
                arrive();
            }
            if (random_.below(5) == 0 && next_id_ > 0) {
                const auto id =
                    static_cast<uint64_t>(std::max<int64_t>(0, static_cast<int64_t>(next_id_) - 1 - random_.below(8)));
                harness_.engine->abort_request(id);
            }
            take(harness_.engine->step());
        }
        while (harness_.engine->has_unfinished()) {
            take(harness_.engine->step());
        }
        check_end();
    }

  private:
    void arrive() {
        TokenRequest request = random_request(random_, next_id_++);
        if (random_.below(12) == 0) {
            request.prompt_token_ids.back() = 99;  // out of range
        }
        requests_.push_back(request);
        harness_.engine->add_request(std::move(request));
    }

    void take(const std::vector<StepOutput>& outputs) {
        collect(outputs, answers_);
        ASSERT_LE(static_cast<int64_t>(harness_.engine->scheduler().running().size()), limits_.max_num_seqs);
        harness_.engine->check_invariants();
        for (size_t i = 1; i < outputs.size(); ++i) {
            ASSERT_LT(outputs[i - 1].request_id, outputs[i].request_id);  // ids rise with arrival here
        }
        // While a step runs, the model is its thread's.
        if (!is_asynchronous_ && !harness_.model.rows_seen.empty()) {
            ASSERT_LE(harness_.model.rows_seen.back(), limits_.max_num_batched_tokens);
        }
        // Only the sequence that is cut and its cut images hold embeddings between steps: storage and a few.
        ASSERT_LE(harness_.backend.live_count, 2 + 2 * static_cast<int64_t>(harness_.engine->scheduler().running().size()));
    }

    void check_end() {
        EXPECT_TRUE(harness_.is_drained());
        EXPECT_EQ(harness_.backend.live_count, 2);  // blocks and states
        ASSERT_EQ(answers_.size(), requests_.size());
        int64_t complete = 0;
        for (const TokenRequest& request : requests_) {
            const Answer& answer = answers_.at(request.id);
            EXPECT_EQ(answer.last_record_count, 1);
            if (request.prompt_token_ids.back() == 99) {
                EXPECT_EQ(answer.finish, FinishReason::kError);
                continue;
            }
            const Answer wanted = expected_answer(request, limits_.max_model_len);
            if (answer.finish == FinishReason::kAbort) {
                EXPECT_LT(answer.token_ids.size(), wanted.token_ids.size());
                EXPECT_TRUE(std::equal(answer.token_ids.begin(), answer.token_ids.end(), wanted.token_ids.begin()));
                continue;
            }
            EXPECT_TRUE(answer == wanted) << "request " << request.id << " " << answer.error;
            ++complete;
        }
        EXPECT_GT(complete, 100);
    }

    EngineLimits limits_;
    bool is_asynchronous_;
    SeededRandom random_;
    EngineHarness harness_;
    uint64_t next_id_ = 0;
    std::vector<TokenRequest> requests_;
    Answers answers_;
};

TEST(ContinuousEngineStress, RandomArrivalsAndAbortsKeepEveryPromise) {
    const int64_t block_bytes = FakeModel().geometry().block_bytes;
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        constexpr int32_t kRows[] = {1, 3, 5, 8, 16, 200};
        Storm(seed,
              {.max_model_len = 48,
               .max_num_seqs = static_cast<int32_t>(1 + seed),
               .max_num_batched_tokens = kRows[seed - 1],
               .kv_memory_bytes = static_cast<int64_t>(12 + seed * 3) * block_bytes,
               .snapshot_slots = static_cast<int32_t>(seed % 3) * 10},
              {.asynchronous = seed % 2 == 0})
            .run();
    }
}

TEST(ContinuousEngineStress, ImageSpansMayBeCutAnywhere) {
    SeededRandom random(77);
    TokenRequest request = make_request(1, make_prompt(3, 30), 5);
    request.images = {random_image(random, 0), random_image(random, 11), random_image(random, 22)};
    request.images[0].grid_height = request.images[0].grid_width = 3;
    request.images[0].patches.assign(9 * kFakePatchValues, 2.0F);
    request.images[2].grid_height = 1;
    request.images[2].grid_width = 6;  // to the very end of the prompt
    request.images[2].patches.assign(6 * kFakePatchValues, 3.0F);
    const Answer wanted = expected_answer(request, 48);
    for (int32_t rows = 1; rows <= 31; ++rows) {
        EngineHarness harness({.max_model_len = 48, .max_num_seqs = 2, .max_num_batched_tokens = rows, .kv_memory_bytes = 0},
                              {.has_vision = true});
        EXPECT_TRUE(harness.run({request}).at(1) == wanted) << rows;
        EXPECT_EQ(harness.model.images_encoded, 3);
        EXPECT_EQ(harness.backend.live_count, 2);
    }
    TokenRequest other = request;
    other.images[1].patches[0] += 1.0F;
    EXPECT_FALSE(expected_answer(other, 48) == wanted);  // the test can see embeddings
}

}  // namespace
}  // namespace di
