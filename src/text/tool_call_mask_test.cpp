#include "text/tool_call_mask.h"

#include <random>

#include <gtest/gtest.h>

#include "counting_mask.h"

namespace di {
namespace {

constexpr int32_t kEnd = CountingMask::kEnd;
constexpr int32_t kBracket = 10;
constexpr int32_t kMarker = 11;
constexpr int32_t kThinkEnd = 12;
constexpr int32_t kText = 13;

// Behind the marker 1, 2, 3 come; behind the reasoning, where there is some, 1 and 2.
ToolCallMask mask_of(bool has_reasoning, bool must_call = false) {
    auto openers = std::make_shared<std::vector<bool>>(32, false);
    (*openers)[kBracket] = true;
    auto gate = std::make_shared<ToolCallGate>();
    gate->marker_id = kMarker;
    gate->end_token_ids = {kEnd};
    gate->opens_tag = openers;
    gate->must_call = must_call;
    std::unique_ptr<TokenMask> behind_reasoning;
    if (has_reasoning) {
        gate->reasoning_end_id = kThinkEnd;
        behind_reasoning = std::make_unique<CountingMask>(2);
    }
    return {gate, std::make_unique<CountingMask>(3), std::move(behind_reasoning)};
}

uint32_t filled(TokenMask& mask) {
    uint32_t word = 0;
    EXPECT_TRUE(mask.fill({&word, 1}));
    for (int32_t id = 0; id < 32; ++id) {
        EXPECT_EQ(mask.clone()->accept(id), ((word >> static_cast<uint32_t>(id)) & 1U) != 0) << id;
    }
    return word;
}

bool accept_all(TokenMask& mask, const std::vector<int32_t>& ids) {
    bool is_good = true;
    for (const int32_t id : ids) {
        is_good = mask.accept(id) && is_good;
    }
    return is_good;
}

TEST(ToolCallMask, OnlyABracketLetsTheMarkerIn) {
    ToolCallMask mask = mask_of(false);
    EXPECT_EQ(filled(mask), ~(1U << kMarker));
    EXPECT_FALSE(mask.accept(kMarker));
    EXPECT_FALSE(mask.accept(-1));
    ASSERT_TRUE(accept_all(mask, {kText, kThinkEnd, kBracket}));
    EXPECT_EQ(filled(mask), ~0U);
    ASSERT_TRUE(accept_all(mask, {kText}));
    EXPECT_EQ(filled(mask), ~(1U << kMarker));
    ASSERT_TRUE(accept_all(mask, {kBracket, kMarker}));
    EXPECT_EQ(filled(mask), 1U << 1);
    ASSERT_TRUE(accept_all(mask, {1, 2, 3, kEnd}));
    EXPECT_TRUE(mask.is_finished());
    EXPECT_EQ(filled(mask), 0U);
}

TEST(ToolCallMask, BehindTheReasoningAnotherMaskDecides) {
    ToolCallMask mask = mask_of(true);
    ASSERT_TRUE(accept_all(mask, {kText, kBracket, kThinkEnd}));
    EXPECT_EQ(filled(mask), 1U << 1);
    ASSERT_TRUE(accept_all(mask, {1, 2, kEnd}));
    EXPECT_TRUE(mask.is_finished());
}

TEST(ToolCallMask, AnAnswerThatMustCallDoesNotEndWithoutACall) {
    ToolCallMask mask = mask_of(true, true);
    EXPECT_EQ(filled(mask), ~(1U << kMarker) & ~(1U << kEnd));
    ToolCallMask free = mask_of(true, false);
    ASSERT_TRUE(accept_all(free, {kText, kEnd}));
    EXPECT_TRUE(free.is_finished());
    EXPECT_EQ(filled(free), 0U);
    free.rollback(1);
    EXPECT_FALSE(free.is_finished());
    EXPECT_EQ(filled(free), ~(1U << kMarker));
}

TEST(ToolCallMask, TakesBackDraftsAcrossEveryBoundary) {
    const std::vector<std::vector<int32_t>> outputs = {
        {kText, kBracket, kMarker, 1, 2, 3, kEnd}, {kText, kThinkEnd, 1, 2, kEnd}, {kBracket, kText, kEnd}};
    const uint64_t seed = 5;
    std::mt19937_64 random(seed);
    ToolCallMask mask = mask_of(true);
    std::vector<int32_t> taken;
    for (int round = 0; round < 2000; ++round) {
        // Back to any place, then on along any of the outputs that begin so.
        const auto count = static_cast<size_t>(random() % (taken.size() + 1));
        mask.rollback(static_cast<int32_t>(count));
        taken.resize(taken.size() - count);
        const std::vector<int32_t>& output = outputs[random() % outputs.size()];
        for (size_t i = taken.size(); i < output.size() && std::equal(taken.begin(), taken.end(), output.begin()); ++i) {
            ASSERT_TRUE(mask.accept(output[i])) << "seed " << seed << " round " << round;
            taken.push_back(output[i]);
        }
        ToolCallMask fresh = mask_of(true);
        ASSERT_TRUE(accept_all(fresh, taken));
        ASSERT_EQ(filled(mask), filled(fresh)) << "seed " << seed << " round " << round;
    }
}

}  // namespace
}  // namespace di
