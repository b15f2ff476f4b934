// Why not nlohmann's SAX parser: it refuses integers beyond the range of a double and forgets the
// sign of "-0", and both must reach the prompt as Python would print them (spec: integers of any
// size keep their digits). This one also names the byte where a text stops being JSON.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "text/json_text.h"
#include "text/limits.h"

namespace di {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Adds members to an object; a repeated key keeps its first place and its last value. Small
// objects are searched, large ones indexed: keys come from outside and must not cost n^2.
class ObjectBuilder {
  public:
    void add(std::string key, JsonValue value) {
        if (members_.size() < kSearchedMembersMax) {
            for (JsonMember& member : members_) {
                if (member.key == key) {
                    member.value = std::move(value);
                    return;
                }
            }
            members_.push_back({std::move(key), std::move(value)});
            return;
        }
        if (index_.empty()) {
            for (size_t i = 0; i < members_.size(); ++i) {
                index_.emplace(members_[i].key, i);
            }
        }
        const auto [place, is_new] = index_.emplace(key, members_.size());
        if (!is_new) {
            members_[place->second].value = std::move(value);
            return;
        }
        members_.push_back({std::move(key), std::move(value)});
    }

    JsonValue finish() { return JsonValue::object(std::move(members_)); }

  private:
    static constexpr size_t kSearchedMembersMax = 16;
    JsonValue::Object members_;
    std::unordered_map<std::string, size_t> index_;  // empty while the object is small
};

class JsonParser {
  public:
    explicit JsonParser(std::string_view text) : text_(text) {}

    Result<JsonValue> parse() {
        DI_TRY(auto value, parse_value(1));
        skip_blanks();
        if (at_ < text_.size()) {
            return broken("the end of the text");
        }
        return value;
    }

  private:
    tl::unexpected<Error> broken(std::string_view expected) const {
        if (at_ >= text_.size()) {
            return fail(ErrorCode::kInvalidArgument, "not JSON: the text ends at byte {}, expected {}", at_, expected);
        }
        const auto byte = static_cast<unsigned char>(text_[at_]);
        if (byte > 0x20 && byte < 0x7F) {
            return fail(ErrorCode::kInvalidArgument, "not JSON: '{}' at byte {}, expected {}", text_[at_], at_, expected);
        }
        return fail(ErrorCode::kInvalidArgument, "not JSON: byte 0x{:02x} at {}, expected {}", byte, at_, expected);
    }

