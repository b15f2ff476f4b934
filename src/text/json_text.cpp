#include "text/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace di {

JsonValue JsonValue::boolean(bool value) {
    JsonValue result;
    result.value_ = value;
    return result;
}

JsonValue JsonValue::integer(int64_t value) { return number({.spelling = fmt::format("{}", value), .is_integer = true}); }

JsonValue JsonValue::number(JsonNumber value) {
    JsonValue result;
    result.value_ = std::move(value);
    return result;
}

JsonValue JsonValue::string(std::string value) {
    JsonValue result;
    result.value_ = std::move(value);
    return result;
}

JsonValue JsonValue::array(Array items) {
    JsonValue result;
    result.value_ = std::move(items);
    return result;
}

JsonValue JsonValue::object(Object members) {
    JsonValue result;
    result.value_ = std::move(members);
    return result;
}

JsonValue JsonValue::object() { return object(Object{}); }

bool JsonValue::is_null() const { return std::holds_alternative<std::monostate>(value_); }

bool JsonValue::is_boolean() const { return std::holds_alternative<bool>(value_); }

bool JsonValue::is_number() const { return std::holds_alternative<JsonNumber>(value_); }

bool JsonValue::is_integer() const { return is_number() && as_number().is_integer; }

bool JsonValue::is_string() const { return std::holds_alternative<std::string>(value_); }

bool JsonValue::is_array() const { return std::holds_alternative<Array>(value_); }

bool JsonValue::is_object() const { return std::holds_alternative<Object>(value_); }

bool JsonValue::as_boolean() const {
    DI_CHECK(is_boolean(), "not a boolean");
    return std::get<bool>(value_);
}

const JsonNumber& JsonValue::as_number() const {
    DI_CHECK(is_number(), "not a number");
    return std::get<JsonNumber>(value_);
}

const std::string& JsonValue::as_string() const {
    DI_CHECK(is_string(), "not a string");
    return std::get<std::string>(value_);
}

const JsonValue::Array& JsonValue::as_array() const {
    DI_CHECK(is_array(), "not an array");
    return std::get<Array>(value_);
}

const JsonValue::Object& JsonValue::as_object() const {
    DI_CHECK(is_object(), "not an object");
    return std::get<Object>(value_);
}

double JsonValue::as_double() const {
    const std::string& spelling = as_number().spelling;
    double value = 0.0;
    const auto [end, error] = std::from_chars(spelling.data(), spelling.data() + spelling.size(), value);
    if (error == std::errc::result_out_of_range) {
        // Only integers get here: the parser refuses reals beyond the range.
        const double infinity = std::numeric_limits<double>::infinity();
        return spelling.front() == '-' ? -infinity : infinity;
    }
    return value;
}

std::optional<int64_t> JsonValue::as_int64() const {
    if (!is_integer()) {
        return std::nullopt;
    }
    const std::string& spelling = as_number().spelling;
    const char* last = spelling.data() + spelling.size();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(spelling.data(), last, value);
    if (error != std::errc{} || end != last) {
        return std::nullopt;
    }
    return value;
}

const JsonValue* JsonValue::find(std::string_view key) const {
    if (!is_object()) {
        return nullptr;
    }
    for (const JsonMember& member : as_object()) {
        if (member.key == key) {
            return &member.value;
        }
    }
    return nullptr;
}

void JsonValue::set(std::string_view key, JsonValue value) {
    DI_CHECK(is_object(), "not an object");
    Object& members = std::get<Object>(value_);
    const auto found =
        std::find_if(members.begin(), members.end(), [&](const JsonMember& member) { return member.key == key; });
    if (found != members.end()) {
        found->value = std::move(value);
        return;
    }
    members.push_back({.key = std::string(key), .value = std::move(value)});
}

std::string_view JsonValue::kind_name() const {
    static constexpr std::string_view kNames[] = {"null", "a boolean", "a number", "a string", "an array", "an object"};
    return kNames[value_.index()];
}

