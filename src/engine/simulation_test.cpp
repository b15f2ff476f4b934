#include "engine/simulation.h"

#include <algorithm>
#include <cstdlib>

namespace di {
namespace {

int64_t number_from(const char* name, int64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

// DEEPINFER_SIMULATION_SEED repeats one seed, DEEPINFER_SIMULATION_EVENTS sets the number of events of all together (10^6 is the
// long run).
TEST(Simulation, KeepsEveryPromiseUnderSeededStorms) {
    const int64_t one_seed = number_from("DEEPINFER_SIMULATION_SEED", -1);
    const int64_t events = number_from("DEEPINFER_SIMULATION_EVENTS", 60000);
    constexpr int64_t kEventsOfASeed = 1000;
    int64_t complete = 0;
    int64_t preemptions = 0;
    int64_t cached = 0;
    int64_t accepted = 0;
    const int64_t first = one_seed >= 0 ? one_seed : 1;
    const int64_t last = one_seed >= 0 ? one_seed : std::max<int64_t>(1, events / kEventsOfASeed);
    for (int64_t seed = first; seed <= last; ++seed) {
        SCOPED_TRACE(testing::Message() << "repeat: DEEPINFER_SIMULATION_SEED=" << seed
                                        << " build/release/engine_test --gtest_filter=Simulation.KeepsEvery*");
        const SimulationReport report = Simulation(random_simulation(static_cast<uint64_t>(seed), kEventsOfASeed)).run();
        complete += report.complete;
        preemptions += report.stats.preemptions;
        cached += report.cached_tokens;
        accepted += report.stats.accepted_tokens;
        if (HasFailure()) {
            return;
        }
    }
    if (one_seed < 0) {  // the storms meet what they are made for
        EXPECT_GT(complete, events / 50);
        EXPECT_GT(preemptions, 0);
        EXPECT_GT(cached, 0);
        EXPECT_GT(accepted, 0);
    }
}

// The same seed gives the same steps: a recorded failure can be repeated.
TEST(Simulation, RepeatsItselfStepByStep) {
    const auto run = [] {
        SimulationOptions options = random_simulation(5, 400);
        options.behaviour.asynchronous = false;
        return Simulation(options).run();
    };
    const SimulationReport first = run();
    const SimulationReport second = run();
    EXPECT_EQ(first.stats.steps, second.stats.steps);
    EXPECT_EQ(first.stats.output_tokens, second.stats.output_tokens);
    EXPECT_EQ(first.stats.preemptions, second.stats.preemptions);
    EXPECT_EQ(first.stats.drafted_tokens, second.stats.drafted_tokens);
    EXPECT_EQ(first.complete, second.complete);
}

// Steady arrivals: prompts join steps that decode, but answers under way keep their pace.
TEST(Simulation, PromptsDoNotStallAnswersUnderWay) {
    EngineBehaviour behaviour;
    behaviour.asynchronous = false;
    behaviour.step_stretch_max = 2.0;
    EngineHarness harness({.max_model_len = 512, .max_num_seqs = 16, .max_num_batched_tokens = 512, .kv_memory_bytes = 0},
                          {.block_tokens = 32}, behaviour);
    harness.model.on_forward = [&](int32_t rows) { harness.clock.advance_us(2000 + 60 * rows); };
    std::map<uint64_t, int64_t> last_us;
    std::vector<int64_t> gaps;
    uint64_t id = 0;
    for (int64_t step = 0; step < 4000; ++step) {
        if (step % 12 == 0) {
            ++id;
            harness.engine->add_request(make_request(id, make_prompt(id, 150), 60));
        }
        for (const StepOutput& output : harness.engine->step()) {
            if (output.token_ids.empty()) {
                continue;
            }
            const int64_t now_us = harness.clock.now_us();
            const auto [place, is_first] = last_us.try_emplace(output.request_id, now_us);
            if (!is_first && step > 500) {
                gaps.push_back(now_us - place->second);
            }
            place->second = now_us;
        }
    }
    ASSERT_GT(gaps.size(), 10000U);
    std::sort(gaps.begin(), gaps.end());
    const int64_t median = gaps[gaps.size() / 2];
    const int64_t p99 = gaps[gaps.size() * 99 / 100];
    EXPECT_LE(p99, 2 * median) << "median " << median << " us, p99 " << p99 << " us";
}

}  // namespace
}  // namespace di
