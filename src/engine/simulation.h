#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine_harness.h"

// Deterministic simulation of the engine: a fake model that costs virtual time, seeded arrivals, aborts, deadlines, faults, a small
// cache. Whatever happens, invariants hold after every step, every sample has exactly one last record, and every complete answer is the one
// that the rules give without an engine.
namespace di {

struct SimulationOptions {
    uint64_t seed = 0;
    int64_t events = 1000;  // arrivals, aborts and steps
    EngineLimits limits{};
    EngineBehaviour behaviour{};
    FakeShape shape{};
};

struct SimulationReport {
    int64_t complete = 0;
    int64_t cached_tokens = 0;
    EngineStats stats;
};

class Simulation {
  public:
    explicit Simulation(const SimulationOptions& options)
        : options_(options), random_(options.seed), harness_(options.limits, options.shape, options.behaviour) {
        harness_.model.on_forward = [this](int32_t rows) { harness_.clock.advance_us(1500 + 40 * rows); };
    }

    SimulationReport run() {
        for (int64_t event = 0; event < options_.events; ++event) {
            const int64_t kind = random_.below(10);
            if (kind < 3 && harness_.engine->stats().waiting < 40) {
                arrive();
            } else if (kind == 3 && next_id_ > 1) {
                harness_.engine->abort_request(
                    next_id_ - 1 -
                    static_cast<uint64_t>(random_.below(std::min<int64_t>(8, static_cast<int64_t>(next_id_) - 1))));
            } else {
                step();
            }
        }
        for (int64_t steps = 0; harness_.engine->has_unfinished(); ++steps) {
            DI_CHECK(steps < 1000000, "the engine does not come to an end");
            step();
        }
        for (const auto& [id, request] : requests_) {
            check(request);
        }
        SimulationReport report{.complete = complete_, .cached_tokens = cached_, .stats = harness_.engine->stats()};
        EXPECT_TRUE(harness_.is_drained());
        return report;
    }

  private:
    // Prompts that share beginnings, as conversations do.
    std::vector<int32_t> random_prompt() {
        std::vector<int32_t> ids = make_prompt(static_cast<uint64_t>(random_.below(3)), 1 + random_.below(24));
        if (random_.below(3) > 0) {
            const std::vector<int32_t> own = make_prompt(random_.next(), random_.below(12));
            ids.insert(ids.end(), own.begin(), own.end());
        }
        return ids;
    }

    void arrive() {
        TokenRequest request = make_request(next_id_++, random_prompt(), static_cast<int32_t>(random_.below(14)));
        SamplingParams& sampling = request.sampling;
        sampling.temperature = static_cast<double>(random_.below(4)) * 0.5;
        sampling.top_p = random_.below(2) == 0 ? 1.0 : 0.7;
        sampling.repetition_penalty = random_.below(4) == 0 ? 1.3 : 1.0;
        sampling.ignore_eos = random_.below(2) == 0;
        sampling.n = random_.below(5) == 0 ? static_cast<int32_t>(1 + random_.below(4)) : 1;
        sampling.min_tokens = random_.below(4) == 0 ? std::min(sampling.max_tokens, 3) : 0;
        request.priority = static_cast<int32_t>(random_.below(3));
        request.user = std::string(1, static_cast<char>('a' + random_.below(3)));
        request.cache_salt = random_.below(6) == 0 ? "tenant" : "";
        switch (random_.below(40)) {
            case 0: request.prompt_token_ids.back() = 99; break;  // out of range
            case 1: request.fault.nan_logits_at = static_cast<int32_t>(random_.below(4)); break;
            case 2: request.fault.engine_error_at = static_cast<int32_t>(random_.below(4)); break;
            case 3: request.deadline_ms = static_cast<double>(random_.below(60)); break;
            case 4: request.fault.slow_prefill_ms = 30; break;
            default: break;
        }
        requests_.emplace(request.id, request);
        harness_.engine->add_request(std::move(request));
    }

    void step() {
        collect(harness_.engine->step(), answers_);
        harness_.engine->check_invariants();
    }

    void check(const TokenRequest& request) {
        for (int32_t sample = 0; sample < request.sampling.n; ++sample) {
            SCOPED_TRACE(testing::Message() << "request " << request.id << " sample " << sample);
            const auto found = answers_.find(answer_key(request.id, sample));
            ASSERT_NE(found, answers_.end());
            const Answer& answer = found->second;
            ASSERT_EQ(answer.last_record_count, 1);
            if (request.prompt_token_ids.back() == 99) {
                EXPECT_EQ(answer.finish, FinishReason::kError);
                continue;
            }
            check_tokens(request, sample, answer);
        }
    }

    void check_tokens(const TokenRequest& request, int32_t sample, const Answer& answer) {
        if (request.sampling.max_tokens == 0) {
            EXPECT_EQ(answer.finish, FinishReason::kLength);
            return;
        }
        const Answer wanted = expected_answer(request, options_.limits.max_model_len, sample);
        if (answer.finish == FinishReason::kAbort || answer.finish == FinishReason::kError) {
            EXPECT_LE(answer.token_ids.size(), wanted.token_ids.size());
            EXPECT_TRUE(std::equal(answer.token_ids.begin(), answer.token_ids.end(), wanted.token_ids.begin()));
            return;
        }
        EXPECT_TRUE(answer == wanted) << answer.error;
        EXPECT_EQ(answer.usage.completion_tokens, static_cast<int64_t>(wanted.token_ids.size()));
        cached_ += answer.usage.cached_tokens;
        ++complete_;
    }

    SimulationOptions options_;
    SeededRandom random_;
    EngineHarness harness_;
    uint64_t next_id_ = 1;
    std::map<uint64_t, TokenRequest> requests_;
    Answers answers_;
    int64_t complete_ = 0;
    int64_t cached_ = 0;
};

// Everything about a run but its length follows from the seed.
inline SimulationOptions random_simulation(uint64_t seed, int64_t events) {
    SeededRandom random(seed * 7919 + 1);
    SimulationOptions options{.seed = seed, .events = events};
    options.shape.block_tokens = random.below(2) == 0 ? kFakeBlockTokens : 8;
    options.shape.draft_depth = static_cast<int32_t>(random.below(kFakeBacktrack + 1));
    options.shape.draft_right_of_8 = static_cast<int32_t>(random.below(9));
    const int64_t block_bytes = FakeModel(options.shape).geometry().block_bytes;
    constexpr int32_t kRows[] = {1, 3, 5, 8, 16, 200};
    options.limits = {.max_model_len = 56,
                      .max_num_seqs = static_cast<int32_t>(1 + random.below(8)),
                      .max_num_batched_tokens = kRows[random.below(6)],
                      .kv_memory_bytes = (56 / options.shape.block_tokens + random.below(30)) * block_bytes,
                      .snapshot_slots = random.below(4) == 0 ? 0 : static_cast<int32_t>(random.below(40))};
    EngineBehaviour& behaviour = options.behaviour;
    behaviour.deterministic = true;
    behaviour.asynchronous = random.below(3) == 0;
    behaviour.prefix_cache = random.below(4) != 0;
    behaviour.mixed_steps = random.below(4) != 0;
    behaviour.scheduled_verify = random.below(2) == 0;
    behaviour.passed_max = static_cast<int32_t>(random.below(6));
    behaviour.policy = static_cast<SchedulingPolicy>(random.below(4));
    return options;
}

}  // namespace di
