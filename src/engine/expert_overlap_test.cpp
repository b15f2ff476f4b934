#include "engine/expert_overlap.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/random.h"

namespace di {
namespace {

// Routing of a made-up model: every row chooses `chosen` different experts of each layer, low numbers more often.
class Router {
  public:
    Router(int32_t layers, int32_t experts, int32_t chosen, double skew, uint64_t seed)
        : layers_(layers), experts_(experts), chosen_(chosen), skew_(skew), random_(seed) {}

    // `alike`: all rows of a step choose as the first one does.
    Model::RoutingCounts step(int32_t rows, bool alike = false) {
        rows_of_layer_.assign(static_cast<size_t>(layers_), rows);
        rows_of_expert_.assign(static_cast<size_t>(layers_ * experts_), 0);
        for (int32_t layer = 0; layer < layers_; ++layer) {
            std::vector<bool> choice;
            for (int32_t row = 0; row < rows; ++row) {
                choice = alike && row > 0 ? choice : choose();
                for (int32_t expert = 0; expert < experts_; ++expert) {
                    rows_of_expert_[static_cast<size_t>(layer * experts_ + expert)] += choice[static_cast<size_t>(expert)];
                }
            }
        }
        return {.layer_count = layers_,
                .expert_count = experts_,
                .rows_of_layer = rows_of_layer_,
                .rows_of_expert = rows_of_expert_};
    }

  private:
    std::vector<bool> choose() {
        std::vector<bool> choice(static_cast<size_t>(experts_), false);
        for (int32_t left = chosen_; left > 0;) {
            const double u = static_cast<double>(random_.next() >> 11) * 0x1p-53;
            const auto expert = static_cast<size_t>(std::pow(u, skew_) * experts_);
            left -= choice[expert] ? 0 : 1;
            choice[expert] = true;
        }
        return choice;
    }

    int32_t layers_, experts_, chosen_;
    double skew_;
    SeededRandom random_;
    std::vector<int32_t> rows_of_layer_, rows_of_expert_;
};

constexpr uint64_t kSeed = 61;

// Mean number of experts that steps of `rows` rows touch.
double measured(Router& router, int32_t rows, bool alike = false) {
    double sum = 0.0;
    constexpr int kSteps = 200;
    for (int i = 0; i < kSteps; ++i) {
        for (const int32_t count : router.step(rows, alike).rows_of_expert) {
            sum += count > 0 ? 1.0 : 0.0;
        }
    }
    return sum / kSteps;
}

TEST(ExpertOverlap, KnowsNothingAtFirstAndOfModelsWithoutExperts) {
    ExpertOverlap overlap;
    EXPECT_EQ(overlap.expected(5), 0.0);
    overlap.record({});
    EXPECT_EQ(overlap.expected(5), 0.0);
    EXPECT_EQ(overlap.touched(), 0.0);
}

TEST(ExpertOverlap, AgreesWithTheFormulaForEqualShares) {
    // Every expert is chosen by a quarter of the rows. Layers of different rows say nothing of how rows choose together.
    const std::vector<int32_t> rows_of_layer = {8, 8, 4};
    std::vector<int32_t> rows_of_expert(3 * 16, 2);
    std::fill(rows_of_expert.begin() + 32, rows_of_expert.end(), 1);
    ExpertOverlap overlap;
    overlap.record({.layer_count = 3, .expert_count = 16, .rows_of_layer = rows_of_layer, .rows_of_expert = rows_of_expert});
    EXPECT_EQ(overlap.touched(), 48.0);
    for (const int32_t rows : {1, 2, 5, 100, 512}) {
        EXPECT_NEAR(overlap.expected(rows), 48.0 * (1.0 - std::pow(0.75, rows)), 1e-6) << rows;
    }
}

TEST(ExpertOverlap, PredictsStepsOfAnySizeFromOneSize) {
    for (const double skew : {1.0, 2.0, 4.0}) {
        Router router(4, 64, 4, skew, kSeed);
        ExpertOverlap overlap;
        for (int i = 0; i < 600; ++i) {
            overlap.record(router.step(8));
        }
        for (const int32_t rows : {1, 2, 6, 12, 24, 100}) {
            const double want = measured(router, rows);
            // Shares are of some thousand rows; rare experts among them are guessed.
            EXPECT_NEAR(overlap.expected(rows), want, 0.05 * want) << "seed " << kSeed << " skew " << skew << " rows " << rows;
        }
    }
}

TEST(ExpertOverlap, RowsThatChooseAlikeTouchFewer) {
    Router router(4, 64, 4, 1.0, kSeed);
    ExpertOverlap overlap;
    for (int i = 0; i < 600; ++i) {
        overlap.record(router.step(i % 2 == 0 ? 1 : 6, true));
    }
    EXPECT_NEAR(overlap.expected(1), 16.0, 0.5) << "seed " << kSeed;
    EXPECT_NEAR(overlap.expected(6), 16.0, 1.0) << "seed " << kSeed;
}

TEST(ExpertOverlap, FollowsTextsThatChange) {
    Router narrow(4, 64, 4, 8.0, kSeed);
    Router wide(4, 64, 4, 1.0, kSeed);
    ExpertOverlap overlap;
    for (int i = 0; i < 2000; ++i) {
        overlap.record(narrow.step(8));
    }
    const double before = overlap.expected(8);
    EXPECT_NEAR(before, measured(narrow, 8), 0.05 * before) << "seed " << kSeed;
    for (int i = 0; i < 128 * 6; ++i) {
        overlap.record(wide.step(8));
    }
    const double want = measured(wide, 8);
    EXPECT_NEAR(overlap.expected(8), want, 0.05 * want) << "seed " << kSeed;
    EXPECT_GT(want, 1.2 * before);
}

TEST(ExpertOverlap, NeverFallsAndNeverExceedsAllExperts) {
    SeededRandom random(kSeed);
    Router router(3, 32, 2, 3.0, kSeed);
    ExpertOverlap overlap;
    for (int i = 0; i < 500; ++i) {
        overlap.record(router.step(static_cast<int32_t>(1 + random.below(40)), random.below(2) == 0));
        double before = 0.0;
        for (int32_t rows = 0; i % 25 == 0 && rows < 2000; rows += 1 + rows / 8) {
            const double now = overlap.expected(rows);
            ASSERT_GE(now, before) << "seed " << kSeed << " step " << i << " rows " << rows;
            ASSERT_LE(now, 3.0 * 32.0) << "seed " << kSeed << " step " << i << " rows " << rows;
            before = now;
        }
    }
}

TEST(ExpertOverlap, LayersThatDroppedRowsKeepTheirShares) {
    // The second layer runs one row of eight; every expert of it is chosen by half of its rows.
    const std::vector<int32_t> rows_of_layer = {8, 2};
    const std::vector<int32_t> rows_of_expert = {4, 4, 1, 1};
    ExpertOverlap overlap;
    overlap.record({.layer_count = 2, .expert_count = 2, .rows_of_layer = rows_of_layer, .rows_of_expert = rows_of_expert});
    EXPECT_NEAR(overlap.expected(3), 4.0 * (1.0 - 0.125), 1e-9);
}

}  // namespace
}  // namespace di