namespace {

void append_string(std::string& out, std::string_view text) {
    out += '"';
    append_json_escaped(out, text);
    out += '"';
}

void append_value(std::string& out, const JsonValue& value) {
    if (value.is_null()) {
        out += "null";
    } else if (value.is_boolean()) {
        out += value.as_boolean() ? "true" : "false";
    } else if (value.is_number()) {
        out += value.as_number().spelling;
    } else if (value.is_string()) {
        append_string(out, value.as_string());
    } else if (value.is_array()) {
        std::string_view separator = "[";
        for (const JsonValue& item : value.as_array()) {
            out += separator;
            append_value(out, item);
            separator = ", ";
        }
        out += value.as_array().empty() ? "[]" : "]";
    } else {
        std::string_view separator = "{";
        for (const JsonMember& member : value.as_object()) {
            out += separator;
            append_string(out, member.key);
            out += ": ";
            append_value(out, member.value);
            separator = ", ";
        }
        out += value.as_object().empty() ? "{}" : "}";
    }
}

// Long enough to recognise one's own value, short enough for one line.
constexpr size_t kShownBytesMax = 80;

// Cuts valid UTF-8 without breaking a character.
std::string shortened(std::string text) {
    if (text.size() <= kShownBytesMax) {
        return text;
    }
    size_t end = kShownBytesMax;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
        --end;
    }
    return text.substr(0, end) + "...";
}

}  // namespace

void append_json_escaped(std::string& out, std::string_view text) {
    for (const char c : text) {
        switch (c) {
            case '"': out += "\\\""; break;
            case '\\': out += "\\\\"; break;
            case '\b': out += "\\b"; break;
            case '\f': out += "\\f"; break;
            case '\n': out += "\\n"; break;
            case '\r': out += "\\r"; break;
            case '\t': out += "\\t"; break;
            default:
                if (static_cast<unsigned char>(c) < 0x20) {
                    out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
                } else {
                    out += c;
                }
        }
    }
}

std::string json_text(const JsonValue& value) {
    std::string out;
    append_value(out, value);
    return out;
}

std::string python_float_text(double value) {
    DI_CHECK(std::isfinite(value), "only finite numbers have a JSON text");
    char buffer[64];
    const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
    const std::string_view scientific(buffer, static_cast<size_t>(result.ptr - buffer));
    // "-d.ddde+xx": split into sign, digits and exponent, then lay out as Python does.
    const size_t exponent_at = scientific.find('e');
    const bool is_negative = scientific.front() == '-';
    std::string digits;
    for (const char c : scientific.substr(0, exponent_at)) {
        if (c >= '0' && c <= '9') {
            digits += c;
        }
    }
    int exponent = 0;
    const char* exponent_first = buffer + exponent_at + (scientific[exponent_at + 1] == '+' ? 2 : 1);
    std::from_chars(exponent_first, result.ptr, exponent);
    std::string text;
    if (exponent < -4 || exponent >= 16) {
        text = digits.substr(0, 1);
        if (digits.size() > 1) {
            text += "." + digits.substr(1);
        }
        text += fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
    } else if (exponent < 0) {
        text = "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
    } else {
        const size_t whole = static_cast<size_t>(exponent) + 1;
        if (digits.size() < whole) {
            digits.append(whole - digits.size(), '0');
        }
        text = digits.substr(0, whole) + "." + (digits.size() > whole ? digits.substr(whole) : "0");
    }
    return is_negative ? "-" + text : text;
}

std::string short_json_text(const JsonValue& value) {
    // A container is cut by its kind: writing 64 MiB to show 80 bytes would be a waste.
    if (value.is_array() && value.as_array().size() > kShownBytesMax) {
        return fmt::format("an array of {} values", value.as_array().size());
    }
    if (value.is_object() && value.as_object().size() > kShownBytesMax) {
        return fmt::format("an object of {} members", value.as_object().size());
    }
    return shortened(json_text(value));
}

std::string short_quoted(std::string_view text) {
    // Enough bytes that shortened() still sees the text as too long, never all of a huge one.
    size_t end = std::min(text.size(), 4 * kShownBytesMax);
    while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
        --end;
    }
    return shortened(json_text(JsonValue::string(std::string(text.substr(0, end)))));
}

std::string member_path(std::string_view path, std::string_view key) {
    static constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$-";
    if (key.empty() || key.size() > kShownBytesMax || key.find_first_not_of(kPlain) != std::string_view::npos) {
        return fmt::format("{}[{}]", path, short_quoted(key));
    }
    return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

}  // namespace di
