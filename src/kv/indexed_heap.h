#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace di {

// Small integers by rank, the lowest on top; each at most once, and its rank can change. Ranks must differ, so that the order
// is the same everywhere. O(log n) a change.
class IndexedHeap {
  public:
    using Rank = std::pair<int32_t, uint64_t>;

    [[nodiscard]] bool empty() const { return entries_.empty(); }
    [[nodiscard]] int64_t size() const { return static_cast<int64_t>(entries_.size()); }
    [[nodiscard]] int32_t top() const {
        DI_CHECK(!empty(), "the top of an empty heap");
        return entries_.front().id;
    }
    [[nodiscard]] bool has(int32_t id) const {
        return static_cast<size_t>(id) < places_.size() && places_[static_cast<size_t>(id)] >= 0;
    }

    // Adds `id`, or changes its rank.
    void set(int32_t id, Rank rank) {
        if (static_cast<size_t>(id) >= places_.size()) {
            places_.resize(static_cast<size_t>(id) + 1, -1);
        }
        if (!has(id)) {
            places_[static_cast<size_t>(id)] = static_cast<int32_t>(entries_.size());
            entries_.push_back({rank, id});
        } else {
            entries_[static_cast<size_t>(places_[static_cast<size_t>(id)])].rank = rank;
        }
        settle(static_cast<size_t>(places_[static_cast<size_t>(id)]));
    }
    // Nothing happens when it is not there.
    void erase(int32_t id) {
        if (!has(id)) {
            return;
        }
        const auto place = static_cast<size_t>(places_[static_cast<size_t>(id)]);
        put(entries_.back(), place);
        entries_.pop_back();
        places_[static_cast<size_t>(id)] = -1;
        if (place < entries_.size()) {
            settle(place);
        }
    }

  private:
    struct Entry {
        Rank rank;
        int32_t id = 0;
    };
    void put(const Entry& entry, size_t place) {
        entries_[place] = entry;
        places_[static_cast<size_t>(entry.id)] = static_cast<int32_t>(place);
    }
    // Moves the entry at `place` up or down to where it belongs.
    void settle(size_t place) {
        const Entry entry = entries_[place];
        while (place > 0 && entry.rank < entries_[(place - 1) / 2].rank) {
            put(entries_[(place - 1) / 2], place);
            place = (place - 1) / 2;
        }
        while (2 * place + 1 < entries_.size()) {
            size_t child = 2 * place + 1;
            if (child + 1 < entries_.size() && entries_[child + 1].rank < entries_[child].rank) {
                ++child;
            }
            if (entry.rank < entries_[child].rank) {
                break;
            }
            put(entries_[child], place);
            place = child;
        }
        put(entry, place);
    }

    std::vector<Entry> entries_;
    std::vector<int32_t> places_;  // by id; -1 = not there
};

}  // namespace di
