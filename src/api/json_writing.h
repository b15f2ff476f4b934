#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "text/json_text.h"

namespace di {

// An object under construction, member by member. Keys must differ.
class JsonObject {
  public:
    JsonObject& value(std::string_view key, JsonValue value) {
        if (members_.empty()) {
            members_.reserve(kMembersUsual);
        }
        members_.push_back({.key = std::string(key), .value = std::move(value)});
        return *this;
    }
    // Bytes that are no UTF-8 become U+FFFD: nothing that is sent may be anything else.
    JsonObject& text(std::string_view key, std::string_view text);
    JsonObject& text_or_null(std::string_view key, std::string_view text) {
        return text.empty() ? null(key) : this->text(key, text);
    }
    JsonObject& integer(std::string_view key, int64_t number) { return value(key, JsonValue::integer(number)); }
    JsonObject& boolean(std::string_view key, bool flag) { return value(key, JsonValue::boolean(flag)); }
    JsonObject& null(std::string_view key) { return value(key, JsonValue()); }

    // The finished object; this one is empty then.
    [[nodiscard]] JsonValue take() { return JsonValue::object(std::exchange(members_, {})); }

  private:
    static constexpr size_t kMembersUsual = 8;  // growing moves the members, which costs more than making them
    JsonValue::Object members_;
};

// A string value of bytes that may be ill-formed.
[[nodiscard]] JsonValue json_string(std::string_view text);
// A finite number with a fraction.
[[nodiscard]] JsonValue json_real(double value);
[[nodiscard]] JsonValue json_integers(std::span<const int32_t> numbers);

}  // namespace di
