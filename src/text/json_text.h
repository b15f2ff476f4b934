#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace di {

// A JSON number as it was spelled. Prompts repeat what a client sent, so integers keep their
// digits however many there are; only numbers with a fraction or an exponent have a value that
// a double must hold.
struct JsonNumber {
    std::string spelling;     // canonical: what json_text() prints
    bool is_integer = false;  // written without fraction and exponent
};

struct JsonMember;

// A JSON value that keeps the order of keys and the spelling of integers. A plain value type:
// copies are deep. The nesting of a parsed value is limited (limits.h), so recursion over it is safe.
class JsonValue {
  public:
    using Array = std::vector<JsonValue>;
    using Object = std::vector<JsonMember>;

    JsonValue() = default;  // null
    static JsonValue boolean(bool value);
    static JsonValue integer(int64_t value);
    static JsonValue number(JsonNumber value);
    static JsonValue string(std::string value);
    static JsonValue array(Array items);
    static JsonValue object(Object members);  // keys must differ
    static JsonValue object();                // {}

    [[nodiscard]] bool is_null() const;
    [[nodiscard]] bool is_boolean() const;
    [[nodiscard]] bool is_number() const;
    [[nodiscard]] bool is_integer() const;  // a number written as an integer
    [[nodiscard]] bool is_string() const;
    [[nodiscard]] bool is_array() const;
    [[nodiscard]] bool is_object() const;

    // The value; asking for another kind than is held is our own bug and ends the process.
    [[nodiscard]] bool as_boolean() const;
    [[nodiscard]] const JsonNumber& as_number() const;
    [[nodiscard]] const std::string& as_string() const;
    [[nodiscard]] const Array& as_array() const;
    [[nodiscard]] const Object& as_object() const;

    // The number as a double (infinite when an integer is beyond its range), and as a 64-bit
    // integer when it was written as an integer and fits.
    [[nodiscard]] double as_double() const;
    [[nodiscard]] std::optional<int64_t> as_int64() const;

    // The member of that key, or nullptr when there is none or this is not an object.
    [[nodiscard]] const JsonValue* find(std::string_view key) const;
    // Replaces the value of a key in its place, or adds the key at the end. Only for objects.
    void set(std::string_view key, JsonValue value);

    // "a string", "null", ...: how messages to a person name what was found.
    [[nodiscard]] std::string_view kind_name() const;

  private:
    std::variant<std::monostate, bool, JsonNumber, std::string, Array, Object> value_;
};

struct JsonMember {
    std::string key;
    JsonValue value;
};

// Parses exactly one JSON text. Strict: UTF-8 only, no NaN or Infinity, no lone surrogates, no
// trailing bytes, no comments; limits of limits.h on nesting and number of values. A repeated key
// keeps its first place and its last value. A number with fraction or exponent beyond the range of
// a double is an error; an integer never is.
[[nodiscard]] Result<JsonValue> parse_json(std::string_view text);

// The text of Python's json.dumps(value, ensure_ascii=False): ", " and ": " as separators, nothing
// escaped but quote, backslash and controls below 0x20.
[[nodiscard]] std::string json_text(const JsonValue& value);

// Appends the text as it stands between the quotes of a JSON string, escaped as above. Character by character: pieces of
// a text may be given one by one.
void append_json_escaped(std::string& out, std::string_view text);

// Python's repr(float): the shortest digits that read back as the same double, always with ".0"
// or an exponent. The value must be finite.
[[nodiscard]] std::string python_float_text(double value);

// A value for an error message: its JSON text, cut to a length that a person reads.
[[nodiscard]] std::string short_json_text(const JsonValue& value);

// The same for text: quoted, cut at a character boundary.
[[nodiscard]] std::string short_quoted(std::string_view text);

// The place of a member in a request: "path.key", or path["key"] where the key is not a plain name.
[[nodiscard]] std::string member_path(std::string_view path, std::string_view key);

}  // namespace di