    void skip_blanks() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
            ++at_;
        }
    }

    bool accept(char c) {
        if (at_ < text_.size() && text_[at_] == c) {
            ++at_;
            return true;
        }
        return false;
    }

    bool accept_word(std::string_view word) {
        if (text_.substr(at_, word.size()) == word) {
            at_ += word.size();
            return true;
        }
        return false;
    }

    Result<JsonValue> parse_value(int64_t depth) {
        if (++value_count_ > kJsonValuesMax) {
            return fail(ErrorCode::kInvalidArgument, "JSON has more than {} values", kJsonValuesMax);
        }
        skip_blanks();
        if (at_ >= text_.size()) {
            return broken("a value");
        }
        const char c = text_[at_];
        if (c == '{' || c == '[') {
            if (depth > kJsonDepthMax) {
                return fail(ErrorCode::kInvalidArgument, "JSON is nested deeper than {} levels at byte {}", kJsonDepthMax, at_);
            }
            ++at_;
            return c == '{' ? parse_object(depth) : parse_array(depth);
        }
        if (c == '"') {
            ++at_;
            DI_TRY(auto text, parse_string());
            return JsonValue::string(std::move(text));
        }
        if (c == '-' || is_digit(c)) {
            return parse_number();
        }
        if (accept_word("true")) {
            return JsonValue::boolean(true);
        }
        if (accept_word("false")) {
            return JsonValue::boolean(false);
        }
        if (accept_word("null")) {
            return JsonValue();
        }
        return broken("a value");
    }

    Result<JsonValue> parse_array(int64_t depth) {
        JsonValue::Array items;
        skip_blanks();
        if (accept(']')) {
            return JsonValue::array(std::move(items));
        }
        while (true) {
            DI_TRY(auto item, parse_value(depth + 1));
            items.push_back(std::move(item));
            skip_blanks();
            if (accept(']')) {
                return JsonValue::array(std::move(items));
            }
            if (!accept(',')) {
                return broken("',' or ']'");
            }
        }
    }

    Result<JsonValue> parse_object(int64_t depth) {
        ObjectBuilder builder;
        skip_blanks();
        if (accept('}')) {
            return builder.finish();
        }
        while (true) {
            skip_blanks();
            if (!accept('"')) {
                return broken("a key in quotes");
            }
            DI_TRY(auto key, parse_string());
            skip_blanks();
            if (!accept(':')) {
                return broken("':'");
            }
            DI_TRY(auto value, parse_value(depth + 1));
            builder.add(std::move(key), std::move(value));
            skip_blanks();
            if (accept('}')) {
                return builder.finish();
            }
            if (!accept(',')) {
                return broken("',' or '}'");
            }
        }
    }

    Result<JsonValue> parse_number() {
        const size_t first = at_;
        accept('-');
        if (!accept('0')) {
            if (at_ >= text_.size() || !is_digit(text_[at_])) {
                return broken("a digit");
            }
            skip_digits();
        }
        bool is_integer = true;
        if (accept('.')) {
            is_integer = false;
            DI_TRY_STATUS(need_digits());
        }
        if (accept('e') || accept('E')) {
            is_integer = false;
            if (!accept('+')) {
                accept('-');
            }
            DI_TRY_STATUS(need_digits());
        }
        const std::string_view spelling = text_.substr(first, at_ - first);
        // The reference prints minus zero as a float; every other integer keeps its digits.
        if (is_integer && spelling != "-0") {
            return JsonValue::number({.spelling = std::string(spelling), .is_integer = true});
        }
        return parse_real(spelling);
    }

    Result<JsonValue> parse_real(std::string_view spelling) const {
        double value = 0.0;
        const auto [end, error] = std::from_chars(spelling.data(), spelling.data() + spelling.size(), value);
        if (error == std::errc::result_out_of_range || !std::isfinite(value)) {
            if (is_beyond_range(spelling)) {
                return fail(ErrorCode::kInvalidArgument, "not JSON: number {} is beyond the range of a double",
                            short_quoted(spelling));
            }
            value = spelling.front() == '-' ? -0.0 : 0.0;  // too small: rounds to zero
        }
        return JsonValue::number({.spelling = python_float_text(value), .is_integer = false});
    }

    // Whether a number that a double cannot hold is too large rather than too small: the decimal
    // exponent of its first non-zero digit says so.
    static bool is_beyond_range(std::string_view spelling) {
        const size_t exponent_at = std::min(spelling.find_first_of("eE"), spelling.size());
        const std::string_view mantissa = spelling.substr(0, exponent_at);
        const size_t point = std::min(mantissa.find('.'), mantissa.size());
        const size_t first = mantissa.find_first_of("123456789");
        if (first == std::string_view::npos) {
            return false;
        }
        const auto place = static_cast<int64_t>(point) - static_cast<int64_t>(first);
        int64_t exponent = 0;
        if (exponent_at < spelling.size()) {
            const char* from = spelling.data() + exponent_at + 1;
            from += *from == '+' ? 1 : 0;
            const auto parsed = std::from_chars(from, spelling.data() + spelling.size(), exponent);
            if (parsed.ec != std::errc{}) {
                return *from != '-';
            }
        }
        return exponent > -place;
    }

    void skip_digits() {
        while (at_ < text_.size() && is_digit(text_[at_])) {
            ++at_;
        }
    }

    Status need_digits() {
        if (at_ >= text_.size() || !is_digit(text_[at_])) {
            return broken("a digit");
        }
        skip_digits();
        return {};
    }

    // After the opening quote, up to and with the closing one.
    Result<std::string> parse_string() {
        std::string out;
        while (true) {
            const size_t first = at_;
            while (at_ < text_.size() && is_plain(text_[at_])) {
                ++at_;
            }
            out.append(text_, first, at_ - first);
            if (at_ >= text_.size()) {
                return broken("'\"' at the end of the string");
            }
            if (accept('"')) {
                return out;
            }
            if (accept('\\')) {
                DI_TRY_STATUS(parse_escape(out));
                continue;
            }
            if (static_cast<unsigned char>(text_[at_]) < 0x20) {
                return broken("a control character written as an escape");
            }
            DI_TRY_STATUS(copy_multibyte(out));
        }
    }

    static bool is_plain(char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
    }

    Status parse_escape(std::string& out) {
        if (at_ >= text_.size()) {
            return broken("an escape");
        }
        static constexpr std::string_view kEscapes = "\"\\/bfnrt";
        static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
        const size_t which = kEscapes.find(text_[at_]);
        if (which != std::string_view::npos) {
            ++at_;
            out += kMeanings[which];
            return {};
        }
        if (!accept('u')) {
            return broken("one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u");
        }
        DI_TRY(uint32_t code, parse_hex());
        if (code >= 0xDC00 && code < 0xE000) {
            return fail(ErrorCode::kInvalidArgument, "not JSON: lone surrogate \\u{:04x} before byte {}", code, at_);
        }
        if (code >= 0xD800 && code < 0xDC00) {
            const uint32_t high = code;
            if (!accept_word("\\u")) {
                return fail(ErrorCode::kInvalidArgument, "not JSON: lone surrogate \\u{:04x} before byte {}", high, at_);
            }
            DI_TRY(uint32_t low, parse_hex());
            if (low < 0xDC00 || low >= 0xE000) {
                return fail(ErrorCode::kInvalidArgument, "not JSON: lone surrogate \\u{:04x} before byte {}", high, at_);
            }
            code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        }
        append_utf8(out, code);
        return {};
    }

    Result<uint32_t> parse_hex() {
        uint32_t code = 0;
        for (int i = 0; i < 4; ++i) {
            if (at_ >= text_.size()) {
                return broken("four hexadecimal digits");
            }
            const char c = text_[at_];
            uint32_t digit = 0;
            if (is_digit(c)) {
                digit = static_cast<uint32_t>(c - '0');
            } else if (c >= 'a' && c <= 'f') {
                digit = static_cast<uint32_t>(c - 'a') + 10;
            } else if (c >= 'A' && c <= 'F') {
                digit = static_cast<uint32_t>(c - 'A') + 10;
            } else {
                return broken("four hexadecimal digits");
            }
            code = code * 16 + digit;
            ++at_;
        }
        return code;
    }

    static void append_utf8(std::string& out, uint32_t code) {
        if (code < 0x80) {
            out += static_cast<char>(code);
        } else if (code < 0x800) {
            out += static_cast<char>(0xC0 | (code >> 6));
            out += static_cast<char>(0x80 | (code & 0x3F));
        } else if (code < 0x10000) {
            out += static_cast<char>(0xE0 | (code >> 12));
            out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
            out += static_cast<char>(0x80 | (code & 0x3F));
        } else {
            out += static_cast<char>(0xF0 | (code >> 18));
            out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
            out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
            out += static_cast<char>(0x80 | (code & 0x3F));
        }
    }

    // One character of two to four bytes: no overlong forms, no surrogates, nothing above U+10FFFF.
    Status copy_multibyte(std::string& out) {
        const auto byte = [&](size_t i) { return at_ + i < text_.size() ? static_cast<unsigned char>(text_[at_ + i]) : 0U; };
        const unsigned lead = byte(0);
        size_t length = 0;
        unsigned second_min = 0x80;
        unsigned second_max = 0xBF;
        if (lead >= 0xC2 && lead <= 0xDF) {
            length = 2;
        } else if (lead >= 0xE0 && lead <= 0xEF) {
            length = 3;
            second_min = lead == 0xE0 ? 0xA0 : 0x80;
            second_max = lead == 0xED ? 0x9F : 0xBF;
        } else if (lead >= 0xF0 && lead <= 0xF4) {
            length = 4;
            second_min = lead == 0xF0 ? 0x90 : 0x80;
            second_max = lead == 0xF4 ? 0x8F : 0xBF;
        }
        bool is_valid = length > 0 && byte(1) >= second_min && byte(1) <= second_max;
        for (size_t i = 2; i < length; ++i) {
            is_valid = is_valid && byte(i) >= 0x80 && byte(i) <= 0xBF;
        }
        if (!is_valid) {
            return broken("valid UTF-8");
        }
        out.append(text_, at_, length);
        at_ += length;
        return {};
    }

    std::string_view text_;
    size_t at_ = 0;
    int64_t value_count_ = 0;
};

}  // namespace

Result<JsonValue> parse_json(std::string_view text) { return JsonParser(text).parse(); }

}  // namespace di
