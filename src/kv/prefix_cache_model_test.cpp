// The prefix cache against its definition in plain words: a list of blocks that is searched from end to end.
#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "kv/prefix_cache.h"

namespace di {
namespace {

using Chain = std::vector<PrefixKey>;

struct SlowBlock {
    Chain chain;  // keys up to and with it
    int32_t block = -1;
    int32_t slot = -1;
    int64_t used = 0;
    bool is_dense = false;
};

class SlowCache {
  public:
    SlowCache(BlockPool& blocks, BlockPool& slots, int32_t snapshots_max)
        : blocks_(blocks), slots_(slots), snapshots_max_(snapshots_max) {}

    PrefixMatch match(const Chain& keys) {
        PrefixMatch match;
        for (size_t count = 1; count <= keys.size(); ++count) {
            if (const SlowBlock* entry = find(prefix(keys, count))) {
                match.known_block_count = static_cast<int32_t>(count);
                match.block_count = entry->slot >= 0 ? static_cast<int32_t>(count) : match.block_count;
            }
        }
        for (int32_t count = match.block_count; count >= 1; --count) {
            SlowBlock* entry = find(prefix(keys, static_cast<size_t>(count)));
            entry->used = ++time_;
            match.blocks.insert(match.blocks.begin(), entry->block);
            match.snapshot_slot = count == match.block_count ? entry->slot : match.snapshot_slot;
        }
        for (const int32_t block : match.blocks) {
            blocks_.share(block);
        }
        if (match.snapshot_slot >= 0) {
            slots_.share(match.snapshot_slot);
        }
        return match;
    }

    void insert(const Chain& keys, int32_t block, int32_t slot) {
        if (keys.size() > 1 && find(prefix(keys, keys.size() - 1)) == nullptr) {
            if (slot >= 0) {
                slots_.release(slot);
            }
            return;
        }
        SlowBlock* entry = find(keys);
        if (entry == nullptr) {
            entries_.push_back({.chain = keys, .block = block});
            entry = &entries_.back();
            blocks_.share(block);
        } else if (entry->block != block && blocks_.owner_count(entry->block) == 1) {
            blocks_.release(entry->block);
            blocks_.share(block);
            entry->block = block;
        }
        if (slot >= 0 && (entry->slot >= 0 || snapshots_max_ == 0)) {
            slots_.release(slot);
        } else if (slot >= 0) {
            entry->slot = slot;
        }
        entry->used = ++time_;
        for (int64_t power = 1; power <= static_cast<int64_t>(keys.size()); power *= 2) {
            const int64_t count = static_cast<int64_t>(keys.size()) - 17 * power;
            if (count > 0 && count % power == 0 && count / power % 2 == 1) {
                find(prefix(keys, static_cast<size_t>(count)))->is_dense = true;
            }
        }
        if (snapshot_count() > snapshots_max_) {
            drop_snapshot(false);
        }
    }

    bool evict_blocks(int64_t wanted) {
        if (blocks_.free_count() + evictable_blocks() < wanted) {
            return false;
        }
        while (blocks_.free_count() < wanted) {
            SlowBlock* oldest = nullptr;
            for (SlowBlock& entry : entries_) {
                if (children(entry) == 0 && blocks_.owner_count(entry.block) == 1 && (!oldest || entry.used < oldest->used)) {
                    oldest = &entry;
                }
            }
            remove(*oldest);
        }
        return true;
    }

    bool evict_snapshots(int64_t wanted) {
        if (slots_.free_count() + snapshot_count() < wanted) {
            return false;
        }
        while (slots_.free_count() < wanted && drop_snapshot(true)) {
        }
        return slots_.free_count() >= wanted;
    }

    [[nodiscard]] int64_t evictable_blocks() const {
        return std::count_if(entries_.begin(), entries_.end(), [&](const SlowBlock& entry) {
            return std::none_of(entries_.begin(), entries_.end(), [&](const SlowBlock& other) {
                return blocks_.owner_count(other.block) > 1 && other.chain.size() >= entry.chain.size() &&
                       std::equal(entry.chain.begin(), entry.chain.end(), other.chain.begin());
            });
        });
    }
    [[nodiscard]] int64_t snapshot_count() const {
        return std::count_if(entries_.begin(), entries_.end(), [](const SlowBlock& entry) { return entry.slot >= 0; });
    }
    [[nodiscard]] int64_t block_count() const { return static_cast<int64_t>(entries_.size()); }

