#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace di {

// One merge: the tokens `left` and `right`, side by side, become `merged`.
// Its rank is its index in the list; lower ranks go first.
struct BpeMerge {
    int32_t left;
    int32_t right;
    int32_t merged;
};

// Byte-pair encoding of one piece of text: start from single bytes, join the pair of the lowest rank (the leftmost
// one of equal rank) until no pair has a rank. O(n log n). Results of short pieces are remembered.
// encode() may be called from many threads.
class Bpe {
  public:
    // byte_ids: the token of each byte, -1 where the vocabulary has none. Where a pair occurs twice in `merges`, the
    // last one counts.
    Bpe(const std::array<int32_t, 256>& byte_ids, const std::vector<BpeMerge>& merges);
    Bpe(Bpe&&) noexcept;
    Bpe& operator=(Bpe&&) noexcept;
    ~Bpe();

    // Appends the ids of `piece` to `ids`. Fails on a byte that the vocabulary lacks.
    [[nodiscard]] Status encode(std::string_view piece, std::vector<int32_t>& ids) const;

  private:
    // Open addressing with linear probing; the key is the pair of ids.
    struct Slot {
        uint64_t pair = UINT64_MAX;
        int32_t rank = 0;
        int32_t merged = 0;
    };
    struct Cache;
    struct Word;

    void insert(const BpeMerge& merge, int32_t rank);
    [[nodiscard]] const Slot* find(int32_t left, int32_t right) const;
    void merge_all(Word& word) const;

    std::array<int32_t, 256> byte_ids_;
    std::vector<Slot> slots_;  // a power of two, at most half full
    std::unique_ptr<Cache> cache_;
};

}  // namespace di
