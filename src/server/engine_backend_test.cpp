#include "server/engine_backend.h"

#include <condition_variable>
#include <map>
#include <thread>

#include <gtest/gtest.h>

#include "engine/engine_harness.h"

namespace di {
namespace {

constexpr EngineLimits kLimits{
    .max_model_len = 400, .max_num_seqs = 4, .max_num_batched_tokens = 64, .kv_memory_bytes = 0, .snapshot_slots = 200};

// What came to the sink, and a way to wait for it.
class Heard {
  public:
    void take(const std::vector<StepOutput>& outputs) {
        const std::lock_guard lock(mutex_);
        collect(outputs, answers_);
        for (const StepOutput& output : outputs) {
            ended_ += output.finish == FinishReason::kNone ? 0 : 1;
        }
        wake_.notify_all();
    }
    [[nodiscard]] Answers wait_for(int64_t count) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return ended_ >= count; });
        return answers_;
    }

  private:
    std::mutex mutex_;  // guards what follows
    std::condition_variable wake_;
    Answers answers_;
    int64_t ended_ = 0;
};

TEST(EngineBackend, EndsEveryRequestOnceFromManyThreads) {
    EngineHarness harness(kLimits, {}, {.deterministic = true});
    SystemClock clock;
    Heard heard;
    EngineBackend backend(*harness.engine, clock);
    EXPECT_FALSE(backend.health().is_ready);
    backend.start([&](const std::vector<StepOutput>& outputs) { heard.take(outputs); });
    EXPECT_TRUE(backend.health().is_ready);
    std::vector<std::thread> threads;
    for (uint64_t thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&backend, thread] {
            for (uint64_t i = 0; i < 25; ++i) {
                const uint64_t id = thread * 25 + i;
                backend.submit(make_request(id, make_prompt(id, 20), 12));
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    const Answers answers = heard.wait_for(100);
    ASSERT_EQ(answers.size(), 100U);
    for (const auto& [id, answer] : answers) {
        EXPECT_EQ(answer.last_record_count, 1);
        EXPECT_TRUE(answer == expected_answer(make_request(id, make_prompt(id, 20), 12), kLimits.max_model_len)) << id;
    }
    backend.stop();
    EXPECT_EQ(backend.stats().finished, 100);
    EXPECT_TRUE(harness.is_drained());
}

TEST(EngineBackend, CancelsWithinAStepAndForgetsTheCache) {
    EngineHarness harness(kLimits, {}, {.deterministic = true});
    SystemClock clock;
    Heard heard;
    EngineBackend backend(*harness.engine, clock);
    backend.start([&](const std::vector<StepOutput>& outputs) { heard.take(outputs); });
    for (uint64_t id = 0; id < 20; ++id) {
        backend.submit(make_request(id, make_prompt(id, 20), 350));
        backend.cancel(id);
        backend.cancel(id + 1000);  // nobody
        backend.reset_prefix_cache();
    }
    for (const auto& [id, answer] : heard.wait_for(20)) {
        EXPECT_EQ(answer.last_record_count, 1) << id;
    }
    backend.stop();
    EXPECT_TRUE(harness.is_drained());
}

TEST(EngineBackend, CancelsOneSampleAndItsFellowGoesOn) {
    EngineHarness harness(kLimits, {}, {.deterministic = true});
    SystemClock clock;
    Heard heard;
    EngineBackend backend(*harness.engine, clock);
    backend.start([&](const std::vector<StepOutput>& outputs) {
        for (const StepOutput& output : outputs) {
            if (output.sample_index == 1 && output.finish == FinishReason::kNone) {
                backend.cancel_sample(output.request_id, 1);
            }
        }
        heard.take(outputs);
    });
    TokenRequest request = make_request(1, make_prompt(1, 20), 350);
    request.sampling.n = 2;
    backend.submit(request);
    Answers answers = heard.wait_for(2);
    EXPECT_TRUE(answers.at(1) == expected_answer(request, kLimits.max_model_len));
    EXPECT_EQ(answers.at(answer_key(1, 1)).finish, FinishReason::kAbort);
    EXPECT_EQ(answers.at(answer_key(1, 1)).last_record_count, 1);
    EXPECT_LT(answers.at(answer_key(1, 1)).token_ids.size(), 20U);
    backend.stop();
    EXPECT_TRUE(harness.is_drained());
}

}  // namespace
}  // namespace di
