#include "engine/output_estimate.h"

#include <gtest/gtest.h>

namespace di {
namespace {

TEST(OutputEstimate, GuessesUntilEnoughAnswersHaveEnded) {
    OutputEstimate estimate;
    EXPECT_EQ(estimate.tokens(), 128);
    for (int i = 0; i < 15; ++i) {
        estimate.record(10);
    }
    EXPECT_EQ(estimate.tokens(), 128);
    estimate.record(10);
    EXPECT_EQ(estimate.tokens(), 10);
}

TEST(OutputEstimate, IsAQuantileOfTheLatestAnswers) {
    OutputEstimate estimate;
    for (int i = 1; i <= 100; ++i) {
        estimate.record(i);
    }
    EXPECT_EQ(estimate.tokens(), 75);
    for (int i = 0; i < 300; ++i) {  // what came before is forgotten
        estimate.record(3);
    }
    EXPECT_EQ(estimate.tokens(), 3);
    for (int i = 0; i < 300; ++i) {
        estimate.record(0);
    }
    EXPECT_EQ(estimate.tokens(), 1);
}

}  // namespace
}  // namespace di
