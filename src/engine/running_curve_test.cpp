#include "engine/running_curve.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/random.h"

namespace di {
namespace {

void add(RunningCurve& curve, int32_t count, double value, int times) {
    for (int i = 0; i < times; ++i) {
        curve.add(count, value);
    }
}

TEST(RunningCurve, IsZeroWithoutSamplesAndConstantWithOnePlace) {
    RunningCurve curve;
    EXPECT_TRUE(curve.empty());
    EXPECT_EQ(curve.at(7), 0.0);
    curve.add(6, 12.0);
    EXPECT_FALSE(curve.empty());
    for (const int32_t count : {0, 1, 6, 7, 1000000}) {
        EXPECT_EQ(curve.at(count), 12.0) << count;
    }
}

TEST(RunningCurve, TakesTheMedianOfTheLastNine) {
    RunningCurve curve;
    add(curve, 4, 100.0, 9);
    add(curve, 4, 10.0, 4);
    EXPECT_EQ(curve.at(4), 100.0);
    add(curve, 4, 10.0, 1);
    EXPECT_EQ(curve.at(4), 10.0);
    curve.add(4, 1e9);  // one outlier
    EXPECT_EQ(curve.at(4), 10.0);
}

TEST(RunningCurve, RunsStraightBetweenItsSamplesAndOnAtTheEnds) {
    RunningCurve curve;
    curve.add(10, 20.0);
    curve.add(20, 30.0);
    EXPECT_DOUBLE_EQ(curve.at(15), 25.0);
    EXPECT_DOUBLE_EQ(curve.at(40), 50.0);
    EXPECT_DOUBLE_EQ(curve.at(5), 15.0);
    // Never steeper than in proportion.
    RunningCurve steep;
    steep.add(10, 1.0);
    steep.add(11, 110.0);
    EXPECT_DOUBLE_EQ(steep.at(22), 220.0);
    EXPECT_GE(steep.at(0), 0.0);
}

TEST(RunningCurve, KeepsAStaircaseThatWasMeasured) {
    RunningCurve curve;
    for (int32_t count = 1; count <= 16; ++count) {
        add(curve, count, count <= 8 ? 11.0 : 18.0, 3);
    }
    EXPECT_DOUBLE_EQ(curve.at(8), 11.0);
    EXPECT_DOUBLE_EQ(curve.at(9), 18.0);
    EXPECT_DOUBLE_EQ(curve.at(1), 11.0);
    EXPECT_DOUBLE_EQ(curve.at(20), 18.0 + 4 * (18.0 - 11.0) / 8);
}

TEST(RunningCurve, ALuckySampleIsNoBargain) {
    RunningCurve curve;
    add(curve, 5, 10.0, 9);
    curve.add(6, 1.0);
    EXPECT_DOUBLE_EQ(curve.at(5), (9 * 10.0 + 1.0) / 10.0);
    EXPECT_DOUBLE_EQ(curve.at(6), curve.at(5));
}

TEST(RunningCurve, NeverFallsAndIsNeverNegative) {
    constexpr uint64_t kSeed = 41;
    SeededRandom random(kSeed);
    RunningCurve curve;
    for (int i = 0; i < 2000; ++i) {
        curve.add(static_cast<int32_t>(random.below(1 + random.below(3000))), static_cast<double>(random.below(1000)));
        if (i % 50 != 0) {
            continue;
        }
        double before = 0.0;
        for (int32_t count = 0; count < 6000; count += 1 + count / 20) {
            const double now = curve.at(count);
            ASSERT_GE(now, before - 1e-9) << "seed " << kSeed << " sample " << i << " count " << count;
            before = now;
        }
    }
}

TEST(RunningCurve, FindsALineUnderNoise) {
    constexpr uint64_t kSeed = 42;
    SeededRandom random(kSeed);
    RunningCurve curve;
    const auto line = [](int32_t count) { return 5.0 + 0.25 * count; };
    for (int i = 0; i < 4000; ++i) {
        const auto count = static_cast<int32_t>(1 + random.below(256));
        const double noise = 0.9 + 0.2 * static_cast<double>(random.next() >> 11) * 0x1p-53;
        curve.add(count, line(count) * noise * (random.below(20) == 0 ? 5.0 : 1.0));  // some of them interrupted
    }
    for (int32_t count = 1; count <= 256; ++count) {
        EXPECT_NEAR(curve.at(count), line(count), 0.1 * line(count)) << "seed " << kSeed << " count " << count;
    }
}

TEST(RunningCurve, KnowsWhereItHasRecentSamples) {
    RunningCurve curve;
    add(curve, 80, 1.0, 3);
    EXPECT_EQ(curve.recent_samples(80, 100), 3);
    EXPECT_EQ(curve.recent_samples(88, 100), 3);  // within an eighth
    EXPECT_EQ(curve.recent_samples(100, 100), 0);
    add(curve, 2, 1.0, 99);
    EXPECT_EQ(curve.recent_samples(80, 100), 1);
    EXPECT_EQ(curve.recent_samples(2, 100), 9);
    EXPECT_EQ(curve.recent_samples(1, 100), 0);  // small counts only themselves
    EXPECT_EQ(curve.recent_samples(3, 100), 0);
    add(curve, 2, 1.0, 1);
    EXPECT_EQ(curve.recent_samples(80, 100), 0);
}

TEST(RunningCurve, KnowsWhereTheNextSamplesAre) {
    RunningCurve curve;
    EXPECT_EQ(curve.next_known(5, 1), -1);
    add(curve, 2, 1.0, 3);
    add(curve, 5, 1.0, 2);
    add(curve, 300, 1.0, 3);
    EXPECT_EQ(curve.next_known(0, 3), 2);
    EXPECT_EQ(curve.next_known(2, 2), 5);
    EXPECT_EQ(curve.next_known(2, 3), 300);
    EXPECT_EQ(curve.next_known(5, 3), 300);
    EXPECT_EQ(curve.next_known(300, 1), -1);
    EXPECT_EQ(curve.next_known(5000, 1), -1);
}

TEST(RunningCurve, AssignedSamplesReplaceAllOthers) {
    RunningCurve curve;
    add(curve, 3, 50.0, 9);
    add(curve, 500, 80.0, 9);
    curve.assign({{3, 1.0}, {3, 2.0}, {3, 3.0}, {9, 8.0}});
    EXPECT_DOUBLE_EQ(curve.at(3), 2.0);
    EXPECT_DOUBLE_EQ(curve.at(9), 8.0);
    EXPECT_LT(curve.at(12), 11.0);
    EXPECT_EQ(curve.recent_samples(3, 4), 3);
    EXPECT_EQ(curve.recent_samples(3, 2), 1);
}

TEST(RunningCurve, IgnoresWhatIsNoNumber) {
    RunningCurve curve;
    curve.add(3, std::numeric_limits<double>::quiet_NaN());
    curve.add(3, std::numeric_limits<double>::infinity());
    EXPECT_TRUE(curve.empty());
}

TEST(RunningCurve, TakesTheLargestCount) {
    RunningCurve curve;
    curve.add(std::numeric_limits<int32_t>::max(), 5.0);
    curve.add(0, 1.0);
    EXPECT_DOUBLE_EQ(curve.at(std::numeric_limits<int32_t>::max()), 5.0);
    EXPECT_DOUBLE_EQ(curve.at(0), 1.0);
}

TEST(RunningCurve, LastKnownIsTheNearestCountBelow) {
    RunningCurve curve;
    EXPECT_EQ(curve.last_known(5), -1);
    curve.add(4, 1.0);
    curve.add(40, 2.0);
    curve.add(1000, 3.0);
    EXPECT_EQ(curve.last_known(3), -1);
    EXPECT_EQ(curve.last_known(4), 4);
    EXPECT_EQ(curve.last_known(39), 4);
    EXPECT_EQ(curve.last_known(40), 40);
    EXPECT_EQ(curve.last_known(999), 40);  // in the same place, but above
    EXPECT_EQ(curve.last_known(1 << 30), 1000);
}

}  // namespace
}  // namespace di
