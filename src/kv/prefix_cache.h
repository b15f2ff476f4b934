#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/block_pool.h"
#include "kv/indexed_heap.h"
#include "kv/prefix_key.h"

namespace di {

struct PrefixCacheOptions {
    int32_t snapshots_max = 0;  // snapshots that the cache keeps at most; 0: none, and so no prefix is ever usable
};

struct PrefixMatch {
    int32_t block_count = 0;        // usable: a snapshot stands at its end
    int32_t known_block_count = 0;  // in the cache, with or without a snapshot: why not more was usable
    std::vector<int32_t> blocks;    // [block_count] ids, each shared once for the caller
    int32_t snapshot_slot = -1;     // shared once for the caller, to be released after copying; -1: block_count is 0
};

// Which blocks hold which prefix, and at whose ends a copy of the sequence's state (a snapshot, in a slot of its own)
// lets another sequence go on. Pure bookkeeping over two pools, which must outlive it; it is the watcher of `blocks`. It
// owns one reference of each block and slot it keeps. Keys are those of prefix_key.h: a chain from the first block on.
//
// Blocks are given up one leaf at a time, the longest unused first, and never one that somebody else owns, nor one in
// front of it; a snapshot goes with its block. Snapshots alone are given up in three classes, the longest unused first in
// each: those closer together than an eighth of their distance to the newest end of their branch (spacing 1 block, 2, 4
// ...; what stays is at most 9 log2(n) of n blocks); then all others inside a branch; then ends and branching points.
// One thread.
class PrefixCache {
  public:
    PrefixCache(BlockPool& blocks, BlockPool& slots, PrefixCacheOptions options);
    ~PrefixCache();
    PrefixCache(const PrefixCache&) = delete;
    PrefixCache& operator=(const PrefixCache&) = delete;

    // The longest usable prefix. What it hands out is used now, in the sense of "longest unused".
    [[nodiscard]] PrefixMatch match(std::span<const PrefixKey> keys);
    // Usable blocks, without any effect. O(log n) plus the way to the nearest snapshot.
    [[nodiscard]] int32_t peek(std::span<const PrefixKey> keys) const;
    // Whether a snapshot at the end of the last block would be news: the block is not known, or has none.
    [[nodiscard]] bool needs_snapshot(std::span<const PrefixKey> keys) const;

    // `keys` up to and with the new block. Shares `block` for the cache, unless it has one for this key that others own
    // too; a block that only the cache owns is given up for the caller's. Takes over the caller's reference of
    // `snapshot_slot` (-1: none): releases it when there is one already, or when the block in front is not known, in which
    // case nothing is kept.
    void insert(std::span<const PrefixKey> keys, int32_t block, int32_t snapshot_slot);

    // Blocks that evict_blocks could free.
    [[nodiscard]] int64_t evictable_blocks() const { return block_count() - held_count_; }
    // Gives up blocks or snapshots until the pool has `free_wanted` free ids. False: it cannot; blocks are then untouched,
    // snapshots too unless some are just being copied.
    bool evict_blocks(int64_t free_wanted);
    bool evict_snapshots(int64_t free_wanted);

    // Gives up everything.
    void clear();
    [[nodiscard]] int64_t block_count() const { return static_cast<int64_t>(by_key_.size()); }
    [[nodiscard]] int64_t snapshot_count() const { return snapshots_.size(); }

  private:
    struct Node {
        PrefixKey key;
        uint64_t used = 0;    // time of the last use; unlike any other node's
        int32_t parent = -1;  // -1: first block
        int32_t depth = 0;    // blocks up to its end
        int32_t block = -1;
        int32_t snapshot_slot = -1;
        int32_t child_count = 0;
        int32_t held_child_count = 0;  // children that are busy or lie in front of a busy one
        bool is_busy = false;          // somebody else owns the block too
        bool is_dense = false;         // a snapshot here is closer to its neighbours than its distance to the end asks for
    };
    struct KeyHash {
        size_t operator()(const PrefixKey& key) const { return static_cast<size_t>(key.low); }  // well mixed already
    };

    [[nodiscard]] Node& node(int32_t id) { return nodes_[static_cast<size_t>(id)]; }
    [[nodiscard]] const Node& node(int32_t id) const { return nodes_[static_cast<size_t>(id)]; }
    [[nodiscard]] int32_t find(const PrefixKey& key) const;
    [[nodiscard]] int32_t known_blocks(std::span<const PrefixKey> keys) const;
    [[nodiscard]] int32_t nearest_snapshot(int32_t id) const;
    [[nodiscard]] static bool is_held(const Node& node) { return node.is_busy || node.held_child_count > 0; }

    int32_t add_node(std::span<const PrefixKey> keys, int32_t parent, int32_t block);
    void remove_node(int32_t id);
    void replace_block(int32_t id, int32_t block);
    void set_busy(int32_t id, bool is_busy);
    void touch(int32_t id);
    void update_ranks(int32_t id);
    void thin_behind(std::span<const PrefixKey> keys);
    void drop_snapshot(int32_t id);

    BlockPool& blocks_;
    BlockPool& slots_;
    PrefixCacheOptions options_;
    std::vector<Node> nodes_;
    std::vector<int32_t> free_nodes_;
    std::unordered_map<PrefixKey, int32_t, KeyHash> by_key_;  // node ids; looked up, never walked
    std::vector<int32_t> node_of_block_;                      // -1: not in the cache
    IndexedHeap leaves_;                                      // nodes that can be given up now
    IndexedHeap snapshots_;                                   // nodes with a snapshot
    std::vector<int32_t> in_use_;                             // scratch of evict_snapshots
    int64_t held_count_ = 0;
    uint64_t time_ = 0;
};

}  // namespace di
