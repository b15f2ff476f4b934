#include "engine/plain_steps.h"

#include <gtest/gtest.h>

namespace di {
namespace {

TEST(PlainSteps, SaysNothingBeforeThereAreEnough) {
    PlainSteps plain;
    for (int32_t i = 0; i < PlainSteps::kStepsMin; ++i) {
        EXPECT_FALSE(plain.is_known());
        plain.record(2.0, 4);
    }
    EXPECT_TRUE(plain.is_known());
    EXPECT_DOUBLE_EQ(plain.ms(), 2.0);
    EXPECT_DOUBLE_EQ(plain.sequences(), 4.0);
}

TEST(PlainSteps, IsTheMeanOfTheLastSteps) {
    PlainSteps plain;
    for (int32_t i = 0; i < 100; ++i) {
        plain.record(50.0, 9);
    }
    for (int32_t i = 0; i < 8; ++i) {
        plain.record(1.0, 2);
        plain.record(1.5, 3);
    }
    EXPECT_DOUBLE_EQ(plain.ms(), 1.25);
    EXPECT_DOUBLE_EQ(plain.sequences(), 2.5);
}

// The first steps of a process read the weights from the disk.
TEST(PlainSteps, InterruptedStepsStayOut) {
    PlainSteps plain;
    plain.record(40.0, 1);
    plain.record(9.0, 1);
    for (int32_t i = 0; i < 6; ++i) {
        plain.record(0.5, 1);
    }
    EXPECT_DOUBLE_EQ(plain.ms(), 0.5);
}

// One slow moment at the start must not stand for the rest of the process.
TEST(PlainSteps, ARestartForgetsTheOldOnesOnceThereAreNewOnes) {
    PlainSteps plain;
    for (int32_t i = 0; i < 16; ++i) {
        plain.record(1.6, 1);
    }
    plain.restart();
    for (int32_t i = 1; i < PlainSteps::kStepsMin; ++i) {
        plain.record(0.5, 2);
        EXPECT_DOUBLE_EQ(plain.ms(), 1.6);
        EXPECT_DOUBLE_EQ(plain.sequences(), 1.0);
    }
    plain.record(0.5, 2);
    EXPECT_DOUBLE_EQ(plain.ms(), 0.5);
    EXPECT_DOUBLE_EQ(plain.sequences(), 2.0);
}

}  // namespace
}  // namespace di
