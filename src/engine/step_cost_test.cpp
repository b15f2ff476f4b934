#include "engine/step_cost.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace di {
namespace {

// A machine whose cost is known, with noise of +-5 % and now and then an interruption.
struct Machine {
    double fixed_ms = 8.0;
    double row_ms = 0.1;
    double context_ms = 0.0;  // a token that a row sees
    double expert_ms = 0.0;
    SeededRandom random{51};

    [[nodiscard]] double cost(int32_t rows, int64_t context, double experts) const {
        return fixed_ms + row_ms * rows + context_ms * static_cast<double>(context) + expert_ms * experts;
    }
    [[nodiscard]] double measure(int32_t rows, int64_t context, double experts) {
        const double noise = 0.95 + 0.1 * static_cast<double>(random.next() >> 11) * 0x1p-53;
        return cost(rows, context, experts) * noise * (random.below(50) == 0 ? 4.0 : 1.0);
    }
};

constexpr const char* kSeed = "seed 51";

TEST(StepCost, EverythingIsFreeBeforeTheFirstSample) {
    const StepCost cost;
    EXPECT_EQ(cost.model_ms(5, 1000, 100.0), 0.0);
    EXPECT_EQ(cost.sampler_ms(5), 0.0);
    EXPECT_EQ(cost.draft_ms(5), 0.0);
    EXPECT_EQ(cost.recent_steps(5, 100), 0);
}

TEST(StepCost, OneNumberOfRowsSaysNothingOfOthers) {
    StepCost cost;
    cost.record({.rows = 6, .model_ms = 10.0, .sampled_rows = 6, .sampler_ms = 1.0, .draft_rows = 5, .draft_ms = 2.0});
    EXPECT_EQ(cost.model_ms(1, 0, 0.0), 10.0);
    EXPECT_EQ(cost.model_ms(30, 0, 0.0), 10.0);
    EXPECT_EQ(cost.sampler_ms(0), 0.0);
    EXPECT_EQ(cost.draft_ms(0), 0.0);
    EXPECT_EQ(cost.draft_ms(5), 2.0);
}

TEST(StepCost, PartsThatDidNotRunAreNotSamples) {
    StepCost cost;
    cost.record({.rows = 100, .model_ms = 50.0});  // a prompt chunk: nothing drawn, nothing drafted
    EXPECT_EQ(cost.sampler_ms(3), 0.0);
    cost.record({.rows = 1, .model_ms = 10.0, .sampled_rows = 1, .sampler_ms = 3.0});
    EXPECT_EQ(cost.sampler_ms(3), 3.0);
    EXPECT_EQ(cost.draft_ms(3), 0.0);
}

TEST(StepCost, LearnsRowsUnderNoise) {
    Machine machine;
    StepCost cost;
    for (int i = 0; i < 3000; ++i) {
        const auto rows = static_cast<int32_t>(1 + machine.random.below(48));
        cost.record({.rows = rows, .model_ms = machine.measure(rows, 0, 0.0)});
    }
    for (int32_t rows = 1; rows <= 48; ++rows) {
        EXPECT_NEAR(cost.model_ms(rows, 0, 0.0), machine.cost(rows, 0, 0.0), 0.05 * machine.cost(rows, 0, 0.0)) << kSeed;
    }
    EXPECT_EQ(cost.context_slope(), 0.0);
    EXPECT_EQ(cost.expert_ms(), 0.0);
}

TEST(StepCost, LearnsWhatContextCosts) {
    Machine machine{.context_ms = 2e-3};
    StepCost cost;
    for (int i = 0; i < 4000; ++i) {
        const auto rows = static_cast<int32_t>(1 + machine.random.below(8));
        const int64_t context = rows * (100 + machine.random.below(2000));
        cost.record({.rows = rows, .context_sum = context, .model_ms = machine.measure(rows, context, 0.0)});
    }
    EXPECT_NEAR(cost.context_slope(), machine.context_ms, 0.15 * machine.context_ms) << kSeed;
    for (const int64_t context : {0, 1000, 4000, 16000}) {
        const double want = machine.cost(4, context, 0.0);
        EXPECT_NEAR(cost.model_ms(4, context, 0.0), want, 0.15 * want) << kSeed << " context " << context;
    }
}

TEST(StepCost, LearnsWhatAnExpertCosts) {
    Machine machine{.row_ms = 0.0, .expert_ms = 0.2};
    StepCost cost;
    for (int i = 0; i < 5000; ++i) {
        const auto rows = static_cast<int32_t>(1 + machine.random.below(8));
        // Texts that choose alike and texts that do not.
        const double experts = 20.0 + 6.0 * rows * (0.5 + static_cast<double>(machine.random.below(100)) * 0.01);
        cost.record({.rows = rows, .experts = experts, .model_ms = machine.measure(rows, 0, experts)});
    }
    EXPECT_NEAR(cost.expert_ms(), machine.expert_ms, 0.15 * machine.expert_ms) << kSeed;
    // Twice the rows, but the same experts: little more time. The curve alone could not tell.
    EXPECT_NEAR(cost.model_ms(8, 0, 40.0), machine.cost(8, 0, 40.0), 0.1 * machine.cost(8, 0, 40.0)) << kSeed;
    EXPECT_NEAR(cost.model_ms(8, 0, 80.0), machine.cost(8, 0, 80.0), 0.1 * machine.cost(8, 0, 80.0)) << kSeed;
}

TEST(StepCost, FollowsAMachineThatChanges) {
    Machine machine;
    StepCost cost;
    for (int i = 0; i < 6000; ++i) {
        cost.record({.rows = 4, .model_ms = machine.measure(4, 0, 0.0)});
    }
    machine.fixed_ms *= 3.0;
    for (int i = 0; i < 20; ++i) {
        cost.record({.rows = 4, .model_ms = machine.measure(4, 0, 0.0)});
    }
    EXPECT_NEAR(cost.model_ms(4, 0, 0.0), machine.cost(4, 0, 0.0), 0.1 * machine.cost(4, 0, 0.0)) << kSeed;
}

TEST(StepCost, MoreRowsNeverCostLess) {
    Machine machine{.context_ms = 1e-3, .expert_ms = 0.05};
    StepCost cost;
    for (int i = 0; i < 3000; ++i) {
        const auto rows = static_cast<int32_t>(1 + machine.random.below(200));
        const auto experts = static_cast<double>(machine.random.below(100));
        cost.record({.rows = rows,
                     .context_sum = rows * 500,
                     .experts = experts,
                     .model_ms = machine.measure(rows, rows * 500, experts)});
        double before = 0.0;
        for (int32_t n = 1; i % 300 == 0 && n <= 400; n += 3) {
            const double now = cost.model_ms(n, 1000, 50.0);
            ASSERT_GE(now, before - 1e-9) << kSeed << " step " << i << " rows " << n;
            before = now;
        }
    }
}

}  // namespace
}  // namespace di
