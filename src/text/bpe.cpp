#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/check.h"
#include "text/limits.h"

namespace di {
namespace {

constexpr size_t kShardCount = 16;

uint64_t pair_key(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

// Spreads the key over the table (the finaliser of SplitMix64).
uint64_t mix(uint64_t key) {
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9ULL;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBULL;
    return key ^ (key >> 31);
}

struct StringHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

}  // namespace

// Natural text repeats its words. Shards keep threads from waiting for each other; a full shard starts again, which
// costs time and never changes a result.
struct Bpe::Cache {
    struct Shard {
        std::mutex mutex;  // guards `entries`
        std::unordered_map<std::string, std::vector<int32_t>, StringHash, std::equal_to<>> entries;
    };
    std::array<Shard, kShardCount> shards;

    Shard& shard_of(std::string_view piece) { return shards[StringHash{}(piece) >> 32 & (kShardCount - 1)]; }

    bool append(std::string_view piece, std::vector<int32_t>& ids) {
        Shard& shard = shard_of(piece);
        const std::lock_guard<std::mutex> lock(shard.mutex);
        const auto found = shard.entries.find(piece);
        if (found == shard.entries.end()) {
            return false;
        }
        ids.insert(ids.end(), found->second.begin(), found->second.end());
        return true;
    }

    void remember(std::string_view piece, std::vector<int32_t> ids) {
        Shard& shard = shard_of(piece);
        const std::lock_guard<std::mutex> lock(shard.mutex);
        if (shard.entries.size() >= kPieceCacheEntriesMax) {
            shard.entries.clear();
        }
        shard.entries.emplace(piece, std::move(ids));
    }
};

// The piece as a linked list of tokens in place: a merge swallows its right neighbour.
struct Bpe::Word {
    struct Symbol {
        int32_t id;  // -1: swallowed
        int32_t previous;
        int32_t next;  // -1: none
    };
    // A possible merge, as it was when found; out of date if the symbols changed since.
    struct Candidate {
        int32_t rank;
        int32_t position;
        int32_t merged;
    };

    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;

    static bool is_later(const Candidate& a, const Candidate& b) {
        return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
    }
};

Bpe::Bpe(Bpe&&) noexcept = default;
Bpe& Bpe::operator=(Bpe&&) noexcept = default;
Bpe::~Bpe() = default;

Bpe::Bpe(const std::array<int32_t, 256>& byte_ids, const std::vector<BpeMerge>& merges)
    : byte_ids_(byte_ids), slots_(std::bit_ceil(merges.size() * 2 + 2)), cache_(std::make_unique<Cache>()) {
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        insert(merges[rank], static_cast<int32_t>(rank));
    }
}

Status Bpe::encode(std::string_view piece, std::vector<int32_t>& ids) const {
    DI_CHECK(piece.size() <= kEncodeTextBytesMax, "a piece is part of a text of limited size");
    const bool is_cached = piece.size() <= kPieceCacheBytesMax;
    if (is_cached && cache_->append(piece, ids)) {
        return {};
    }
    Word word;
    word.symbols.reserve(piece.size());
    for (size_t i = 0; i < piece.size(); ++i) {
        const auto byte = static_cast<uint8_t>(piece[i]);
        const int32_t id = byte_ids_[byte];
        if (id < 0) {
            return fail(ErrorCode::kInvalidArgument,
                        "text holds the byte {:#04x}, which the tokenizer's vocabulary cannot express", byte);
        }
        const int32_t next = i + 1 < piece.size() ? static_cast<int32_t>(i) + 1 : -1;
        word.symbols.push_back({id, static_cast<int32_t>(i) - 1, next});
    }
    merge_all(word);
    const size_t first = ids.size();
    for (const Word::Symbol& symbol : word.symbols) {
        if (symbol.id >= 0) {
            ids.push_back(symbol.id);
        }
    }
    if (is_cached) {
        cache_->remember(piece, {ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end()});
    }
    return {};
}

void Bpe::merge_all(Word& word) const {
    const auto consider = [&](int32_t position) {
        const Word::Symbol& left = word.symbols[static_cast<size_t>(position)];
        if (left.next < 0) {
            return;
        }
        if (const Slot* slot = find(left.id, word.symbols[static_cast<size_t>(left.next)].id); slot != nullptr) {
            word.heap.push_back({slot->rank, position, slot->merged});
        }
    };
    const auto consider_and_sift = [&](int32_t position) {
        const size_t before = word.heap.size();
        consider(position);
        if (word.heap.size() > before) {
            std::push_heap(word.heap.begin(), word.heap.end(), Word::is_later);
        }
    };
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) {
        consider(static_cast<int32_t>(i));
    }
    std::make_heap(word.heap.begin(), word.heap.end(), Word::is_later);
    while (!word.heap.empty()) {
        std::pop_heap(word.heap.begin(), word.heap.end(), Word::is_later);
        const Word::Candidate candidate = word.heap.back();
        word.heap.pop_back();
        Word::Symbol& left = word.symbols[static_cast<size_t>(candidate.position)];
        if (left.id < 0 || left.next < 0) {
            continue;
        }
        Word::Symbol& right = word.symbols[static_cast<size_t>(left.next)];
        const Slot* slot = find(left.id, right.id);
        if (slot == nullptr || slot->rank != candidate.rank) {
            continue;
        }
        left.id = candidate.merged;
        left.next = right.next;
        right.id = -1;
        if (left.next >= 0) {
            word.symbols[static_cast<size_t>(left.next)].previous = candidate.position;
        }
        if (left.previous >= 0) {
            consider_and_sift(left.previous);
        }
        consider_and_sift(candidate.position);
    }
}

void Bpe::insert(const BpeMerge& merge, int32_t rank) {
    const uint64_t pair = pair_key(merge.left, merge.right);
    const size_t mask = slots_.size() - 1;
    size_t index = mix(pair) & mask;
    while (slots_[index].pair != UINT64_MAX && slots_[index].pair != pair) {
        index = (index + 1) & mask;
    }
    slots_[index] = {pair, rank, merge.merged};
}

const Bpe::Slot* Bpe::find(int32_t left, int32_t right) const {
    const uint64_t pair = pair_key(left, right);
    const size_t mask = slots_.size() - 1;
    size_t index = mix(pair) & mask;
    while (slots_[index].pair != UINT64_MAX) {
        if (slots_[index].pair == pair) {
            return &slots_[index];
        }
        index = (index + 1) & mask;
    }
    return nullptr;
}

}  // namespace di
