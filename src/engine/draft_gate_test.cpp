#include "engine/draft_gate.h"

#include <gtest/gtest.h>

namespace di {
namespace {

// Steps until the gate lets one draft; gives up after `limit`.
int64_t steps_until_open(DraftGate& gate, int32_t sequences, int64_t limit = 100000) {
    int64_t steps = 0;
    while (!gate.next_step(sequences) && steps < limit) {
        ++steps;
    }
    return steps;
}

void lose(DraftGate& gate, int32_t sequences, int32_t rounds) {
    for (int32_t i = 0; i < rounds; ++i) {
        gate.record(sequences, -0.1);
    }
}

TEST(DraftGate, ClosesAfter32LostRoundsAndNotBefore) {
    DraftGate gate;
    lose(gate, 4, 31);
    EXPECT_TRUE(gate.next_step(4));
    lose(gate, 4, 1);
    EXPECT_FALSE(gate.next_step(4));
}

TEST(DraftGate, OneLargeGainOutweighsSmallLosses) {
    DraftGate gate;
    for (int i = 0; i < 1000; ++i) {
        gate.record(1, i % 8 == 0 ? 1.0 : -0.05);
        ASSERT_TRUE(gate.is_open(1));
    }
}

TEST(DraftGate, ManySmallGainsDoNotHideLargeLosses) {
    DraftGate gate;
    for (int i = 0; i < 200; ++i) {
        gate.record(1, i % 4 == 0 ? -1.0 : 0.1);
    }
    EXPECT_FALSE(gate.is_open(1));
}

TEST(DraftGate, ProbesBackOffUntilOneGains) {
    DraftGate gate;
    lose(gate, 32, 32);
    int64_t wait = 128;
    for (int probe = 0; probe < 8; ++probe) {
        EXPECT_EQ(steps_until_open(gate, 32), wait) << probe;
        for (int round = 0; round < 4; ++round) {
            EXPECT_TRUE(gate.next_step(32));
            gate.record(32, -0.2);
        }
        EXPECT_FALSE(gate.is_open(32));
        wait = std::min<int64_t>(wait * 2, 4096);
    }
    EXPECT_EQ(steps_until_open(gate, 32), 4096);
    for (int round = 0; round < 4; ++round) {
        gate.record(32, 0.3);
    }
    EXPECT_TRUE(gate.is_open(32));
    lose(gate, 32, 31);
    EXPECT_TRUE(gate.is_open(32));
    // Opened just now: it goes on backing off. After a long time of gains it starts again.
    lose(gate, 32, 1);
    EXPECT_EQ(steps_until_open(gate, 32), 4096);
    for (int round = 0; round < 600; ++round) {
        gate.record(32, 0.3);
    }
    lose(gate, 32, 100);
    EXPECT_FALSE(gate.is_open(32));
    EXPECT_EQ(steps_until_open(gate, 32), 128);
}

TEST(DraftGate, LossAmongManyDoesNotCloseForFew) {
    DraftGate gate;
    lose(gate, 32, 100);
    EXPECT_FALSE(gate.is_open(32));
    EXPECT_FALSE(gate.is_open(63));
    EXPECT_TRUE(gate.is_open(64));
    EXPECT_TRUE(gate.is_open(31));
    EXPECT_TRUE(gate.is_open(1));
}

TEST(DraftGate, RoundsLeftOverWhenItClosedAreNoProbe) {
    DraftGate gate;
    lose(gate, 2, 32);
    for (int i = 0; i < 10; ++i) {
        gate.record(2, 1.0);
    }
    EXPECT_FALSE(gate.is_open(2));
    EXPECT_EQ(steps_until_open(gate, 2), 128);
}

}  // namespace
}  // namespace di