  private:
    static Chain prefix(const Chain& keys, size_t count) { return {keys.begin(), keys.begin() + static_cast<int64_t>(count)}; }
    SlowBlock* find(const Chain& chain) {
        const auto found =
            std::find_if(entries_.begin(), entries_.end(), [&](const SlowBlock& entry) { return entry.chain == chain; });
        return found == entries_.end() ? nullptr : &*found;
    }
    [[nodiscard]] int64_t children(const SlowBlock& parent) const {
        return std::count_if(entries_.begin(), entries_.end(), [&](const SlowBlock& entry) {
            return entry.chain.size() == parent.chain.size() + 1 &&
                   std::equal(parent.chain.begin(), parent.chain.end(), entry.chain.begin());
        });
    }
    void remove(const SlowBlock& entry) {
        const SlowBlock removed = entry;
        blocks_.release(removed.block);
        if (removed.slot >= 0) {
            slots_.release(removed.slot);
        }
        entries_.erase(entries_.begin() + (&entry - entries_.data()));
        if (removed.chain.size() > 1) {
            SlowBlock* parent = find(prefix(removed.chain, removed.chain.size() - 1));
            parent->used = std::max(parent->used, removed.used);
            parent->is_dense = parent->is_dense && children(*parent) > 0;
        }
    }
    bool drop_snapshot(bool only_free) {
        SlowBlock* best = nullptr;
        std::pair<int, int64_t> best_rank;
        for (SlowBlock& entry : entries_) {
            if (entry.slot < 0 || (only_free && slots_.owner_count(entry.slot) > 1)) {
                continue;
            }
            const std::pair<int, int64_t> rank{children(entry) != 1 ? 2 : entry.is_dense ? 0 : 1, entry.used};
            if (best == nullptr || rank < best_rank) {
                best = &entry;
                best_rank = rank;
            }
        }
        if (best != nullptr) {
            slots_.release(best->slot);
            best->slot = -1;
        }
        return best != nullptr;
    }

    BlockPool& blocks_;
    BlockPool& slots_;
    int32_t snapshots_max_;
    std::vector<SlowBlock> entries_;
    int64_t time_ = 0;
};

// One cache with its pools and the sequences that run on it. Equal operations on two of these give equal ids.
template <typename Cache>
struct World {
    struct Sequence {
        Chain keys;  // what it will run
        std::vector<int32_t> blocks;
        int32_t copying = -1;
    };
    World(int32_t block_count, int32_t slot_count) : blocks(block_count), slots(slot_count) {}

    BlockPool blocks;
    BlockPool slots;
    std::vector<Sequence> sequences;

