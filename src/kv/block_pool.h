#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace di {

// Hands out ids 0 .. count - 1 of equal pieces of memory: cache blocks, state slots. An id may have several owners
// (reference count); it is free again when the last one has released it. Knows nothing of what the pieces hold.
// One thread.
class BlockPool {
  public:
    explicit BlockPool(int32_t count);

    [[nodiscard]] int32_t count() const { return static_cast<int32_t>(owners_.size()); }
    [[nodiscard]] int32_t free_count() const { return static_cast<int32_t>(free_.size()); }
    [[nodiscard]] int32_t used_count() const { return count() - free_count(); }
    [[nodiscard]] bool can_allocate(int64_t ids) const { return ids <= free_count(); }

    // One id with one owner; none when all are used. The id released last comes back first: its memory is warm, and
    // memory that was never needed is never touched.
    [[nodiscard]] std::optional<int32_t> allocate();
    // Appends `ids` new ids to `table`; the pool must have them (can_allocate).
    void allocate(int64_t ids, std::vector<int32_t>& table);

    // One owner more, one less. The id must be in use.
    void share(int32_t id);
    void release(int32_t id);
    // Releases all of `table` and empties it.
    void release_all(std::vector<int32_t>& table);

    [[nodiscard]] int32_t owner_count(int32_t id) const;

    // Called when a watched id gets its second owner or is back at one: whoever keeps ids for later use learns which of them
    // it could give up. One watcher a pool; it must not change the pool from inside. An id is watched while it has an owner.
    using Watcher = std::function<void(int32_t id)>;
    void set_watcher(Watcher watcher) { watcher_ = std::move(watcher); }
    void watch(int32_t id, bool is_watched);

  private:
    void tell(int32_t id) const;

    std::vector<int32_t> owners_;   // by id; 0 = free
    std::vector<int32_t> free_;     // taken from the back
    std::vector<uint8_t> watched_;  // by id
    Watcher watcher_;
};

}  // namespace di
