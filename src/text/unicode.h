#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace di {

// One step of a UTF-8 decoder. `length` bytes were looked at and belong together:
// a whole character, or the maximal ill-formed part that one U+FFFD stands for, or a tail that
// more bytes could still complete.
struct Utf8Step {
    enum class Kind { kCharacter, kInvalid, kIncomplete };
    Kind kind;
    char32_t code_point;  // U+FFFD unless kind is kCharacter
    size_t length;        // 1 to 4
};

// The step at the start of `bytes`, which must not be empty.
[[nodiscard]] Utf8Step utf8_step(std::string_view bytes);

// Offset of the first byte that is not part of a valid character, or npos when all is valid (no surrogates, no
// overlong forms, nothing above U+10FFFF).
[[nodiscard]] size_t first_invalid_utf8(std::string_view bytes);
[[nodiscard]] inline bool is_valid_utf8(std::string_view bytes) { return first_invalid_utf8(bytes) == std::string_view::npos; }

// Text of bytes that may be ill-formed: one U+FFFD for each maximal ill-formed part (as Python's "replace" and WHATWG do).
[[nodiscard]] std::string decode_lossy(std::string_view bytes);

// Appends one character; `code_point` must be a scalar value.
void append_utf8(std::string& text, char32_t code_point);

// Normal forms of valid UTF-8; ill-formed text is an error.
[[nodiscard]] Result<std::string> normalize_nfkc(std::string_view text);
[[nodiscard]] Result<std::string> normalize_nfd(std::string_view text);

// Categories Mn, Mc and Me.
[[nodiscard]] bool is_mark(char32_t code_point);
// The property White_Space.
[[nodiscard]] bool is_white_space(char32_t code_point);
// Simple lower case: always one character.
[[nodiscard]] char32_t lower_case(char32_t code_point);

}  // namespace di