    void start(Cache& cache, const Chain& keys) {
        PrefixMatch match = cache.match(keys);
        sequences.push_back({keys, std::move(match.blocks), match.snapshot_slot});
    }
    // The next block of a sequence, if there is room for it.
    void grow(Cache& cache, size_t index, bool wants_snapshot) {
        Sequence& sequence = sequences[index];
        if (sequence.blocks.size() == sequence.keys.size() || !cache.evict_blocks(1)) {
            return;
        }
        sequence.blocks.push_back(*blocks.allocate());
        const bool snapshot = wants_snapshot && cache.evict_snapshots(1);
        const Chain keys(sequence.keys.begin(), sequence.keys.begin() + static_cast<int64_t>(sequence.blocks.size()));
        cache.insert(keys, sequence.blocks.back(), snapshot ? *slots.allocate() : -1);
    }
    void end_copy(size_t index) {
        if (sequences[index].copying >= 0) {
            slots.release(sequences[index].copying);
            sequences[index].copying = -1;
        }
    }
    void leave(size_t index) {
        end_copy(index);
        blocks.release_all(sequences[index].blocks);
        sequences.erase(sequences.begin() + static_cast<int64_t>(index));
    }
};

Chain random_chain(SeededRandom& random) {
    Chain keys;
    const int64_t length = 1 + random.below(60);
    uint64_t path = static_cast<uint64_t>(random.below(2));
    for (int64_t i = 0; i < length; ++i) {
        // Few forks, so that chains are long and shared.
        path = path * 31 + static_cast<uint64_t>(i % 9 == 0 ? random.below(2) : 0) + 1;
        keys.push_back({.low = path * 0x9E3779B97F4A7C15ULL, .high = static_cast<uint64_t>(i)});
    }
    return keys;
}

TEST(PrefixCacheModel, AgreesWithTheDefinitionOverRandomOperations) {
    constexpr uint64_t kSeed = 4711;
    constexpr int kOperations = 100000;
    SCOPED_TRACE(testing::Message() << "seed " << kSeed);
    SeededRandom random(kSeed);
    World<PrefixCache> fast(90, 24);
    World<SlowCache> slow(90, 24);
    PrefixCache fast_cache(fast.blocks, fast.slots, {.snapshots_max = 20});
    SlowCache slow_cache(slow.blocks, slow.slots, 20);
    int hits = 0;
    for (int step = 0; step < kOperations; ++step) {
        const int64_t move = random.below(20);
        const size_t running = fast.sequences.size();
        const auto index = static_cast<size_t>(random.below(static_cast<int64_t>(std::max<size_t>(running, 1))));
        if (running == 0 || (move == 0 && running < 5)) {
            const Chain keys = random_chain(random);
            const int32_t usable = fast_cache.peek(keys);
            fast.start(fast_cache, keys);
            ASSERT_EQ(fast.sequences.back().blocks.size(), static_cast<size_t>(usable)) << "step " << step;
            hits += usable > 0 ? 1 : 0;
            slow.start(slow_cache, keys);
            ASSERT_EQ(fast.sequences.back().blocks, slow.sequences.back().blocks) << "step " << step;
            ASSERT_EQ(fast.sequences.back().copying, slow.sequences.back().copying) << "step " << step;
        } else if (move == 1) {
            fast.leave(index);
            slow.leave(index);
        } else if (move == 2) {
            const int64_t wanted = random.below(30);
            ASSERT_EQ(fast_cache.evict_blocks(wanted), slow_cache.evict_blocks(wanted)) << "step " << step;
        } else if (move == 3) {
            const int64_t wanted = random.below(8);
            ASSERT_EQ(fast_cache.evict_snapshots(wanted), slow_cache.evict_snapshots(wanted)) << "step " << step;
        } else if (move == 4) {
            fast.end_copy(index);
            slow.end_copy(index);
        } else {
            const bool wants_snapshot = random.below(4) != 0;
            fast.grow(fast_cache, index, wants_snapshot);
            slow.grow(slow_cache, index, wants_snapshot);
        }
        ASSERT_EQ(fast_cache.block_count(), slow_cache.block_count()) << "step " << step;
        ASSERT_EQ(fast_cache.snapshot_count(), slow_cache.snapshot_count()) << "step " << step;
        ASSERT_EQ(fast.blocks.free_count(), slow.blocks.free_count()) << "step " << step;
        ASSERT_EQ(fast.slots.free_count(), slow.slots.free_count()) << "step " << step;
        if (step % 16 == 0) {
            ASSERT_EQ(fast_cache.evictable_blocks(), slow_cache.evictable_blocks()) << "step " << step;
        }
    }
    EXPECT_GT(hits, 1000) << "the operations hardly ever met a known prefix";
    while (!fast.sequences.empty()) {
        fast.leave(0);
    }
    EXPECT_EQ(fast_cache.evictable_blocks(), fast_cache.block_count());
    fast_cache.clear();
    EXPECT_EQ(fast.blocks.free_count(), fast.blocks.count());
    EXPECT_EQ(fast.slots.free_count(), fast.slots.count());
}

}  // namespace
}  // namespace di
