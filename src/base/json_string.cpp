#include "base/json_string.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace di {
namespace {

// Bytes of the character at the start of `text`, which is not empty; 0 if none starts there (RFC 3629: no surrogates, no overlong
// forms, nothing above U+10FFFF).
size_t character_length(std::string_view text) {
    const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
    const auto is_tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
    const uint8_t first = byte(0);
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        return is_tail(1) ? 2 : 0;
    }
    if (first >= 0xE0 && first <= 0xEF) {
        const bool is_overlong = first == 0xE0 && byte(1) < 0xA0;
        const bool is_surrogate = first == 0xED && byte(1) >= 0xA0;
        return is_tail(1) && is_tail(2) && !is_overlong && !is_surrogate ? 3 : 0;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        const bool is_overlong = first == 0xF0 && byte(1) < 0x90;
        const bool is_beyond = first == 0xF4 && byte(1) >= 0x90;
        return is_tail(1) && is_tail(2) && is_tail(3) && !is_overlong && !is_beyond ? 4 : 0;
    }
    return 0;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
    out += '"';
    while (!text.empty()) {
        const size_t length = character_length(text);
        const char first = text.front();
        if (length == 0) {
            out += "\xEF\xBF\xBD";
        } else if (first == '"' || first == '\\') {
            out += '\\';
            out += first;
        } else if (static_cast<uint8_t>(first) < 0x20 || first == 0x7F) {
            out += fmt::format("\\u{:04x}", static_cast<uint8_t>(first));
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(length == 0 ? 1 : length);
    }
    out += '"';
}

}  // namespace di
