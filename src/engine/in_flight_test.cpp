#include "engine/in_flight.h"

#include <gtest/gtest.h>

namespace di {
namespace {

constexpr int32_t kDepth = 5;
constexpr int32_t kRows = kDepth + 1;
constexpr int64_t kBlockTokens = 128;

struct Scheduled {
    int64_t length_before = 0;  // without the step's own rows
    int64_t length = 0;
    int64_t block_count = 0;
    int32_t in_flight = 0;  // afterwards
};

Scheduled schedule(InFlightRows& rows, int64_t cached) {
    const int64_t length = planned_length(cached, rows.total(), kRows);
    const int64_t end = decode_position_end(length, kRows, kDepth);
    rows.schedule(kDepth);
    return {length - kRows, length, (end + kBlockTokens - 1) / kBlockTokens, rows.total()};
}

void expect_scheduled(const Scheduled& got, int64_t before, int64_t length, int32_t in_flight) {
    EXPECT_EQ(got.length_before, before);
    EXPECT_EQ(got.length, length);
    EXPECT_EQ(got.block_count, 2);
    EXPECT_EQ(got.in_flight, in_flight);
}

TEST(InFlight, FollowsTheSpecificationsRun) {
    InFlightRows rows;
    int64_t cached = 125;  // a prompt of 125 tokens is done, drafts are there
    expect_scheduled(schedule(rows, cached), 125, 131, 6);
    const Scheduled second = schedule(rows, cached);
    expect_scheduled(second, 131, 137, 12);
    cached += 1 + 2;
    rows.process();
    EXPECT_EQ(rows.total(), 6);
    EXPECT_EQ(corrected_length(second.length, kDepth, 2), 134);
    EXPECT_EQ(corrected_length(second.length, kDepth, 2), cached + kRows);
    expect_scheduled(schedule(rows, cached), 134, 140, 12);
    cached += 1 + 5;
    rows.process();
    EXPECT_EQ(rows.total(), 6);
    expect_scheduled(schedule(rows, cached), 140, 146, 12);
    cached += 1 + 0;
    rows.process();
    EXPECT_EQ(cached, 135);
    EXPECT_EQ(rows.total(), 6);
}

TEST(InFlight, NothingIsLeftWhenEveryStepIsProcessed) {
    InFlightRows rows;
    rows.schedule(kDepth);
    rows.schedule(0);
    EXPECT_EQ(rows.total(), 7);
    rows.process();
    EXPECT_EQ(rows.total(), 1);
    rows.process();
    EXPECT_EQ(rows.total(), 0);
}

TEST(InFlightDeathTest, AThirdStepIsOurBug) {
    InFlightRows rows;
    rows.schedule(kDepth);
    rows.schedule(kDepth);
    EXPECT_DEATH(rows.schedule(kDepth), "third step");
}

}  // namespace
}  // namespace di
