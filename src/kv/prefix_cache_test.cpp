#include "kv/prefix_cache.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace di {
namespace {

std::span<const PrefixKey> first(const std::vector<PrefixKey>& keys, size_t count) { return std::span(keys).first(count); }

// Keys of a branch: block i of branch `id` from `fork` on, of `parent` before.
std::vector<PrefixKey> branch(uint64_t id, size_t length, const std::vector<PrefixKey>& parent = {}, size_t fork = 0) {
    std::vector<PrefixKey> keys(parent.begin(), parent.begin() + static_cast<int64_t>(fork));
    for (size_t i = fork; i < length; ++i) {
        keys.push_back({.low = (id << 32 | i) * 0x9E3779B97F4A7C15ULL, .high = id});
    }
    return keys;
}

struct Pools {
    explicit Pools(int32_t block_count = 64, int32_t slot_count = 64, int32_t snapshots_max = 1000)
        : blocks(block_count), slots(slot_count), cache(blocks, slots, {.snapshots_max = snapshots_max}) {}

    // A sequence runs blocks [from, keys.size()) with a snapshot at the end of those `has_snapshot` says, and leaves.
    template <typename Predicate>
    void run(const std::vector<PrefixKey>& keys, size_t from, Predicate has_snapshot) {
        for (size_t count = from + 1; count <= keys.size(); ++count) {
            const int32_t block = *blocks.allocate();
            cache.insert(first(keys, count), block, has_snapshot(count) ? *slots.allocate() : -1);
            blocks.release(block);
        }
    }
    void run(const std::vector<PrefixKey>& keys, size_t from = 0) {
        run(keys, from, [](size_t) { return true; });
    }
    void give_back(PrefixMatch& match) {
        blocks.release_all(match.blocks);
        if (match.snapshot_slot >= 0) {
            slots.release(match.snapshot_slot);
        }
    }

