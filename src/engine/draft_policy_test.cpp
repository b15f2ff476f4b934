#include "engine/draft_policy.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "base/random.h"

namespace di {
namespace {

constexpr int32_t kDepth = 5;
constexpr uint64_t kSeed = 71;

// A machine and texts that are known: what the policy has to find out.
struct World {
    int32_t sequences = 1;
    std::function<double(int32_t rows)> model_ms;
    double sampler_ms_per_row = 0.01;
    double draft_ms = 1.0;        // of a round
    double confidence_low = 0.6;  // confidences are drawn from between
    double confidence_high = 1.0;
    double truth = 1.0;  // what really is accepted, relative to confidence
    double noise = 0.05;

    [[nodiscard]] double step_ms(int32_t rows) const { return model_ms(rows) + sampler_ms_per_row * rows; }
    // Tokens a millisecond when always `verified` drafts of each sequence are verified.
    [[nodiscard]] double fixed(int32_t verified) const {
        const double accepted = truth * (confidence_low + confidence_high) / 2.0;
        double tokens = 1.0;
        for (int32_t r = 1; r <= verified; ++r) {
            tokens += std::pow(accepted, r);
        }
        return sequences * tokens / (step_ms(sequences * (1 + verified)) + (verified > 0 ? draft_ms : 0.0));
    }
    [[nodiscard]] double best_fixed() const {
        double best = 0.0;
        for (int32_t verified = 0; verified <= kDepth; ++verified) {
            best = std::max(best, fixed(verified));
        }
        return best;
    }
};

// An engine that decodes for ever.
class Simulation {
  public:
    explicit Simulation(World start, bool scheduled = true, VerifyMode mode = VerifyMode::kExact, uint64_t seed = kSeed)
        : world(std::move(start)),
          policy(kDepth, scheduled, mode),
          random_(seed),
          states_(static_cast<size_t>(world.sequences)) {}

    // Expected tokens a millisecond of these steps.
    double run(int64_t steps) {
        double tokens = 0.0;
        double ms = 0.0;
        for (int64_t i = 0; i < steps; ++i) {
            step(tokens, ms);
        }
        return tokens / ms;
    }

    World world;
    DraftPolicy policy;
    int64_t drafted_steps = 0;
    int64_t drafted_rounds = 0;  // of single sequences
    int64_t verified_drafts = 0;

  private:
    struct Sequence {
        std::vector<float> confidences, rates, previous;
    };

    double real() { return static_cast<double>(random_.next() >> 11) * 0x1p-53; }
    double noisy(double ms) { return ms * (1.0 + world.noise * (2.0 * real() - 1.0)) * (random_.below(100) == 0 ? 3.0 : 1.0); }

    void step(double& tokens, double& ms) {
        std::vector<DraftState> drafts;
        for (const Sequence& state : states_) {
            drafts.push_back({.draft_count = static_cast<int32_t>(state.rates.size()),
                              .context_tokens = 100,
                              .rates = state.rates,
                              .previous_rates = state.previous});
        }
        std::vector<int32_t> verified;
        policy.choose(drafts, {.rows_max = 100000, .context_sum = 100 * world.sequences}, verified);
        std::vector<VerifyOutcome> outcomes;
        for (size_t i = 0; i < states_.size(); ++i) {
            outcomes.push_back(
                {.verified = verified[i], .accepted = accept(states_[i], verified[i]), .rates = states_[i].rates});
            tokens += expected(states_[i], verified[i]);
        }
        const int32_t rows = std::accumulate(verified.begin(), verified.end(), world.sequences);
        verified_drafts += rows - world.sequences;
        const DraftPolicy::Round round = policy.next_round(world.sequences, false);
        drafted_steps += round.depth > 0 ? 1 : 0;
        drafted_rounds += round.sequences_max;
        const double draft_ms = world.draft_ms * round.sequences_max / world.sequences;
        const double sampler_ms = world.sampler_ms_per_row * rows;
        ms += world.step_ms(rows) + draft_ms;
        policy.record({.times = {.rows = rows,
                                 .context_sum = 100 * rows,
                                 .model_ms = noisy(world.model_ms(rows)),
                                 .sampled_rows = rows,
                                 .sampler_ms = noisy(sampler_ms),
                                 .draft_rows = round.depth * round.sequences_max,
                                 .draft_ms = noisy(draft_ms)},
                       .outcomes = outcomes});
        for (size_t i = 0; i < states_.size(); ++i) {
            draft(states_[i], static_cast<int32_t>(i) < round.sequences_max ? round.depth : 0);
        }
    }

