#include "text/character_class.h"

#include <algorithm>
#include <array>

namespace di {
namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr std::array kCharacters = {CharacterRange{0x1, 0xD7FF}, CharacterRange{0xE000, kLast}};

// Sorted and merged, whatever they cover.
std::vector<CharacterRange> normalised(std::vector<CharacterRange> ranges) {
    std::sort(ranges.begin(), ranges.end(), [](const CharacterRange& a, const CharacterRange& b) { return a.first < b.first; });
    std::vector<CharacterRange> merged;
    for (const CharacterRange& range : ranges) {
        if (!merged.empty() && range.first <= merged.back().last + 1) {
            merged.back().last = std::max(merged.back().last, range.last);
        } else {
            merged.push_back(range);
        }
    }
    return merged;
}

template <typename First, typename Second>
std::vector<CharacterRange> intersection(const First& a, const Second& b) {
    std::vector<CharacterRange> result;
    for (const CharacterRange& one : a) {
        for (const CharacterRange& other : b) {
            const char32_t first = std::max(one.first, other.first);
            const char32_t last = std::min(one.last, other.last);
            if (first <= last) {
                result.push_back({first, last});
            }
        }
    }
    return result;
}

}  // namespace

CharacterClass::CharacterClass(std::vector<CharacterRange> ranges)
    : ranges_(intersection(normalised(std::move(ranges)), kCharacters)) {}

CharacterClass CharacterClass::all() { return CharacterClass({{0, kLast}}); }

CharacterClass CharacterClass::of(std::string_view ascii) {
    std::vector<CharacterRange> ranges;
    for (const char c : ascii) {
        const auto character = static_cast<char32_t>(static_cast<unsigned char>(c));
        ranges.push_back({character, character});
    }
    return CharacterClass(std::move(ranges));
}

bool CharacterClass::contains(char32_t character) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [character](const CharacterRange& range) {
        return range.first <= character && character <= range.last;
    });
}

CharacterClass CharacterClass::complement() const {
    std::vector<CharacterRange> gaps;
    char32_t next = 0;
    for (const CharacterRange& range : ranges_) {
        if (range.first > next) {
            gaps.push_back({next, range.first - 1});
        }
        next = range.last + 1;
    }
    if (next <= kLast) {
        gaps.push_back({next, kLast});
    }
    return CharacterClass(std::move(gaps));
}

CharacterClass CharacterClass::with(const CharacterClass& other) const {
    std::vector<CharacterRange> ranges = ranges_;
    ranges.insert(ranges.end(), other.ranges_.begin(), other.ranges_.end());
    return CharacterClass(std::move(ranges));
}

CharacterClass CharacterClass::without(const CharacterClass& other) const { return common(other.complement()); }

CharacterClass CharacterClass::common(const CharacterClass& other) const {
    return CharacterClass(intersection(ranges_, other.ranges_));
}

}  // namespace di