    BlockPool blocks;
    BlockPool slots;
    PrefixCache cache;
};

TEST(PrefixCache, GivesTheLongestPrefixWithASnapshot) {
    Pools pools;
    const std::vector<PrefixKey> keys = branch(1, 6);
    pools.run(keys, 0, [](size_t count) { return count == 2 || count == 4; });
    PrefixMatch match = pools.cache.match(keys);
    EXPECT_EQ(match.block_count, 4);
    EXPECT_EQ(match.known_block_count, 6);
    EXPECT_EQ(match.blocks.size(), 4U);
    EXPECT_EQ(pools.blocks.owner_count(match.blocks[0]), 2);
    EXPECT_EQ(pools.slots.owner_count(match.snapshot_slot), 2);
    pools.give_back(match);
    EXPECT_EQ(pools.cache.peek(first(keys, 3)), 2);
    EXPECT_EQ(pools.cache.peek(first(keys, 1)), 0);
    EXPECT_EQ(pools.cache.peek(branch(2, 6, keys, 4)), 4);
    EXPECT_EQ(pools.cache.peek(branch(2, 6)), 0);
    EXPECT_EQ(pools.cache.peek({}), 0);
    EXPECT_EQ(pools.cache.match({}).block_count, 0);
    EXPECT_TRUE(pools.cache.needs_snapshot(keys));
    EXPECT_FALSE(pools.cache.needs_snapshot(first(keys, 4)));
    EXPECT_TRUE(pools.cache.needs_snapshot(branch(2, 1)));
}

TEST(PrefixCache, TakesASnapshotOverOrReleasesIt) {
    Pools pools;
    const std::vector<PrefixKey> keys = branch(1, 3);
    const int32_t free_before = pools.slots.free_count();
    pools.run(keys, 0, [](size_t count) { return count == 1; });
    const int32_t block = pools.cache.match(first(keys, 1)).blocks[0];
    pools.slots.release(0);
    pools.cache.insert(first(keys, 1), block, *pools.slots.allocate());  // has one
    EXPECT_EQ(pools.slots.free_count(), free_before - 1);
    const std::vector<PrefixKey> orphan = branch(9, 2);
    const int32_t lonely = *pools.blocks.allocate();
    pools.cache.insert(orphan, lonely, *pools.slots.allocate());  // its parent is not known
    EXPECT_EQ(pools.slots.free_count(), free_before - 1);
    EXPECT_EQ(pools.blocks.owner_count(lonely), 1);
    EXPECT_EQ(pools.cache.block_count(), 3);
    pools.blocks.release(lonely);
    pools.blocks.release(block);
}

TEST(PrefixCache, CallersCopyReplacesOneThatNobodyUses) {
    Pools pools;
    const std::vector<PrefixKey> keys = branch(1, 1);
    pools.run(keys);
    const int32_t mine = *pools.blocks.allocate();
    pools.cache.insert(keys, mine, -1);
    EXPECT_EQ(pools.blocks.used_count(), 1);
    EXPECT_EQ(pools.blocks.owner_count(mine), 2);
    const int32_t other = *pools.blocks.allocate();
    pools.cache.insert(keys, other, -1);  // `mine` is in use, so it stays
    EXPECT_EQ(pools.blocks.owner_count(other), 1);
    pools.blocks.release(other);
    pools.blocks.release(mine);
}

TEST(PrefixCache, EvictsTheLongestUnusedLeafFirst) {
    Pools pools(6);
    const std::vector<PrefixKey> a = branch(1, 3);
    const std::vector<PrefixKey> b = branch(2, 3);
    pools.run(a);
    pools.run(b);
    PrefixMatch used = pools.cache.match(a);
    pools.give_back(used);
    EXPECT_EQ(pools.cache.evictable_blocks(), 6);
    EXPECT_TRUE(pools.cache.evict_blocks(2));
    EXPECT_EQ(pools.cache.peek(a), 3);
    EXPECT_EQ(pools.cache.peek(b), 1);
    EXPECT_EQ(pools.cache.snapshot_count(), 4);
    EXPECT_TRUE(pools.cache.evict_blocks(3));
    EXPECT_EQ(pools.cache.peek(b), 0);
    EXPECT_EQ(pools.cache.peek(a), 3);
}

TEST(PrefixCache, KeepsWhatSomebodyUsesAndAllInFrontOfIt) {
    Pools pools(8);
    const std::vector<PrefixKey> trunk = branch(1, 4);
    pools.run(trunk);
    PrefixMatch half = pools.cache.match(first(trunk, 2));
    EXPECT_EQ(pools.cache.evictable_blocks(), 2);
    EXPECT_FALSE(pools.cache.evict_blocks(7));
    EXPECT_EQ(pools.cache.block_count(), 4) << "what cannot be had must cost nothing";
    EXPECT_TRUE(pools.cache.evict_blocks(6));
    EXPECT_EQ(pools.cache.block_count(), 2);
    pools.give_back(half);
    EXPECT_EQ(pools.cache.evictable_blocks(), 2);
    EXPECT_TRUE(pools.cache.evict_blocks(8));
}

TEST(PrefixCache, BlockBehindADuplicateHoldsTheOneInFront) {
    Pools pools(8);
    const std::vector<PrefixKey> keys = branch(1, 2);
    const int32_t theirs = *pools.blocks.allocate();
    pools.cache.insert(first(keys, 1), theirs, -1);
    const int32_t mine = *pools.blocks.allocate();
    pools.cache.insert(first(keys, 1), mine, -1);
    const int32_t next = *pools.blocks.allocate();
    pools.cache.insert(keys, next, -1);
    pools.blocks.release(theirs);
    EXPECT_EQ(pools.cache.evictable_blocks(), 0) << "a child in use stands on it";
    pools.blocks.release(next);
    EXPECT_EQ(pools.cache.evictable_blocks(), 2);
    pools.blocks.release(mine);
}

TEST(PrefixCache, SnapshotsAtEndsAndBranchingPointsGoLast) {
    Pools pools;
    const std::vector<PrefixKey> a = branch(1, 8);
    const std::vector<PrefixKey> b = branch(2, 8, a, 5);
    pools.run(a);
    pools.run(b, 5);
    EXPECT_TRUE(pools.cache.evict_snapshots(64 - 3));
    EXPECT_EQ(pools.cache.snapshot_count(), 3);
    EXPECT_EQ(pools.cache.peek(a), 8);
    EXPECT_EQ(pools.cache.peek(b), 8);
    EXPECT_EQ(pools.cache.peek(branch(3, 8, a, 6)), 5);
    // Of ends, the longest unused one.
    PrefixMatch used = pools.cache.match(a);
    pools.give_back(used);
    EXPECT_TRUE(pools.cache.evict_snapshots(64 - 2));
    EXPECT_EQ(pools.cache.peek(a), 8);
    EXPECT_EQ(pools.cache.peek(b), 5);
}

TEST(PrefixCache, SnapshotBeingCopiedIsNotGivenUp) {
    Pools pools(8, 2);
    const std::vector<PrefixKey> keys = branch(1, 2);
    pools.run(keys);
    PrefixMatch match = pools.cache.match(first(keys, 1));
    EXPECT_TRUE(pools.cache.evict_snapshots(1));
    EXPECT_EQ(pools.cache.peek(first(keys, 1)), 1);
    EXPECT_FALSE(pools.cache.evict_snapshots(2));
    pools.give_back(match);
    EXPECT_TRUE(pools.cache.evict_snapshots(2));
    EXPECT_FALSE(pools.cache.evict_snapshots(3));
}

TEST(PrefixCache, KeepsNoMoreSnapshotsThanAllowed) {
    Pools pools(64, 64, 3);
    pools.run(branch(1, 20));
    EXPECT_EQ(pools.cache.snapshot_count(), 3);
    EXPECT_EQ(pools.slots.used_count(), 3);
    Pools none(64, 64, 0);
    none.run(branch(1, 2));
    EXPECT_EQ(none.slots.used_count(), 0);
    EXPECT_FALSE(none.cache.needs_snapshot(branch(1, 1)));
}

// A branch grows to 4096 blocks with slots for 9 * log2 of it: whoever goes back d blocks computes at most d / 8 again.
TEST(PrefixCache, ThinnedSnapshotsCostAnEighthOfTheWayBack) {
    constexpr int32_t kSlots = 9 * 12 + 1;
    Pools pools(4096, kSlots);
    const std::vector<PrefixKey> keys = branch(1, 4096);
    for (size_t count = 1; count <= keys.size(); ++count) {
        const int32_t block = *pools.blocks.allocate();
        ASSERT_TRUE(pools.cache.evict_snapshots(1));
        pools.cache.insert(first(keys, count), block, *pools.slots.allocate());
        pools.blocks.release(block);
        if (count % 97 != 0 && count != keys.size()) {
            continue;
        }
        for (size_t back = 0; back < count; ++back) {
            const auto usable = static_cast<size_t>(pools.cache.peek(first(keys, count - back)));
            ASSERT_LE(count - back - usable, back / 8) << count << " blocks, " << back << " back";
        }
    }
    EXPECT_LE(pools.cache.snapshot_count(), kSlots);
}

TEST(PrefixCache, GivesEverythingBack) {
    BlockPool blocks(64);
    BlockPool slots(64);
    {
        PrefixCache cache(blocks, slots, {.snapshots_max = 64});
        const std::vector<PrefixKey> keys = branch(1, 3);
        std::vector<int32_t> table;
        for (size_t count = 1; count <= 3; ++count) {
            table.push_back(*blocks.allocate());
            cache.insert(first(keys, count), table.back(), *slots.allocate());
        }
        cache.clear();
        EXPECT_EQ(cache.block_count(), 0);
        EXPECT_EQ(cache.evictable_blocks(), 0);
        EXPECT_EQ(blocks.used_count(), 3) << "of the sequence that still runs";
        cache.insert(first(keys, 1), table[0], *slots.allocate());
        blocks.release_all(table);
        EXPECT_EQ(cache.evictable_blocks(), 1);
    }
    EXPECT_EQ(blocks.used_count(), 0);
    EXPECT_EQ(slots.used_count(), 0);
}

// Conversations that share beginnings, each turn the history and some new tokens: what two ever had in common is known.
TEST(PrefixCache, ConversationsReuseAllThatWasEverSeen) {
    constexpr uint64_t kSeed = 20261130;
    SCOPED_TRACE(testing::Message() << "seed " << kSeed);
    constexpr int64_t kBlockTokens = 128;
    SeededRandom random(kSeed);
    Pools pools(20000, 20000, 20000);
    const PrefixKey root = prefix_root("test", "");
    std::vector<std::vector<int32_t>> seen;
    const auto extend = [&](std::vector<int32_t>& tokens, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
            tokens.push_back(static_cast<int32_t>(random.below(3)));
        }
    };
    int64_t hits = 0;
    for (int conversation = 0; conversation < 200; ++conversation) {
        std::vector<int32_t> tokens;
        if (!seen.empty() && random.below(3) != 0) {
            tokens = seen[static_cast<size_t>(random.below(static_cast<int64_t>(seen.size())))];
            tokens.resize(static_cast<size_t>(random.below(static_cast<int64_t>(tokens.size()) + 1)));
        }
        for (int64_t turn = random.below(4); turn >= 0; --turn) {
            extend(tokens, 1 + random.below(700));
            std::vector<PrefixKey> keys;
            extend_prefix_keys(root, tokens, {}, kBlockTokens, keys);
            int64_t best = 0;
            for (const std::vector<int32_t>& other : seen) {
                const int64_t common =
                    std::mismatch(tokens.begin(), tokens.end(), other.begin(), other.end()).first - tokens.begin();
                best = std::max(best, common / kBlockTokens);
            }
            PrefixMatch match = pools.cache.match(keys);
            ASSERT_EQ(match.block_count, best);
            hits += best;
            for (size_t count = match.blocks.size() + 1; count <= keys.size(); ++count) {
                match.blocks.push_back(*pools.blocks.allocate());
                pools.cache.insert(first(keys, count), match.blocks.back(), *pools.slots.allocate());
            }
            pools.give_back(match);
            seen.push_back(tokens);
        }
    }
    EXPECT_GT(hits, 1000);
    pools.cache.clear();
    EXPECT_EQ(pools.blocks.used_count(), 0);
    EXPECT_EQ(pools.slots.used_count(), 0);
}

}  // namespace
}  // namespace di
