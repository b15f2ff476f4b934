#include "api/json_writing.h"

#include "text/unicode.h"

namespace di {

JsonObject& JsonObject::text(std::string_view key, std::string_view text) { return value(key, json_string(text)); }

JsonValue json_string(std::string_view text) {
    return JsonValue::string(is_valid_utf8(text) ? std::string(text) : decode_lossy(text));
}

JsonValue json_real(double value) { return JsonValue::number({.spelling = python_float_text(value), .is_integer = false}); }

JsonValue json_integers(std::span<const int32_t> numbers) {
    JsonValue::Array items;
    items.reserve(numbers.size());
    for (const int32_t number : numbers) {
        items.push_back(JsonValue::integer(number));
    }
    return JsonValue::array(std::move(items));
}

}  // namespace di
