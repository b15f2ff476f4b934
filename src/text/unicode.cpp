#include "text/unicode.h"

#include <cstdint>
#include <cstdlib>
#include <memory>

#include <utf8proc.h>

#include "base/check.h"

namespace di {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// What may follow a lead byte (Unicode, table 3-7): how many bytes, and the range of the
// first of them, which excludes overlong forms, surrogates and values above U+10FFFF.
struct LeadByte {
    size_t length;  // 0: cannot start a character
    uint8_t second_min;
    uint8_t second_max;
};

LeadByte lead_byte(uint8_t byte) {
    if (byte < 0x80) {
        return {1, 0, 0};
    }
    if (byte < 0xC2 || byte > 0xF4) {
        return {0, 0, 0};
    }
    if (byte < 0xE0) {
        return {2, 0x80, 0xBF};
    }
    if (byte < 0xF0) {
        const uint8_t second_min = byte == 0xE0 ? 0xA0 : 0x80;
        const uint8_t second_max = byte == 0xED ? 0x9F : 0xBF;
        return {3, second_min, second_max};
    }
    const uint8_t second_min = byte == 0xF0 ? 0x90 : 0x80;
    const uint8_t second_max = byte == 0xF4 ? 0x8F : 0xBF;
    return {4, second_min, second_max};
}

Result<std::string> normalize(std::string_view text, int options) {
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                     &mapped, static_cast<utf8proc_option_t>(options));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
    if (length < 0) {
        return fail(ErrorCode::kInvalidArgument, "text cannot be normalised: {}", utf8proc_errmsg(length));
    }
    return std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) {
    DI_CHECK(!bytes.empty(), "a UTF-8 step needs at least one byte");
    const auto first = static_cast<uint8_t>(bytes[0]);
    const LeadByte lead = lead_byte(first);
    if (lead.length == 1) {
        return {Utf8Step::Kind::kCharacter, first, 1};
    }
    if (lead.length == 0) {
        return {Utf8Step::Kind::kInvalid, kReplacement, 1};
    }
    // The lead byte keeps 7 - length bits.
    char32_t code_point = first & (0x7Fu >> lead.length);
    for (size_t i = 1; i < lead.length; ++i) {
        if (i == bytes.size()) {
            return {Utf8Step::Kind::kIncomplete, kReplacement, i};
        }
        const auto byte = static_cast<uint8_t>(bytes[i]);
        const uint8_t lowest = i == 1 ? lead.second_min : uint8_t{0x80};
        const uint8_t highest = i == 1 ? lead.second_max : uint8_t{0xBF};
        if (byte < lowest || byte > highest) {
            return {Utf8Step::Kind::kInvalid, kReplacement, i};
        }
        code_point = (code_point << 6) | (byte & 0x3Fu);
    }
    return {Utf8Step::Kind::kCharacter, code_point, lead.length};
}

size_t first_invalid_utf8(std::string_view bytes) {
    size_t offset = 0;
    while (offset < bytes.size()) {
        if (static_cast<uint8_t>(bytes[offset]) < 0x80) {
            ++offset;
            continue;
        }
        const Utf8Step step = utf8_step(bytes.substr(offset));
        if (step.kind != Utf8Step::Kind::kCharacter) {
            return offset;
        }
        offset += step.length;
    }
    return std::string_view::npos;
}

std::string decode_lossy(std::string_view bytes) {
    std::string text;
    text.reserve(bytes.size());
    while (!bytes.empty()) {
        const Utf8Step step = utf8_step(bytes);
        append_utf8(text, step.code_point);
        bytes.remove_prefix(step.length);
    }
    return text;
}

void append_utf8(std::string& text, char32_t code_point) {
    DI_CHECK(code_point <= 0x10FFFF && (code_point < 0xD800 || code_point > 0xDFFF), "only scalar values have a UTF-8 form");
    if (code_point < 0x80) {
        text.push_back(static_cast<char>(code_point));
        return;
    }
    if (code_point < 0x800) {
        text.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    } else if (code_point < 0x10000) {
        text.push_back(static_cast<char>(0xE0 | (code_point >> 12)));
        text.push_back(static_cast<char>(0x80 | ((code_point >> 6) & 0x3F)));
    } else {
        text.push_back(static_cast<char>(0xF0 | (code_point >> 18)));
        text.push_back(static_cast<char>(0x80 | ((code_point >> 12) & 0x3F)));
        text.push_back(static_cast<char>(0x80 | ((code_point >> 6) & 0x3F)));
    }
    text.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
}

Result<std::string> normalize_nfkc(std::string_view text) {
    return normalize(text, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
}

Result<std::string> normalize_nfd(std::string_view text) { return normalize(text, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE); }

bool is_mark(char32_t code_point) {
    const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

bool is_white_space(char32_t code_point) {
    // The whole property; it has not changed since Unicode 6.3 and utf8proc does not offer it.
    return (code_point >= 0x09 && code_point <= 0x0D) || code_point == 0x20 || code_point == 0x85 || code_point == 0xA0 ||
           code_point == 0x1680 || (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 ||
           code_point == 0x2029 || code_point == 0x202F || code_point == 0x205F || code_point == 0x3000;
}

char32_t lower_case(char32_t code_point) {
    return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
}

}  // namespace di
