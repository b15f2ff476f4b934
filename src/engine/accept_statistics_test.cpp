#include "engine/accept_statistics.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/random.h"

namespace di {
namespace {

TEST(AcceptStatistics, CountsByPosition) {
    AcceptStatistics statistics(3);
    const std::vector<float> rates = {0.8F, 0.4F, 0.2F};
    statistics.record({.verified = 3, .accepted = 1, .rates = rates});
    statistics.record({.verified = 2, .accepted = 2, .rates = rates});
    statistics.record({});
    EXPECT_EQ(statistics.verified_by_position(), (std::vector<int64_t>{2, 2, 1}));
    EXPECT_EQ(statistics.accepted_by_position(), (std::vector<int64_t>{2, 1, 0}));
    // |2 - 1.6| + |1 - 0.8| + |0 - 0.2| over five drafts.
    EXPECT_NEAR(statistics.mean_confidence_error(), 0.8 / 5.0, 1e-6);
}

TEST(AcceptStatistics, WithoutRatesOnlyAcceptanceIsKnown) {
    AcceptStatistics statistics(2);
    const std::vector<float> broken(2, std::numeric_limits<float>::quiet_NaN());
    statistics.record({.verified = 2, .accepted = 1});
    statistics.record({.verified = 2, .accepted = 0, .rates = broken});
    EXPECT_EQ(statistics.verified_by_position(), (std::vector<int64_t>{2, 2}));
    EXPECT_EQ(statistics.mean_confidence_error(), 0.0);
    EXPECT_EQ(statistics.correction(0), 1.0F);
}

// Rounds whose drafts are accepted with `truth`, announced with `rate`.
void run(AcceptStatistics& statistics, SeededRandom& random, double truth, float rate, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        const bool accepted = static_cast<double>(random.next() >> 11) * 0x1p-53 < truth;
        statistics.record({.verified = 1, .accepted = accepted ? 1 : 0, .rates = {&rate, 1}});
    }
}

TEST(AcceptStatistics, CorrectionFollowsWhatIsAccepted) {
    constexpr uint64_t kSeed = 31;
    SeededRandom random(kSeed);
    AcceptStatistics statistics(1);
    EXPECT_EQ(statistics.correction(0), 1.0F);
    run(statistics, random, 0.3, 0.9F, 2000);
    // A share of 256 .. 512 draws has a deviation of at most 0.03, relative 0.1; the prior adds some.
    EXPECT_NEAR(statistics.correction(0), 0.3 / 0.9, 0.12) << "seed " << kSeed;
    EXPECT_NEAR(statistics.mean_confidence_error(), 0.6, 0.05) << "seed " << kSeed;
    run(statistics, random, 0.9, 0.9F, 4000);
    EXPECT_NEAR(statistics.correction(0), 1.0, 0.12) << "seed " << kSeed;
    run(statistics, random, 0.0, 1.0F, 4000);
    EXPECT_LT(statistics.correction(0), 0.05F);
    for (int step = 0; step < 2000; ++step) {
        statistics.end_step();
    }
    EXPECT_LT(statistics.correction(0), 0.15F);
    for (int step = 0; step < 14000; ++step) {
        statistics.end_step();
    }
    EXPECT_GT(statistics.correction(0), 0.9F);  // forgotten
    run(statistics, random, 1.0, 0.01F, 4000);
    EXPECT_EQ(statistics.correction(0), 2.0F);
}

TEST(AcceptStatistics, AlarmWhenAcceptanceFallsBelowHalfOfItsMedian) {
    constexpr uint64_t kSeed = 32;
    SeededRandom random(kSeed);
    AcceptStatistics statistics(1);
    run(statistics, random, 0.1, 0.8F, 256);
    EXPECT_FALSE(statistics.has_alarm());  // nothing to compare with
    run(statistics, random, 0.8, 0.8F, 256 * 20);
    EXPECT_FALSE(statistics.has_alarm()) << "seed " << kSeed;
    run(statistics, random, 0.6, 0.8F, 256);
    EXPECT_FALSE(statistics.has_alarm()) << "seed " << kSeed;
    run(statistics, random, 0.2, 0.8F, 256);
    EXPECT_TRUE(statistics.has_alarm()) << "seed " << kSeed;
    EXPECT_NEAR(statistics.recent_acceptance(), 0.2, 0.1) << "seed " << kSeed;
    run(statistics, random, 0.8, 0.8F, 256);
    EXPECT_FALSE(statistics.has_alarm()) << "seed " << kSeed;
}

}  // namespace
}  // namespace di
