#include "kv/block_pool.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace di {
namespace {

TEST(BlockPool, GivesEveryIdOnceAndThenNone) {
    BlockPool pool(5);
    std::set<int32_t> ids;
    for (int i = 0; i < 5; ++i) {
        const auto id = pool.allocate();
        ASSERT_TRUE(id.has_value());
        EXPECT_TRUE(*id >= 0 && *id < 5);
        ids.insert(*id);
    }
    EXPECT_EQ(ids.size(), 5U);
    EXPECT_FALSE(pool.allocate().has_value());
    EXPECT_EQ(pool.free_count(), 0);
    EXPECT_EQ(pool.used_count(), 5);
}

TEST(BlockPool, StartsLowAndReusesTheWarmestId) {
    BlockPool pool(4);
    std::vector<int32_t> table;
    pool.allocate(3, table);
    EXPECT_EQ(table, (std::vector<int32_t>{0, 1, 2}));
    pool.release(1);
    EXPECT_EQ(*pool.allocate(), 1);
    pool.release_all(table);
    EXPECT_TRUE(table.empty());
    pool.allocate(3, table);
    EXPECT_EQ(table, (std::vector<int32_t>{0, 1, 2}));
}

TEST(BlockPool, CanAllocateCountsWhatIsFree) {
    BlockPool pool(2);
    EXPECT_TRUE(pool.can_allocate(0));
    EXPECT_TRUE(pool.can_allocate(2));
    EXPECT_FALSE(pool.can_allocate(3));
    EXPECT_FALSE(pool.can_allocate(int64_t{1} << 40));
    EXPECT_TRUE(BlockPool(0).can_allocate(0));
    EXPECT_FALSE(BlockPool(0).can_allocate(1));
}

TEST(BlockPool, SharedIdLivesUntilItsLastOwnerLeaves) {
    BlockPool pool(1);
    const int32_t id = *pool.allocate();
    pool.share(id);
    EXPECT_EQ(pool.owner_count(id), 2);
    pool.release(id);
    EXPECT_EQ(pool.free_count(), 0);
    pool.release(id);
    EXPECT_EQ(pool.free_count(), 1);
}

TEST(BlockPool, WatcherHearsWhenAnIdBecomesSharedOrExclusive) {
    BlockPool pool(2);
    std::vector<std::pair<int32_t, int32_t>> heard;  // id, owners
    pool.set_watcher([&](int32_t id) { heard.emplace_back(id, pool.owner_count(id)); });
    const int32_t watched = *pool.allocate();
    const int32_t other = *pool.allocate();
    pool.watch(watched, true);
    pool.share(other);
    pool.share(watched);
    pool.share(watched);
    pool.release(watched);
    pool.release(watched);
    pool.release(watched);
    EXPECT_EQ(heard, (std::vector<std::pair<int32_t, int32_t>>{{watched, 2}, {watched, 1}}));
    EXPECT_EQ(*pool.allocate(), watched);
    pool.share(watched);
    EXPECT_EQ(heard.size(), 2U) << "a freed id is not watched any more";
}

TEST(BlockPoolDeathTest, WrongUseEndsTheProcess) {
    BlockPool pool(2);
    const int32_t id = *pool.allocate();
    pool.release(id);
    EXPECT_DEATH(pool.release(id), "released");
    EXPECT_DEATH(pool.share(id), "shared");
    EXPECT_DEATH(pool.release(7), "outside the pool");
    std::vector<int32_t> table;
    EXPECT_DEATH(pool.allocate(3, table), "more blocks");
}

TEST(BlockPool, CountsStayRightOverManyRandomMoves) {
    constexpr uint64_t kSeed = 20240917;
    SCOPED_TRACE(testing::Message() << "seed " << kSeed);
    SeededRandom random(kSeed);
    BlockPool pool(17);
    std::vector<int32_t> owned;  // one entry an owner
    for (int step = 0; step < 20000; ++step) {
        const int64_t move = random.below(3);
        if (move == 0) {
            const bool had_one = pool.free_count() > 0;
            const auto id = pool.allocate();
            ASSERT_EQ(id.has_value(), had_one);
            if (id) {
                ASSERT_EQ(std::count(owned.begin(), owned.end(), *id), 0);
                owned.push_back(*id);
            }
        } else if (!owned.empty()) {
            const auto at = owned.begin() + random.below(static_cast<int64_t>(owned.size()));
            if (move == 1) {
                pool.share(*at);
                owned.push_back(*at);
            } else {
                pool.release(*at);
                owned.erase(at);
            }
        }
        const std::set<int32_t> used(owned.begin(), owned.end());
        ASSERT_EQ(pool.used_count(), static_cast<int32_t>(used.size()));
        ASSERT_EQ(pool.used_count() + pool.free_count(), pool.count());
    }
}

}  // namespace
}  // namespace di
