#include "kv/block_pool.h"

#include "base/check.h"

namespace di {

BlockPool::BlockPool(int32_t count) {
    DI_CHECK(count >= 0, "a pool cannot have fewer than no blocks");
    owners_.assign(static_cast<size_t>(count), 0);
    watched_.assign(static_cast<size_t>(count), 0);
    free_.reserve(static_cast<size_t>(count));
    for (int32_t id = count - 1; id >= 0; --id) {
        free_.push_back(id);
    }
}

std::optional<int32_t> BlockPool::allocate() {
    if (free_.empty()) {
        return std::nullopt;
    }
    const int32_t id = free_.back();
    free_.pop_back();
    DI_CHECK(owners_[static_cast<size_t>(id)] == 0, "a free block has an owner");
    owners_[static_cast<size_t>(id)] = 1;
    return id;
}

void BlockPool::allocate(int64_t ids, std::vector<int32_t>& table) {
    DI_CHECK(ids >= 0 && can_allocate(ids), "more blocks asked for than are free");
    for (int64_t i = 0; i < ids; ++i) {
        table.push_back(*allocate());
    }
}

void BlockPool::share(int32_t id) {
    DI_CHECK(owner_count(id) > 0, "a free block was shared");
    if (++owners_[static_cast<size_t>(id)] == 2) {
        tell(id);
    }
}

void BlockPool::release(int32_t id) {
    DI_CHECK(owner_count(id) > 0, "a free block was released");
    const int32_t left = --owners_[static_cast<size_t>(id)];
    if (left == 0) {
        watched_[static_cast<size_t>(id)] = 0;
        free_.push_back(id);
    } else if (left == 1) {
        tell(id);
    }
}

void BlockPool::release_all(std::vector<int32_t>& table) {
    // In reverse, so that the next owner gets the ids in the same order.
    for (auto id = table.rbegin(); id != table.rend(); ++id) {
        release(*id);
    }
    table.clear();
}

void BlockPool::watch(int32_t id, bool is_watched) {
    DI_CHECK(owner_count(id) > 0, "a free block was watched");
    watched_[static_cast<size_t>(id)] = is_watched ? 1 : 0;
}

void BlockPool::tell(int32_t id) const {
    if (watched_[static_cast<size_t>(id)] != 0 && watcher_) {
        watcher_(id);
    }
}

int32_t BlockPool::owner_count(int32_t id) const {
    DI_CHECK(id >= 0 && id < count(), "a block id outside the pool");
    return owners_[static_cast<size_t>(id)];
}

}  // namespace di
