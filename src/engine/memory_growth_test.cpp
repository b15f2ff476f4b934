// Steps allocate nothing that stays: after 10^5 more of them the process holds what it held.
#include <vector>

#include <gtest/gtest.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "engine/engine_harness.h"

namespace di {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
constexpr bool kCountsHeap = false;  // another allocator
int64_t heap_bytes() { return 0; }
#else
constexpr bool kCountsHeap = true;
int64_t heap_bytes() {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<int64_t>(info.uordblks + info.hblkhd);
}
#endif

// Requests with shared beginnings, some aborted, in a cache that is too small for all.
class Traffic {
  public:
    explicit Traffic(bool asynchronous)
        : harness_({.max_model_len = 96,
                    .max_num_seqs = 8,
                    .max_num_batched_tokens = 32,
                    .kv_memory_bytes = kCacheBytes,
                    .snapshot_slots = 8},
                   {.draft_depth = 3, .draft_right_of_8 = 5}, {.asynchronous = asynchronous}) {
        harness_.model.on_forward = [this](int32_t rows) { harness_.clock.advance_us(1000 + 40 * rows); };
    }

    void run_steps(int64_t count) {
        for (int64_t step = 0; step < count; ++step) {
            if (harness_.engine->stats().waiting < 6) {
                ++id_;
                std::vector<int32_t> prompt = make_prompt(id_ % 5, 20);
                const std::vector<int32_t> own = make_prompt(id_, static_cast<int64_t>(id_ % 11));
                prompt.insert(prompt.end(), own.begin(), own.end());
                harness_.engine->add_request(make_request(id_, std::move(prompt), static_cast<int32_t>(1 + id_ % 24)));
            }
            if (step % 17 == 0) {
                harness_.engine->abort_request(id_);
            }
            for (const StepOutput& output : harness_.engine->step()) {
                tokens_ += static_cast<int64_t>(output.token_ids.size());
            }
        }
    }

    // Nothing under way: what is still held, is kept.
    void drain() {
        for (int64_t step = 0; harness_.engine->has_unfinished(); ++step) {
            ASSERT_LT(step, 100000) << "the engine does not come to an end";
            (void)harness_.engine->step();
        }
        // The model's own record of its steps; "= {}" would keep the memory.
        std::vector<int32_t>().swap(harness_.model.rows_seen);
        std::vector<int32_t>().swap(harness_.model.sequences_seen);
    }

    [[nodiscard]] int64_t tokens() const { return tokens_; }

  private:
    static constexpr int64_t kCacheBytes = 1 << 15;

    EngineHarness harness_;
    uint64_t id_ = 0;
    int64_t tokens_ = 0;
};

class MemoryGrowth : public testing::TestWithParam<bool> {};

TEST_P(MemoryGrowth, NoneOverAHundredThousandSteps) {
    if (!kCountsHeap) {
        GTEST_SKIP() << "this build's allocator does not say what it holds";
    }
    Traffic traffic(GetParam());
    traffic.run_steps(30000);  // tables of what steps cost and touch grow to their size
    traffic.drain();
    const int64_t before = heap_bytes();
    traffic.run_steps(100000);
    traffic.drain();
    const int64_t grown = heap_bytes() - before;
    EXPECT_GT(traffic.tokens(), 100000);
    constexpr int64_t kGrowthMax = 16384;  // some ten thousand requests pass: 16 bytes left of each would be ten times as much
    EXPECT_LT(grown, kGrowthMax) << "bytes held more than before, over 100,000 steps";
}

INSTANTIATE_TEST_SUITE_P(Stepping, MemoryGrowth, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& mode) { return mode.param ? "Async" : "Sync"; });

}  // namespace
}  // namespace di
