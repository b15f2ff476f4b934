#include "engine/verify_length.h"

#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "base/random.h"

namespace di {
namespace {

using Rates = std::vector<float>;
using Rows = std::vector<int32_t>;

constexpr double kNever = std::numeric_limits<double>::infinity();

struct CurvePoint {
    int32_t rows = 0;
    double ms = 0.0;
};

// The specification's cost: rows are filled up to the next measured size.
StepMilliseconds staircase(std::vector<CurvePoint> curve, double slope, double sampler_ms) {
    return [curve = std::move(curve), slope, sampler_ms](int32_t rows) {
        for (const CurvePoint& point : curve) {
            if (point.rows >= rows) {
                return point.ms + slope * point.rows + sampler_ms;
            }
        }
        return kNever;
    };
}

// Sequences of vector V1; the third is new and has no drafts.
struct Vector1 {
    Rates accept0{.9F, .72F, .5F}, accept1{.4F, .1F, .05F};
    Rates previous0, previous1;

    [[nodiscard]] std::array<VerifyRates, 3> sequences(VerifyMode mode, bool newest_known) const {
        return {choose_rates(mode, newest_known, 3, accept0, previous0),
                choose_rates(mode, newest_known, 3, accept1, previous1), VerifyRates{}};
    }
};

const std::vector<CurvePoint> kCurve1 = {{4, 10.0}, {8, 11.0}, {16, 18.0}};

void expect_choice(const Vector1& vector, bool newest_known, double slope, double tokens, double tokens_per_ms) {
    Rows rows;
    const auto sequences = vector.sequences(VerifyMode::kRejection, newest_known);
    const VerifyTotal total = choose_verify_rows(sequences, staircase(kCurve1, slope, 1.0), 100, rows);
    EXPECT_EQ(total.rows, 8);
    EXPECT_NEAR(total.expected_tokens, tokens, 1e-5);
    EXPECT_NEAR(total.tokens_per_ms, tokens_per_ms, 5e-5);
    EXPECT_EQ(rows, (Rows{4, 3, 1}));
}

TEST(VerifyLength, VectorV1a) {
    const Vector1 vector{.previous0 = {.8F, .6F, .3F}, .previous1 = {.95F, .9F, .85F}};
    expect_choice(vector, true, 0.0, 7.1, 0.5917);
    const auto sequences = vector.sequences(VerifyMode::kRejection, true);
    const std::array<double, 7> want = {.2727, .3591, .4042, .4750, .5417, .5917, .3895};
    for (int32_t rows = 3; rows <= 9; ++rows) {
        // Only this total is possible: smaller ones cost a lot.
        const StepMilliseconds full = staircase(kCurve1, 0.0, 1.0);
        const auto cost = [&](int32_t n) { return n < rows ? 1e6 : full(n); };
        const VerifyTotal total = choose_verify_total(sequences, cost, rows);
        EXPECT_EQ(total.rows, rows);
        EXPECT_NEAR(total.tokens_per_ms, want.at(static_cast<size_t>(rows - 3)), 5e-5) << rows;
    }
}

TEST(VerifyLength, VectorV1b) {
    const Vector1 vector{.previous0 = {.1F, .1F, .1F}, .previous1 = {.1F, .1F, .1F}};
    expect_choice(vector, false, 0.0, 5.62, 0.4683);
}

TEST(VerifyLength, VectorV1c) {
    const Vector1 vector{.previous0 = {.1F, .1F, .1F}, .previous1 = {.1F, .1F, .1F}};
    expect_choice(vector, false, 0.2, 5.62, 0.4132);
}

TEST(VerifyLength, ExactModeUsesTheNewestRatesForBoth) {
    const Rates newest = {.9F};
    const Rates previous = {.1F};
    for (const bool known : {false, true}) {
        const VerifyRates exact = choose_rates(VerifyMode::kExact, known, 1, newest, previous);
        EXPECT_EQ(exact.budget.data(), newest.data());
        EXPECT_EQ(exact.split.data(), newest.data());
    }
    const VerifyRates rejection = choose_rates(VerifyMode::kRejection, true, 1, newest, previous);
    EXPECT_EQ(rejection.budget.data(), previous.data());
    EXPECT_EQ(rejection.split.data(), newest.data());
}

TEST(VerifyLength, RejectionTotalDoesNotSeeTheNewestRates) {
    const Rates previous = {.5F, .4F, .3F};
    const StepMilliseconds cost = [](int32_t rows) { return 5.0 + rows; };
    int32_t first_total = 0;
    for (const float newest : {0.0F, .3F, .9F, 1.0F}) {
        const Rates rates = {newest, newest, newest};
        const VerifyRates sequence = choose_rates(VerifyMode::kRejection, true, 3, rates, previous);
        const VerifyTotal total = choose_verify_total({&sequence, 1}, cost, 100);
        first_total = first_total == 0 ? total.rows : first_total;
        EXPECT_EQ(total.rows, first_total);
    }
}

TEST(VerifyLength, LaterDraftsNeverChangeWhetherAnEarlierOneIsVerified) {
    // A fixed total, and only the last confidence of a sequence moves.
    const Rates other = {.6F, .5F, .2F};
    for (const float last : {0.0F, .1F, .45F, .55F}) {
        const Rates rates = {.8F, .55F, last};
        const std::array<VerifyRates, 2> sequences = {VerifyRates{3, other, other}, VerifyRates{3, rates, rates}};
        Rows rows;
        for (int32_t total = 2; total <= 5; ++total) {
            split_verify_rows(sequences, total, rows);
            EXPECT_EQ(rows[1] >= 3, total >= 5) << total << " " << last;
            EXPECT_EQ(rows[1] >= 2, total >= 3) << total << " " << last;
        }
    }
}

TEST(VerifyLength, TiesGoToTheLowerIndexAndTheSmallerTotal) {
    const Rates half = {.5F, .5F};
    const std::array<VerifyRates, 3> sequences = {VerifyRates{2, half, half}, VerifyRates{2, half, half},
                                                  VerifyRates{2, half, half}};
    Rows rows;
    split_verify_rows(sequences, 6, rows);
    EXPECT_EQ(rows, (Rows{3, 2, 1}));
    // Cost in proportion to expected tokens: all totals are equally good.
    const VerifyTotal total = choose_verify_total(
        sequences, [](int32_t n) { return 3.0 + 0.5 * (n - 3); }, 9);
    EXPECT_EQ(total.rows, 3);
}

TEST(VerifyLength, ClimbsAStairThatFirstLoses) {
    const Rates sure = {.9F, .9F, .9F, .9F, .9F};
    const VerifyRates sequence = {5, sure, sure};
    // The second row alone is a loss (1.9 / 10 < 1 / 5); six rows are not.
    const VerifyTotal total = choose_verify_total({&sequence, 1}, staircase({{1, 5.0}, {8, 10.0}}, 0.0, 0.0), 100);
    EXPECT_EQ(total.rows, 6);
}

TEST(VerifyLength, StopsAtTheRoomAndAtTheEndOfTheCurve) {
    const Rates sure = {1.0F, 1.0F, 1.0F};
    const std::array<VerifyRates, 2> sequences = {VerifyRates{3, sure, sure}, VerifyRates{3, sure, sure}};
    Rows rows;
    EXPECT_EQ(choose_verify_rows(
                  sequences, [](int32_t) { return 1.0; }, 5, rows)
                  .rows,
              5);
    EXPECT_EQ(rows, (Rows{4, 1}));
    EXPECT_EQ(choose_verify_rows(sequences, staircase({{4, 1.0}}, 0.0, 0.0), 100, rows).rows, 4);
    EXPECT_EQ(choose_verify_rows(
                  sequences, [](int32_t) { return 1.0; }, 100, rows)
                  .rows,
              8);
    EXPECT_EQ(choose_verify_rows(
                  {}, [](int32_t) { return 1.0; }, 100, rows)
                  .rows,
              0);
    EXPECT_TRUE(rows.empty());
}

TEST(VerifyLength, UnknownRatesCountAsSureAndBrokenOnesAsNothing) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Rates broken = {nan, .9F};
    const std::array<VerifyRates, 2> sequences = {VerifyRates{2, {}, {}}, VerifyRates{2, broken, broken}};
    Rows rows;
    const VerifyTotal total = choose_verify_rows(
        sequences, [](int32_t) { return 1.0; }, 100, rows);
    EXPECT_EQ(total.expected_tokens, 4.0);
    EXPECT_EQ(rows, (Rows{3, 1}));
}

TEST(VerifyLength, VectorV2) {
    const Rates confidences = {.5F, .5F, .5F, .9F, .9F, .2F};
    const Rows remap = {1, -1, 0};
    Rows rows;
    resplit_verify_rows(confidences, 3, remap, 7, rows);
    EXPECT_EQ(rows, (Rows{3, 1, 3}));
    resplit_verify_rows(confidences, 3, remap, 9, rows);
    EXPECT_EQ(rows, (Rows{4, 1, 4}));
    // Rows of rate 0 come last, by flat index.
    resplit_verify_rows(confidences, 3, remap, 10, rows);
    EXPECT_EQ(rows, (Rows{4, 2, 4}));
    resplit_verify_rows(confidences, 3, remap, 12, rows);
    EXPECT_EQ(rows, (Rows{4, 4, 4}));
}

struct RandomCase {
    std::vector<Rates> rates;
    std::vector<VerifyRates> sequences;
    std::vector<double> cost;  // by rows, from 0
};

RandomCase random_case(SeededRandom& random) {
    RandomCase result;
    const auto count = 1 + random.below(4);
    const auto real = [&] { return static_cast<float>(random.next() >> 40) * 0x1p-24F; };
    for (int64_t i = 0; i < count; ++i) {
        Rates rates;
        float rate = 1.0F;
        for (int64_t draft = random.below(4); draft > 0; --draft) {
            rate *= random.below(3) == 0 ? 0.5F : real();  // halves make ties
            rates.push_back(rate);
        }
        result.rates.push_back(std::move(rates));
    }
    for (const Rates& rates : result.rates) {
        result.sequences.push_back({static_cast<int32_t>(rates.size()), rates, rates});
    }
    double ms = 1.0 + static_cast<double>(real()) * 10.0;
    for (int rows = 0; rows <= 16; ++rows) {
        ms += random.below(3) == 0 ? static_cast<double>(real()) * 4.0 : 0.0;  // a staircase
        result.cost.push_back(ms);
    }
    return result;
}

// Best expected tokens per millisecond over every combination of prefixes.
double brute_force(const RandomCase& c, size_t sequence, int32_t rows, double expected) {
    if (sequence == c.sequences.size()) {
        return expected / c.cost[static_cast<size_t>(rows)];
    }
    double best = brute_force(c, sequence + 1, rows + 1, expected + 1.0);
    for (const float rate : c.rates[sequence]) {
        expected += static_cast<double>(rate);
        ++rows;
        best = std::max(best, brute_force(c, sequence + 1, rows + 1, expected + 1.0));
    }
    return best;
}

TEST(VerifyLength, IsAsGoodAsTheBestOfAllPrefixes) {
    constexpr uint64_t kSeed = 20261;
    SeededRandom random(kSeed);
    for (int i = 0; i < 10000; ++i) {
        const RandomCase c = random_case(random);
        Rows rows;
        const auto cost = [&](int32_t n) { return c.cost[static_cast<size_t>(n)]; };
        const VerifyTotal total = choose_verify_rows(c.sequences, cost, 16, rows);
        double expected = 0.0;
        for (size_t s = 0; s < rows.size(); ++s) {
            ASSERT_LE(rows[s], 1 + c.sequences[s].draft_count);
            expected += 1.0 + std::accumulate(c.rates[s].begin(), c.rates[s].begin() + rows[s] - 1, 0.0);
        }
        const int32_t row_count = std::accumulate(rows.begin(), rows.end(), 0);
        ASSERT_EQ(row_count, total.rows) << "seed " << kSeed << " case " << i;
        const double got = expected / c.cost[static_cast<size_t>(row_count)];
        const double want = brute_force(c, 0, 0, 0.0);
        // Sums of the same numbers in another order.
        ASSERT_NEAR(got, want, 1e-9 * want) << "seed " << kSeed << " case " << i;
        ASSERT_NEAR(total.tokens_per_ms, want, 1e-9 * want) << "seed " << kSeed << " case " << i;
    }
}

TEST(VerifyLength, MoreRoomAndBetterRatesAreNeverWorse) {
    constexpr uint64_t kSeed = 20262;
    SeededRandom random(kSeed);
    for (int i = 0; i < 2000; ++i) {
        RandomCase c = random_case(random);
        const auto cost = [&](int32_t n) { return c.cost[static_cast<size_t>(n)]; };
        double before = 0.0;
        for (auto room = static_cast<int32_t>(c.sequences.size()); room <= 16; ++room) {
            const double now = choose_verify_total(c.sequences, cost, room).tokens_per_ms;
            ASSERT_GE(now, before) << "seed " << kSeed << " case " << i;
            before = now;
        }
        for (Rates& rates : c.rates) {
            for (float& rate : rates) {
                rate = std::min(1.0F, rate * 1.25F);
            }
        }
        ASSERT_GE(choose_verify_total(c.sequences, cost, 16).tokens_per_ms, before) << "seed " << kSeed << " case " << i;
    }
}

}  // namespace
}  // namespace di