    int32_t accept(const Sequence& state, int32_t verified) {
        int32_t accepted = 0;
        while (accepted < verified &&
               real() < world.truth * static_cast<double>(state.confidences[static_cast<size_t>(accepted)])) {
            ++accepted;
        }
        return accepted;
    }

    // Of this step, over all draws: less noise than what is accepted.
    [[nodiscard]] double expected(const Sequence& state, int32_t verified) const {
        double tokens = 1.0;
        for (int32_t r = 0; r < verified; ++r) {
            tokens += static_cast<double>(state.rates[static_cast<size_t>(r)]) * std::pow(world.truth, r + 1);
        }
        return tokens;
    }

    void draft(Sequence& state, int32_t depth) {
        state.previous = state.rates;
        state.confidences.clear();
        state.rates.clear();
        float rate = 1.0F;
        for (int32_t i = 0; i < depth; ++i) {
            const double width = world.confidence_high - world.confidence_low;
            state.confidences.push_back(static_cast<float>(world.confidence_low + width * real()));
            rate *= state.confidences.back();
            state.rates.push_back(rate);
        }
    }

    SeededRandom random_;
    std::vector<Sequence> states_;
};

World memory_bound(int32_t sequences) {
    return {.sequences = sequences, .model_ms = [](int32_t rows) { return 10.0 + 0.05 * rows; }};
}
World compute_bound(int32_t sequences) {
    return {.sequences = sequences, .model_ms = [](int32_t rows) { return 2.0 + 0.5 * rows; }};
}
World staircase(int32_t sequences) {
    return {.sequences = sequences, .model_ms = [](int32_t rows) { return 6.0 + 4.0 * ((rows + 7) / 8); }};
}
World rare_accepts(World world) {
    world.confidence_low = 0.0;
    world.confidence_high = 0.4;
    return world;
}

struct Case {
    const char* name;
    World world;
};

std::vector<Case> cases() {
    std::vector<Case> all;
    for (const int32_t n : {1, 8, 32}) {
        all.push_back({"memory bound", memory_bound(n)});
        all.push_back({"compute bound", compute_bound(n)});
        all.push_back({"staircase", staircase(n)});
        all.push_back({"memory bound, rare accepts", rare_accepts(memory_bound(n))});
        all.push_back({"compute bound, rare accepts", rare_accepts(compute_bound(n))});
        all.push_back({"staircase, rare accepts", rare_accepts(staircase(n))});
    }
    return all;
}

TEST(DraftPolicy, ReachesTheBestFixedChoiceAfter200Steps) {
    for (const VerifyMode mode : {VerifyMode::kExact, VerifyMode::kRejection}) {
        for (const Case& c : cases()) {
            Simulation simulation(c.world, true, mode);
            simulation.run(200);
            const double got = simulation.run(5000);
            // A gain of a hundredth is worth no more than looking for it.
            EXPECT_GE(got, 0.985 * c.world.best_fixed())
                << c.name << ", " << c.world.sequences << " sequences, seed " << kSeed << ", without drafts "
                << c.world.fixed(0) << ", all " << c.world.fixed(kDepth);
        }
    }
}

TEST(DraftPolicy, IsNeverMuchWorseThanNoDraftsFromTheFirstStepOn) {
    for (const Case& c : cases()) {
        Simulation simulation(c.world);
        const double got = simulation.run(4000);
        EXPECT_GE(got, 0.98 * c.world.fixed(0)) << c.name << ", " << c.world.sequences << " sequences, seed " << kSeed;
    }
}

// Nearly worth it for one sequence, on a machine whose steps vary by half.
TEST(DraftPolicy, NoiseDoesNotKeepOpenWhatLoses) {
    for (const int32_t sequences : {1, 8}) {
        World world = {.sequences = sequences, .model_ms = [](int32_t rows) { return 0.7 + 0.6 * rows; }};
        world.draft_ms = 0.5 + 0.25 * sequences;
        world.confidence_low = 0.4;
        world.noise = 0.5;
        double sum = 0.0;
        constexpr int kRuns = 8;
        for (uint64_t run = 0; run < kRuns; ++run) {
            Simulation simulation(world, true, VerifyMode::kExact, kSeed + run);
            simulation.run(400);
            sum += simulation.run(3000) / kRuns;
        }
        EXPECT_GE(sum, 0.98 * world.fixed(0)) << sequences << " sequences, seed " << kSeed;
    }
}

// A row of a draft costs what every row costs, and drafting a third of that: nothing to gain, and little time to find out.
World linear(int32_t sequences) {
    World world = {.sequences = sequences, .model_ms = [](int32_t rows) { return 0.6 * rows; }};
    world.draft_ms = 1.0 * sequences;
    return world;
}

TEST(DraftPolicy, LosesLittleInAShortRunWhereDraftsNeverPay) {
    for (const int32_t sequences : {1, 3, 8, 32, 100}) {
        Simulation simulation(linear(sequences));
        const double got = simulation.run(400);
        EXPECT_GE(got, 0.98 * simulation.world.fixed(0)) << sequences << " sequences, seed " << kSeed;
        EXPECT_GE(simulation.run(3000), 0.99 * simulation.world.fixed(0)) << sequences << " sequences, seed " << kSeed;
    }
}

TEST(DraftPolicy, TriesDraftsForFewSequencesFirstAndNotBesidePrompts) {
    DraftPolicy policy(kDepth, true, VerifyMode::kExact);
    std::vector<int32_t> verified;
    const std::vector<DraftState> states(16);
    const auto step = [&](bool has_prompts) {
        policy.choose(states, {.rows_max = 100, .base_rows = has_prompts ? 10 : 0}, verified);
        const DraftPolicy::Round round = policy.next_round(16, has_prompts);
        policy.record({.times = {.rows = has_prompts ? 26 : 16, .model_ms = 10.0, .sampled_rows = 16}});
        return round;
    };
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(step(false).depth, 0);  // what a step takes without drafts comes first
    }
    EXPECT_EQ(step(true).depth, 0);
    const DraftPolicy::Round round = step(false);
    EXPECT_EQ(round.depth, kDepth);
    EXPECT_EQ(round.sequences_max, 2);
}

TEST(DraftPolicy, ConfidenceChoosesBetterThanAnyFixedLength) {
    World world = {.sequences = 8, .model_ms = [](int32_t rows) { return 4.0 + 0.2 * rows; }};
    world.confidence_low = 0.0;
    world.draft_ms = 0.2;
    Simulation simulation(world);
    simulation.run(200);
    EXPECT_GE(simulation.run(3000), 1.05 * world.best_fixed()) << "seed " << kSeed;
}

TEST(DraftPolicy, DoesNotBelieveConfidencesThatLie) {
    for (World world : {memory_bound(8), compute_bound(8), staircase(32)}) {
        world.confidence_low = 0.9;
        world.truth = 0.2;
        Simulation simulation(world);
        simulation.run(200);
        EXPECT_GE(simulation.run(6000), 0.98 * world.best_fixed()) << "seed " << kSeed;
        // And finds out when they do not lie any more.
        simulation.world.truth = 1.0;
        simulation.run(16384);
        EXPECT_GE(simulation.run(3000), 0.98 * simulation.world.best_fixed()) << "seed " << kSeed;
    }
}

TEST(DraftPolicy, StopsDraftingWhenDraftsLoseAndComesBackWhenTheyPay) {
    World world = rare_accepts(compute_bound(32));
    Simulation simulation(world);
    simulation.run(400);
    simulation.drafted_steps = simulation.drafted_rounds = 0;
    simulation.run(4000);
    EXPECT_LE(simulation.drafted_rounds, 32 * 4000 / 25) << "seed " << kSeed;
    EXPECT_GE(simulation.drafted_steps, 4) << "seed " << kSeed;  // it still asks now and then
    // The texts become easy, and the machine idle.
    simulation.world = memory_bound(32);
    simulation.run(8192);
    simulation.drafted_steps = 0;
    const double got = simulation.run(1000);
    EXPECT_GE(simulation.drafted_steps, 960) << "seed " << kSeed;  // some are to compare with
    EXPECT_GE(got, 0.99 * simulation.world.best_fixed()) << "seed " << kSeed;
}

TEST(DraftPolicy, ComesBackWhenAcceptanceRisesOnTheSameMachine) {
    World world = rare_accepts(memory_bound(1));
    world.draft_ms = 4.0;
    Simulation simulation(world);
    simulation.run(1000);
    EXPECT_LT(world.fixed(kDepth), world.fixed(0));
    simulation.drafted_steps = 0;
    simulation.run(500);
    EXPECT_LE(simulation.drafted_steps, 10) << "seed " << kSeed;
    simulation.world.confidence_low = 0.8;
    simulation.world.confidence_high = 1.0;
    simulation.run(4096);
    simulation.drafted_steps = 0;
    const double got = simulation.run(1000);
    EXPECT_GE(simulation.drafted_steps, 960) << "seed " << kSeed;  // some are to compare with
    EXPECT_GE(got, 0.99 * simulation.world.best_fixed()) << "seed " << kSeed;
}

TEST(DraftPolicy, VerifiesAllDraftsUntilItKnowsMore) {
    DraftPolicy policy(kDepth, true, VerifyMode::kExact);
    const std::vector<float> rates = {0.1F, 0.01F, 0.001F};
    std::vector<int32_t> verified;
    policy.choose(std::vector<DraftState>{{.draft_count = 3, .rates = rates}, {.draft_count = 2}}, {.rows_max = 100}, verified);
    EXPECT_EQ(verified, (std::vector<int32_t>{3, 2}));
}

TEST(DraftPolicy, TakesUnknownRatesForTypicalOnes) {
    DraftPolicy policy(kDepth, true, VerifyMode::kExact);
    for (int i = 0; i < 1800; ++i) {
        const int32_t rows = 1 + i % 300;
        policy.record({.times = {.rows = rows, .model_ms = 2.0 + 0.5 * rows, .sampled_rows = rows}});
    }
    const std::vector<float> rates = {0.9F, 0.1F, 0.05F};
    std::vector<int32_t> verified;
    policy.choose(std::vector<DraftState>{{.draft_count = 3, .rates = rates}}, {.rows_max = 100}, verified);
    EXPECT_EQ(verified, (std::vector<int32_t>{1}));
    policy.choose(std::vector<DraftState>{{.draft_count = 3}}, {.rows_max = 100}, verified);
    EXPECT_EQ(verified, (std::vector<int32_t>{1}));
    const std::vector<float> broken(3, std::numeric_limits<float>::quiet_NaN());
    policy.choose(std::vector<DraftState>{{.draft_count = 3, .rates = broken}}, {.rows_max = 100}, verified);
    EXPECT_EQ(verified, (std::vector<int32_t>{0}));
}

TEST(DraftPolicy, KeepsToTheRoomAndToWhatIsThere) {
    for (const bool scheduled : {false, true}) {
        DraftPolicy policy(kDepth, scheduled, VerifyMode::kRejection);
        const std::vector<float> good = {0.9F, 0.8F, 0.7F};
        const std::vector<float> bad = {0.3F, 0.2F, 0.1F};
        const std::vector<DraftState> states = {{.draft_count = 3, .rates = bad, .previous_rates = bad},
                                                {},
                                                {.draft_count = 3, .rates = good, .previous_rates = {good.data(), 1}}};
        std::vector<int32_t> verified;
        policy.choose(states, {.rows_max = 7}, verified);
        EXPECT_EQ(verified, (std::vector<int32_t>{1, 0, 3}));
        policy.choose(states, {.rows_max = 3}, verified);
        EXPECT_EQ(verified, (std::vector<int32_t>{0, 0, 0}));
        policy.choose({}, {.rows_max = 0}, verified);
        EXPECT_TRUE(verified.empty());
    }
}

TEST(DraftPolicy, FixedVerifiesAllAndAlwaysDrafts) {
    World world = rare_accepts(compute_bound(32));
    Simulation simulation(world, false);
    simulation.run(300);
    EXPECT_EQ(simulation.drafted_steps, 300);
    EXPECT_EQ(simulation.verified_drafts, 299 * 32 * kDepth);
}

TEST(DraftPolicy, DraftsNothingWithoutDepthOrSequences) {
    DraftPolicy none(0, true, VerifyMode::kExact);
    EXPECT_EQ(none.next_round(4, false).depth, 0);
    DraftPolicy some(kDepth, false, VerifyMode::kExact);
    EXPECT_EQ(some.next_round(0, false).depth, 0);
    EXPECT_EQ(some.next_round(4, true).depth, kDepth);
    EXPECT_EQ(some.next_round(4, true).sequences_max, 4);
}

// Feeds a policy with steps of every number of rows on a machine.
void teach(DraftPolicy& policy, const World& world) {
    for (int i = 0; i < 1800; ++i) {
        const int32_t rows = 1 + i % 300;
        policy.record({.times = {.rows = rows,
                                 .model_ms = world.model_ms(rows),
                                 .sampled_rows = rows,
                                 .sampler_ms = 0.0,
                                 .draft_rows = rows,
                                 .draft_ms = 0.0}});
    }
}

TEST(DraftPolicy, APromptInTheStepDoesNotMakeDraftsCheap) {
    DraftPolicy policy(kDepth, true, VerifyMode::kExact);
    teach(policy, compute_bound(4));
    const std::vector<float> rates = {0.3F, 0.1F, 0.05F};  // not worth half a millisecond each beside four rows
    const std::vector<DraftState> states(4, DraftState{.draft_count = 3, .rates = rates});
    std::vector<int32_t> verified;
    policy.choose(states, {.rows_max = 100}, verified);
    const std::vector<int32_t> alone = verified;
    policy.choose(states, {.rows_max = 100, .base_rows = 200}, verified);
    EXPECT_EQ(verified, alone);
    EXPECT_EQ(verified, (std::vector<int32_t>{0, 0, 0, 0}));
}

TEST(DraftPolicy, ExpectedTimeIsThatOfTheSteps) {
    DraftPolicy policy(kDepth, true, VerifyMode::kExact);
    EXPECT_EQ(policy.expected_ms({.rows = 10}), 0.0);
    const World world = memory_bound(1);
    teach(policy, world);
    EXPECT_NEAR(policy.expected_ms({.rows = 100, .sampled_rows = 10}), world.model_ms(100), 0.02 * world.model_ms(100));
}

// Steps whose time is that of reading the experts they touch. Two kinds of text: rows that choose alike, and rows that
// choose each by itself.
int32_t verified_of_texts(bool alike) {
    constexpr int32_t kLayers = 4;
    constexpr int32_t kExperts = 64;
    constexpr int32_t kChosen = 4;
    SeededRandom random(kSeed);
    DraftPolicy policy(kDepth, true, VerifyMode::kExact);
    const std::vector<float> rates = {0.5F, 0.35F, 0.2F, 0.1F, 0.05F};
    std::vector<int32_t> verified;
    int32_t sum = 0;
    for (int i = 0; i < 2000; ++i) {
        policy.choose(std::vector<DraftState>{{.draft_count = kDepth, .rates = rates}}, {.rows_max = 100}, verified);
        const int32_t rows = 1 + verified[0];
        std::vector<int32_t> counts(kLayers * kExperts, 0);
        for (int32_t layer = 0; layer < kLayers; ++layer) {
            auto first = static_cast<int32_t>(random.below(kExperts));
            for (int32_t row = 0; row < rows; ++row) {
                for (int32_t k = 0; k < kChosen; ++k) {
                    ++counts[static_cast<size_t>(layer * kExperts + (first + 11 * k) % kExperts)];
                }
                first = alike ? first : static_cast<int32_t>(random.below(kExperts));
            }
        }
        const auto touched = std::count_if(counts.begin(), counts.end(), [](int32_t n) { return n > 0; });
        const std::vector<int32_t> rows_of_layer(kLayers, rows);
        policy.record(
            {.times = {.rows = rows,
                       .model_ms = 1.0 + 0.2 * static_cast<double>(touched),
                       .sampled_rows = rows,
                       .draft_rows = kDepth,
                       .draft_ms = 0.1},
             .routing = {
                 .layer_count = kLayers, .expert_count = kExperts, .rows_of_layer = rows_of_layer, .rows_of_expert = counts}});
        sum += i >= 1900 ? verified[0] : 0;
    }
    return sum;
}

TEST(DraftPolicy, DraftsThatTouchNewExpertsCostMore) {
    EXPECT_EQ(verified_of_texts(true), 100 * kDepth) << "seed " << kSeed;
    EXPECT_EQ(verified_of_texts(false), 0) << "seed " << kSeed;
}

TEST(DraftPolicy, LearnsExpertCostAndUsesItForTextsThatChange) {
    // Covered by StepCost and ExpertOverlap one by one; here: more overlap at the same rows means a cheaper step.
    constexpr int32_t kLayers = 2;
    constexpr int32_t kExperts = 32;
    SeededRandom random(kSeed);
    DraftPolicy policy(kDepth, true, VerifyMode::kExact);
    double wide_ms = 0.0;
    for (int i = 0; i < 3000; ++i) {
        const bool narrow = i >= 2000 || i % 2 == 0;
        std::vector<int32_t> counts(kLayers * kExperts, 0);
        for (int32_t choice = 0; choice < kLayers * 8; ++choice) {
            const int64_t expert = random.below(narrow ? 6 : kExperts);
            ++counts[static_cast<size_t>((choice % kLayers) * kExperts + expert)];
        }
        const auto touched = std::count_if(counts.begin(), counts.end(), [](int32_t n) { return n > 0; });
        const std::vector<int32_t> rows_of_layer(kLayers, 8);
        policy.record(
            {.times = {.rows = 8, .model_ms = 2.0 + static_cast<double>(touched)},
             .routing = {
                 .layer_count = kLayers, .expert_count = kExperts, .rows_of_layer = rows_of_layer, .rows_of_expert = counts}});
        if (i == 1999) {
            wide_ms = policy.expected_ms({.rows = 8});
        }
    }
    EXPECT_NEAR(policy.cost().expert_ms(), 1.0, 0.05) << "seed " << kSeed;
    EXPECT_LT(policy.expected_ms({.rows = 8}), 0.85 * wide_ms) << "seed " << kSeed;
}

}  // namespace
}  // namespace di
