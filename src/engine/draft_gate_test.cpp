#include "engine/draft_gate.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace di {
namespace {

constexpr DraftGate::Outlook kGain = {.likely = 0.2, .hopeful = 0.4};
constexpr DraftGate::Outlook kHope = {.likely = -0.1, .hopeful = 0.1};
constexpr DraftGate::Outlook kLoss = {.likely = -0.3, .hopeful = -0.1};

// Steps until the gate lets one draft; gives up after `limit`.
int64_t steps_until_drafts(DraftGate& gate, int32_t sequences, int64_t limit = 100000) {
    int64_t steps = 0;
    while (gate.next_step(sequences, true) == 0 && steps < limit) {
        ++steps;
    }
    return steps;
}

void probe(DraftGate& gate, int32_t sequences, const DraftGate::Outlook& outlook) {
    for (int round = 0; round < 4; ++round) {
        EXPECT_FALSE(gate.is_open(sequences));
        EXPECT_GT(gate.next_step(sequences, true), 0);
        gate.record_probe(sequences, outlook);
    }
}

void open(DraftGate& gate, int32_t sequences) {
    for (int probes = 0; probes < 4 && !gate.is_open(sequences); ++probes) {
        probe(gate, sequences, kGain);
    }
    ASSERT_TRUE(gate.is_open(sequences));
}

// Steps without drafts that it takes until the gate closes.
double loss_until_closed(DraftGate& gate, int32_t sequences, double loss) {
    double sum = 0.0;
    while (gate.is_open(sequences) && sum < 1000.0) {
        gate.record_profit(sequences, -loss);
        sum += loss;
    }
    return sum;
}

TEST(DraftGate, IsClosedUntilDraftsForAllAreLikelyToGain) {
    DraftGate gate;
    EXPECT_FALSE(gate.is_open(1));
    EXPECT_EQ(gate.next_step(1, true), 1);
    EXPECT_FALSE(gate.is_open(1));
    probe(gate, 1, kGain);
    EXPECT_TRUE(gate.is_open(1));
    EXPECT_EQ(gate.next_step(1, false), 1);
}

TEST(DraftGate, DraftsForAnEighthFirstAndTwiceAsManyWhileThereIsHope) {
    DraftGate gate;
    for (const int32_t share : {4, 8, 16, 32}) {
        EXPECT_EQ(gate.next_step(32, true), share);
        probe(gate, 32, share == 32 ? kGain : kHope);
    }
    EXPECT_TRUE(gate.is_open(32));
    EXPECT_EQ(gate.next_step(40, true), 40);
}

TEST(DraftGate, EndsAProbeWithTheHope) {
    DraftGate gate;
    probe(gate, 32, kLoss);
    EXPECT_EQ(gate.next_step(32, true), 0);
    EXPECT_EQ(steps_until_drafts(gate, 32), 127);
}

TEST(DraftGate, DoesNotHopeForEver) {
    DraftGate gate;
    int rounds = 0;
    while (gate.next_step(1, true) > 0 && rounds < 1000) {
        gate.record_probe(1, kHope);
        ++rounds;
    }
    EXPECT_LE(rounds, 20);
    EXPECT_FALSE(gate.is_open(1));
}

TEST(DraftGate, DoesNotProbeWhereItMayNot) {
    DraftGate gate;
    EXPECT_EQ(gate.next_step(8, false), 0);
    EXPECT_EQ(gate.next_step(0, true), 0);
    EXPECT_EQ(gate.next_step(8, true), 1);
    EXPECT_EQ(gate.next_step(8, false), 0);
    EXPECT_EQ(gate.next_step(8, true), 1);  // it goes on later
}

TEST(DraftGate, ProbesBackOffUntilOneGains) {
    DraftGate gate;
    probe(gate, 3, kLoss);
    int64_t wait = 128;
    for (int probes = 0; probes < 8; ++probes) {
        EXPECT_EQ(steps_until_drafts(gate, 3), wait) << probes;
        probe(gate, 3, kLoss);
        wait = std::min<int64_t>(wait * 2, 4096);
    }
    EXPECT_EQ(steps_until_drafts(gate, 3), 4096);
    open(gate, 3);
    // Opened just now: it goes on backing off. After a long time of gains it starts again.
    loss_until_closed(gate, 3, 1.0);
    EXPECT_EQ(steps_until_drafts(gate, 3), 4096);
    open(gate, 3);
    for (int round = 0; round < 600; ++round) {
        gate.record_profit(3, 0.3);
    }
    loss_until_closed(gate, 3, 1.0);
    EXPECT_EQ(steps_until_drafts(gate, 3), 128);
}

TEST(DraftGate, ClosesWhenFourStepsAreLostOrEightOfWhatWasEarned) {
    for (const double loss : {0.125, 0.5, 1.0}) {
        DraftGate gate;
        open(gate, 4);
        EXPECT_NEAR(loss_until_closed(gate, 4, loss), 4.0, 1.0) << loss;
        DraftGate earner;
        open(earner, 4);
        for (int i = 0; i < 100; ++i) {
            earner.record_profit(4, 0.1);
        }
        EXPECT_NEAR(loss_until_closed(earner, 4, loss), 8.0, 1.0) << loss;
    }
}

TEST(DraftGate, OneLargeGainOutweighsSmallLosses) {
    DraftGate gate;
    open(gate, 1);
    for (int i = 0; i < 1000; ++i) {
        gate.record_profit(1, i % 8 == 0 ? 1.0 : -0.05);
        ASSERT_TRUE(gate.is_open(1));
    }
}

TEST(DraftGate, ManySmallGainsDoNotHideLargeLosses) {
    DraftGate gate;
    open(gate, 1);
    for (int i = 0; i < 200; ++i) {
        gate.record_profit(1, i % 4 == 0 ? -1.0 : 0.1);
    }
    EXPECT_FALSE(gate.is_open(1));
}

TEST(DraftGate, SomeStepsDoWithoutDraftsFewerWhereMuchIsGained) {
    for (const double profit : {0.05, 1.0}) {
        DraftGate gate;
        open(gate, 4);
        const auto steps_without = [&](int64_t steps) {
            int64_t without = 0;
            for (int64_t i = 0; i < steps; ++i) {
                without += gate.next_step(4, true) == 0 ? 1 : 0;
                gate.record_profit(4, profit);
            }
            return without;
        };
        (void)steps_without(4096);  // intervals grow at first
        constexpr int64_t kSteps = 20480;
        const int64_t without = steps_without(kSteps);
        const int64_t interval = profit > 0.5 ? 2048 : 256;
        EXPECT_NEAR(static_cast<double>(without), 9.0 * kSteps / static_cast<double>(interval), 18.0) << profit;
        EXPECT_GE(without, 9) << profit;
    }
}

// What drafts are compared with may have been measured at a bad moment.
TEST(DraftGate, SoonAfterItOpensSomeStepsDoWithoutDrafts) {
    DraftGate gate;
    open(gate, 4);
    std::vector<int64_t> begins;
    bool is_plain_before = false;
    for (int64_t i = 0; i < 700; ++i) {
        const bool is_plain = gate.next_step(4, true) == 0;
        if (is_plain && !is_plain_before) {
            begins.push_back(i);
        }
        is_plain_before = is_plain;
        gate.record_profit(4, 0.05);
    }
    ASSERT_GE(begins.size(), 4U);
    EXPECT_LE(begins[0], 32);
    EXPECT_LE(begins[1] - begins[0], 64);
    EXPECT_LE(begins[2] - begins[1], 128);
    EXPECT_LE(begins[3] - begins[2], 256);
}

TEST(DraftGate, OneInterruptedStepDoesNotCloseIt) {
    DraftGate gate;
    open(gate, 1);
    gate.record_profit(1, -500.0);
    EXPECT_TRUE(gate.is_open(1));
}

TEST(DraftGate, LossAmongManyDoesNotCloseForFew) {
    DraftGate gate;
    for (const int32_t sequences : {1, 31, 32, 64}) {
        open(gate, sequences);
    }
    loss_until_closed(gate, 32, 1.0);
    EXPECT_FALSE(gate.is_open(32));
    EXPECT_FALSE(gate.is_open(63));
    EXPECT_TRUE(gate.is_open(64));
    EXPECT_TRUE(gate.is_open(31));
    EXPECT_TRUE(gate.is_open(1));
}

TEST(DraftGate, DraftsLeftOverWhenItClosedAreNoProbe) {
    DraftGate gate;
    open(gate, 2);
    loss_until_closed(gate, 2, 1.0);
    for (int i = 0; i < 10; ++i) {
        gate.record_probe(2, kGain);
        gate.record_profit(2, 1.0);
    }
    EXPECT_FALSE(gate.is_open(2));
    EXPECT_EQ(steps_until_drafts(gate, 2), 128);
}

}  // namespace
}  // namespace di
