#include "text/output_rules_mask.h"

#include <array>

#include <gtest/gtest.h>

namespace di {
namespace {

constexpr int32_t kEnd = 1;
constexpr int32_t kThinkEndId = 9;

// Ids of a vocabulary of 64 that the mask leaves.
std::vector<int32_t> allowed(TokenMask& mask) {
    std::array<uint32_t, 2> words{};
    std::vector<int32_t> ids;
    if (!mask.fill(words)) {
        words = {~0U, ~0U};
    }
    for (int32_t id = 0; id < 64; ++id) {
        if ((words[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0) {
            ids.push_back(id);
        }
    }
    return ids;
}

TEST(OutputRulesMask, ForcesTheEndOfReasoningAtTheLimitAndOnlyOnce) {
    const auto mask = output_rules_mask({.reasoning_tokens_max = 2, .reasoning_end_id = kThinkEndId}, nullptr, {kEnd});
    EXPECT_EQ(allowed(*mask).size(), 64U);
    EXPECT_TRUE(mask->accept(5));
    EXPECT_TRUE(mask->accept(6));
    EXPECT_EQ(allowed(*mask), (std::vector<int32_t>{kThinkEndId}));
    EXPECT_FALSE(mask->accept(7));
    EXPECT_TRUE(mask->accept(kThinkEndId));
    EXPECT_EQ(allowed(*mask).size(), 64U);
    mask->rollback(2);
    EXPECT_EQ(allowed(*mask).size(), 64U);
    EXPECT_TRUE(mask->accept(kThinkEndId));  // by itself, before the limit
    for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(mask->accept(5));
    }
    EXPECT_FALSE(mask->is_finished());
    EXPECT_TRUE(mask->accept(kEnd));
    EXPECT_TRUE(mask->is_finished());
    EXPECT_FALSE(mask->accept(5));
}

TEST(OutputRulesMask, ACallInsideTheReasoningEndsIt) {
    const auto mask =
        output_rules_mask({.reasoning_tokens_max = 2, .reasoning_end_id = kThinkEndId, .call_marker_id = 6}, nullptr, {kEnd});
    EXPECT_TRUE(mask->accept(5));
    EXPECT_TRUE(mask->accept(6));
    EXPECT_EQ(allowed(*mask).size(), 64U);
    mask->rollback(1);
    EXPECT_TRUE(mask->accept(5));
    EXPECT_EQ(allowed(*mask), (std::vector<int32_t>{kThinkEndId}));
}

TEST(OutputRulesMask, NeverLetsABannedSequenceComplete) {
    const auto mask = output_rules_mask({.banned_sequences = {{3, 4, 5}, {7}}}, nullptr, {kEnd});
    EXPECT_FALSE(mask->accept(7));
    EXPECT_TRUE(mask->accept(3));
    EXPECT_TRUE(mask->accept(4));
    EXPECT_FALSE(mask->accept(5));
    const std::vector<int32_t> ids = allowed(*mask);
    EXPECT_EQ(ids.size(), 62U);
    const auto copy = mask->clone();
    EXPECT_TRUE(mask->accept(6));
    EXPECT_TRUE(mask->accept(5));
    EXPECT_FALSE(copy->accept(5));
    copy->rollback(1);
    EXPECT_TRUE(copy->accept(5));
}

TEST(OutputRulesMask, KeepsTheRulesOfTheMaskInside) {
    auto inner = output_rules_mask({.banned_sequences = {{8}}}, nullptr, {kEnd});
    const auto mask = output_rules_mask({.banned_sequences = {{7}}}, std::move(inner), {kEnd});
    EXPECT_FALSE(mask->accept(7));
    EXPECT_FALSE(mask->accept(8));
    EXPECT_EQ(allowed(*mask).size(), 62U);
    EXPECT_TRUE(mask->accept(2));
    EXPECT_TRUE(mask->accept(kEnd));
    EXPECT_TRUE(mask->is_finished());
}

TEST(OutputRulesMask, HasASourceThatMakesFreshMasks) {
    const auto source = output_rules_source({.reasoning_tokens_max = 0, .reasoning_end_id = kThinkEndId}, nullptr, {kEnd});
    ASSERT_TRUE(source->is_ready());
    for (int i = 0; i < 2; ++i) {
        const auto mask = source->create();
        ASSERT_TRUE(mask.has_value());
        EXPECT_EQ(allowed(**mask), (std::vector<int32_t>{kThinkEndId}));
        EXPECT_TRUE((*mask)->accept(kThinkEndId));
    }
}

}  // namespace
}  // namespace di
