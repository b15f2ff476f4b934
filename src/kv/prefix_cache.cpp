#include "kv/prefix_cache.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace di {

namespace {

// Classes of snapshots in the order in which they are given up.
enum class SnapshotClass : int32_t { kDense = 0, kInside = 1, kEnd = 2 };

// A snapshot at a block that 2^z divides stays while the newest end is nearer than 17 * 2^z blocks. So between d and 2d
// blocks from the end one stays in at most d / 8 blocks; 16 would do for most d, but not just before a spacing doubles.
constexpr int64_t kDenseDistance = 17;

}  // namespace

PrefixCache::PrefixCache(BlockPool& blocks, BlockPool& slots, PrefixCacheOptions options)
    : blocks_(blocks), slots_(slots), options_(options) {
    node_of_block_.assign(static_cast<size_t>(blocks.count()), -1);
    by_key_.reserve(static_cast<size_t>(blocks.count()));
    blocks_.set_watcher([this](int32_t block) {
        const int32_t id = node_of_block_[static_cast<size_t>(block)];
        DI_CHECK(id >= 0, "a block outside the prefix cache is watched");
        set_busy(id, blocks_.owner_count(block) > 1);
    });
}

PrefixCache::~PrefixCache() {
    clear();
    blocks_.set_watcher({});
}

int32_t PrefixCache::find(const PrefixKey& key) const {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? -1 : found->second;
}

// A known block's parents are known, so the known ones are the first ones.
int32_t PrefixCache::known_blocks(std::span<const PrefixKey> keys) const {
    const auto end = std::partition_point(keys.begin(), keys.end(), [&](const PrefixKey& key) { return find(key) >= 0; });
    return static_cast<int32_t>(end - keys.begin());
}

// From `id` towards the first block; -1: none.
int32_t PrefixCache::nearest_snapshot(int32_t id) const {
    while (id >= 0 && node(id).snapshot_slot < 0) {
        id = node(id).parent;
    }
    return id;
}

int32_t PrefixCache::peek(std::span<const PrefixKey> keys) const {
    const int32_t known = known_blocks(keys);
    const int32_t id = known == 0 ? -1 : nearest_snapshot(find(keys[static_cast<size_t>(known) - 1]));
    return id < 0 ? 0 : node(id).depth;
}

PrefixMatch PrefixCache::match(std::span<const PrefixKey> keys) {
    PrefixMatch match;
    match.known_block_count = known_blocks(keys);
    if (match.known_block_count == 0) {
        return match;
    }
    int32_t id = nearest_snapshot(find(keys[static_cast<size_t>(match.known_block_count) - 1]));
    if (id < 0) {
        return match;
    }
    match.block_count = node(id).depth;
    match.snapshot_slot = node(id).snapshot_slot;
    slots_.share(match.snapshot_slot);
    match.blocks.resize(static_cast<size_t>(match.block_count));
    for (; id >= 0; id = node(id).parent) {
        match.blocks[static_cast<size_t>(node(id).depth) - 1] = node(id).block;
        touch(id);
    }
    for (const int32_t block : match.blocks) {
        blocks_.share(block);
    }
    return match;
}

bool PrefixCache::needs_snapshot(std::span<const PrefixKey> keys) const {
    const int32_t id = keys.empty() ? -1 : find(keys.back());
    return options_.snapshots_max > 0 && (id < 0 || node(id).snapshot_slot < 0);
}

void PrefixCache::insert(std::span<const PrefixKey> keys, int32_t block, int32_t snapshot_slot) {
    DI_CHECK(!keys.empty(), "a block without a key");
    int32_t id = find(keys.back());
    const int32_t parent = keys.size() == 1 ? -1 : find(keys[keys.size() - 2]);
    if (id < 0 && (keys.size() == 1 || parent >= 0)) {
        id = add_node(keys, parent, block);
    } else if (id >= 0) {
        replace_block(id, block);
    }
    const bool keeps_snapshot = snapshot_slot >= 0 && id >= 0 && node(id).snapshot_slot < 0 && options_.snapshots_max > 0;
    if (snapshot_slot >= 0 && !keeps_snapshot) {
        slots_.release(snapshot_slot);
    }
    if (id < 0) {
        return;
    }
    if (keeps_snapshot) {
        node(id).snapshot_slot = snapshot_slot;
    }
    touch(id);
    thin_behind(keys);
    if (snapshot_count() > options_.snapshots_max) {
        drop_snapshot(snapshots_.top());
    }
}

int32_t PrefixCache::add_node(std::span<const PrefixKey> keys, int32_t parent, int32_t block) {
    if (free_nodes_.empty()) {
        free_nodes_.push_back(static_cast<int32_t>(nodes_.size()));
        nodes_.emplace_back();
    }
    const int32_t id = free_nodes_.back();
    free_nodes_.pop_back();
    DI_CHECK(node_of_block_[static_cast<size_t>(block)] < 0, "a block stands for two prefixes");
    node(id) = {.key = keys.back(), .parent = parent, .depth = static_cast<int32_t>(keys.size()), .block = block};
    by_key_.emplace(keys.back(), id);
    if (parent >= 0) {
        ++node(parent).child_count;
        update_ranks(parent);
    }
    node_of_block_[static_cast<size_t>(block)] = id;
    blocks_.share(block);
    blocks_.watch(block, true);
    set_busy(id, true);
    return id;
}

