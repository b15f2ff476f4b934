#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace di {

struct CharacterRange {
    char32_t first = 0;
    char32_t last = 0;  // inclusive

    bool operator==(const CharacterRange&) const = default;
};

// A set of characters: ranges in ascending order that do not touch. Characters are U+0001 to U+10FFFF without the
// surrogates: NUL never stands in an answer (the grammar machine keeps it for itself), surrogates are no text.
class CharacterClass {
  public:
    CharacterClass() = default;  // nothing
    // In any order, overlapping or not; what is no character is left out.
    explicit CharacterClass(std::vector<CharacterRange> ranges);
    [[nodiscard]] static CharacterClass all();
    [[nodiscard]] static CharacterClass of(std::string_view ascii);  // each of these

    [[nodiscard]] const std::vector<CharacterRange>& ranges() const { return ranges_; }
    [[nodiscard]] bool is_empty() const { return ranges_.empty(); }
    [[nodiscard]] bool contains(char32_t character) const;

    [[nodiscard]] CharacterClass complement() const;
    [[nodiscard]] CharacterClass with(const CharacterClass& other) const;
    [[nodiscard]] CharacterClass without(const CharacterClass& other) const;
    [[nodiscard]] CharacterClass common(const CharacterClass& other) const;

    bool operator==(const CharacterClass&) const = default;

  private:
    std::vector<CharacterRange> ranges_;
};

}  // namespace di
