#include "text/trigger_mask.h"

#include <random>

#include <gtest/gtest.h>

#include "counting_mask.h"

namespace di {
namespace {

constexpr int32_t kEnd = CountingMask::kEnd;

TriggerMask mask_of(std::vector<int32_t> trigger, std::optional<int32_t> bound = {}) {
    return {std::make_unique<CountingMask>(3), std::move(trigger), bound, {kEnd}};
}

bool accept_all(TokenMask& mask, const std::vector<int32_t>& ids) {
    bool is_good = true;
    for (const int32_t id : ids) {
        is_good = mask.accept(id) && is_good;
    }
    return is_good;
}

TEST(TriggerMask, LeavesTokensFreeUntilTheTriggerAndConstrainsTheVeryNext) {
    TriggerMask mask = mask_of({7, 8});
    uint32_t word = 0;
    EXPECT_FALSE(mask.fill({&word, 1}));
    EXPECT_TRUE(accept_all(mask, {9, 7, 7, 8}));
    ASSERT_TRUE(mask.fill({&word, 1}));
    EXPECT_EQ(word, 1U << 1U);
    EXPECT_FALSE(mask.accept(2));
    EXPECT_TRUE(accept_all(mask, {1, 2, 3, kEnd}));
    EXPECT_TRUE(mask.is_finished());
    EXPECT_FALSE(mask.accept(kEnd));
}

TEST(TriggerMask, FindsATriggerThatOverlapsItself) {
    TriggerMask mask = mask_of({7, 7, 8, 7, 7, 9});
    EXPECT_TRUE(accept_all(mask, {7, 7, 8, 7, 7, 8, 7, 7, 9}));
    EXPECT_FALSE(mask.accept(9));
    EXPECT_TRUE(mask.accept(1));
}

TEST(TriggerMask, ForcesTheTriggerBehindTheBoundToken) {
    TriggerMask mask = mask_of({7, 8}, 5);
    EXPECT_TRUE(accept_all(mask, {9, 7, 5}));
    uint32_t word = 0;
    ASSERT_TRUE(mask.fill({&word, 1}));
    EXPECT_EQ(word, 1U << 7U);
    EXPECT_FALSE(mask.accept(8));
    EXPECT_TRUE(accept_all(mask, {7, 8, 1}));
}

TEST(TriggerMask, EndsWhereNoTriggerCame) {
    TriggerMask mask = mask_of({7, 8});
    EXPECT_TRUE(accept_all(mask, {9, kEnd}));
    EXPECT_TRUE(mask.is_finished());
    uint32_t word = ~0U;
    ASSERT_TRUE(mask.fill({&word, 1}));
    EXPECT_EQ(word, 0U);
    mask.rollback(1);
    EXPECT_FALSE(mask.is_finished());
    EXPECT_TRUE(mask.accept(9));
}

TEST(TriggerMask, TakesBackAcrossTheBoundaryAsIfNothingHadHappened) {
    const uint64_t seed = 20'261'130;
    std::mt19937_64 random(seed);
    for (int round = 0; round < 2'000; ++round) {
        TriggerMask mask = mask_of({7, 7, 8}, round % 2 == 0 ? std::optional(5) : std::nullopt);
        std::vector<int32_t> ids;
        const auto draw = [&](TokenMask& some) {
            const int32_t choices[] = {7, 8, 5, 9, 1, 2, 3, kEnd};
            const int32_t id = choices[random() % 8];
            return some.accept(id) ? id : -1;
        };
        for (int i = 0; i < 12; ++i) {
            if (const int32_t id = draw(mask); id >= 0) {
                ids.push_back(id);
            }
        }
        const size_t count = ids.empty() ? 0 : random() % (ids.size() + 1);
        mask.rollback(static_cast<int32_t>(count));
        ids.resize(ids.size() - count);
        TriggerMask fresh = mask_of({7, 7, 8}, round % 2 == 0 ? std::optional(5) : std::nullopt);
        ASSERT_TRUE(accept_all(fresh, ids));
        uint32_t word = 0;
        uint32_t fresh_word = 0;
        ASSERT_EQ(mask.fill({&word, 1}), fresh.fill({&fresh_word, 1})) << "seed " << seed << " round " << round;
        ASSERT_EQ(word, fresh_word) << "seed " << seed << " round " << round;
        ASSERT_EQ(mask.is_finished(), fresh.is_finished());
        const std::unique_ptr<TokenMask> copy = mask.clone();
        ASSERT_EQ(copy->is_finished(), mask.is_finished());
    }
}

}  // namespace
}  // namespace di