// The caller's copy of known content: it will live anyway, so a copy that only the cache owns is one too many.
void PrefixCache::replace_block(int32_t id, int32_t block) {
    const int32_t old = node(id).block;
    if (old == block || node(id).is_busy) {
        return;
    }
    DI_CHECK(node_of_block_[static_cast<size_t>(block)] < 0, "a block stands for two prefixes");
    node_of_block_[static_cast<size_t>(old)] = -1;
    blocks_.release(old);
    node(id).block = block;
    node_of_block_[static_cast<size_t>(block)] = id;
    blocks_.share(block);
    blocks_.watch(block, true);
    set_busy(id, true);
}

// Tells the blocks in front as far as it is news to them: a sequence owns its blocks from the first one on and takes and
// releases them in order, so that is mostly one.
void PrefixCache::set_busy(int32_t id, bool is_busy) {
    const bool was_held = is_held(node(id));
    node(id).is_busy = is_busy;
    update_ranks(id);
    bool changed = is_held(node(id)) != was_held;
    while (changed) {
        const int32_t step = was_held ? -1 : 1;
        held_count_ += step;
        id = node(id).parent;
        if (id < 0) {
            return;
        }
        const bool parent_was_held = is_held(node(id));
        node(id).held_child_count += step;
        changed = is_held(node(id)) != parent_was_held;
    }
}

void PrefixCache::touch(int32_t id) {
    node(id).used = ++time_;
    update_ranks(id);
}

// Brings both heaps up to date with the node.
void PrefixCache::update_ranks(int32_t id) {
    const Node& entry = node(id);
    if (entry.child_count == 0 && !entry.is_busy) {
        leaves_.set(id, {0, entry.used});
    } else {
        leaves_.erase(id);
    }
    if (entry.snapshot_slot >= 0) {
        const SnapshotClass rank = entry.child_count != 1 ? SnapshotClass::kEnd
                                   : entry.is_dense       ? SnapshotClass::kDense
                                                          : SnapshotClass::kInside;
        snapshots_.set(id, {static_cast<int32_t>(rank), entry.used});
    } else {
        snapshots_.erase(id);
    }
}

// The branch has grown to keys.size() blocks: a snapshot that is now kDenseDistance * 2^z blocks behind the end, at a block
// that 2^z and no higher power divides, stands too close to its neighbours. Every block has its turn once.
void PrefixCache::thin_behind(std::span<const PrefixKey> keys) {
    const auto end = static_cast<int64_t>(keys.size());
    for (int z = 0; z < std::countr_zero(keys.size()); ++z) {
        const int64_t block = end - (kDenseDistance << z);
        if (block <= 0) {
            return;
        }
        const int32_t id = find(keys[static_cast<size_t>(block) - 1]);
        DI_CHECK(id >= 0, "a block is known and one in front of it is not");
        node(id).is_dense = true;
        update_ranks(id);
    }
}

void PrefixCache::drop_snapshot(int32_t id) {
    slots_.release(node(id).snapshot_slot);
    node(id).snapshot_slot = -1;
    update_ranks(id);
}

void PrefixCache::remove_node(int32_t id) {
    const Node removed = node(id);
    DI_CHECK(removed.child_count == 0, "a block in front of another was given up");
    if (removed.snapshot_slot >= 0) {
        drop_snapshot(id);
    }
    set_busy(id, false);
    leaves_.erase(id);
    by_key_.erase(removed.key);
    node_of_block_[static_cast<size_t>(removed.block)] = -1;
    blocks_.watch(removed.block, false);
    blocks_.release(removed.block);
    free_nodes_.push_back(id);
    if (removed.parent >= 0) {
        Node& parent = node(removed.parent);
        --parent.child_count;
        // A use of a block is a use of all in front of it.
        parent.used = std::max(parent.used, removed.used);
        parent.is_dense = parent.is_dense && parent.child_count > 0;
        update_ranks(removed.parent);
    }
}

bool PrefixCache::evict_blocks(int64_t free_wanted) {
    if (blocks_.free_count() + evictable_blocks() < free_wanted) {
        return false;
    }
    while (blocks_.free_count() < free_wanted) {
        remove_node(leaves_.top());
    }
    return true;
}

bool PrefixCache::evict_snapshots(int64_t free_wanted) {
    if (slots_.free_count() + snapshot_count() < free_wanted) {
        return false;
    }
    in_use_.clear();
    while (slots_.free_count() < free_wanted && !snapshots_.empty()) {
        const int32_t id = snapshots_.top();
        if (slots_.owner_count(node(id).snapshot_slot) > 1) {
            in_use_.push_back(id);  // somebody is about to copy it: giving it up would free nothing
            snapshots_.erase(id);
        } else {
            drop_snapshot(id);
        }
    }
    for (const int32_t id : in_use_) {
        update_ranks(id);
    }
    return slots_.free_count() >= free_wanted;
}

void PrefixCache::clear() {
    // Children before their parents, whatever their age: a node goes once its last child has gone.
    for (size_t first = 0; first < nodes_.size(); ++first) {
        auto id = static_cast<int32_t>(first);
        while (id >= 0 && node(id).block >= 0 && node(id).child_count == 0 &&
               node_of_block_[static_cast<size_t>(node(id).block)] == id) {
            const int32_t parent = node(id).parent;
            remove_node(id);
            id = parent;
        }
    }
    DI_CHECK(by_key_.empty() && held_count_ == 0, "a cleared prefix cache is not empty");
}

}  // namespace di
