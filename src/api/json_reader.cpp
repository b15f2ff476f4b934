#include "api/json_reader.h"

#include <cmath>
#include <utility>

#include "api/limits.h"

namespace di {

Result<JsonReader> JsonReader::open(const JsonValue& value, std::string path) {
    if (!value.is_object()) {
        if (path.empty()) {
            return fail(ErrorCode::kInvalidArgument, "the request is {}, expected a JSON object", value.kind_name());
        }
        return fail(ErrorCode::kInvalidArgument, "{}: {}, expected an object", path, short_json_text(value));
    }
    return JsonReader(value, std::move(path));
}

const JsonValue* JsonReader::find(std::string_view key) const {
    const JsonValue* member = value_->find(key);
    return member == nullptr || member->is_null() ? nullptr : member;
}

tl::unexpected<Error> JsonReader::wrong(std::string_view key, std::string_view expected) const {
    const JsonValue* member = value_->find(key);
    return fail(ErrorCode::kInvalidArgument, "{}: {}, expected {}", path_of(key),
                member == nullptr ? "missing" : short_json_text(*member), expected);
}

Result<std::optional<bool>> JsonReader::boolean(std::string_view key) const {
    const JsonValue* member = find(key);
    if (member == nullptr) {
        return std::optional<bool>();
    }
    if (!member->is_boolean()) {
        return wrong(key, "true or false");
    }
    return std::optional<bool>(member->as_boolean());
}

Result<bool> JsonReader::boolean_or(std::string_view key, bool absent) const {
    DI_TRY(const auto value, boolean(key));
    return value.value_or(absent);
}

Result<std::optional<double>> JsonReader::number(std::string_view key, NumberRange range) const {
    const JsonValue* member = find(key);
    if (member == nullptr) {
        return std::optional<double>();
    }
    const std::string expected = fmt::format("a number in {}{}, {}]", range.excludes_low ? "(" : "[", range.low, range.high);
    if (!member->is_number()) {
        return wrong(key, expected);
    }
    const double value = member->as_double();
    const bool is_inside = value <= range.high && (range.excludes_low ? value > range.low : value >= range.low);
    if (!is_inside) {
        return wrong(key, expected);
    }
    return std::optional<double>(value);
}

Result<std::optional<int64_t>> JsonReader::integer(std::string_view key, IntegerRange range) const {
    const JsonValue* member = find(key);
    if (member == nullptr) {
        return std::optional<int64_t>();
    }
    const std::optional<int64_t> value = member->as_int64();
    if (!value || *value < range.low || *value > range.high) {
        return wrong(key, fmt::format("an integer in [{}, {}]", range.low, range.high));
    }
    return value;
}

Result<std::optional<std::string>> JsonReader::string(std::string_view key) const {
    const JsonValue* member = find(key);
    if (member == nullptr) {
        return std::optional<std::string>();
    }
    if (!member->is_string()) {
        return wrong(key, "a string");
    }
    return std::optional<std::string>(member->as_string());
}

Result<std::string> JsonReader::string_or(std::string_view key, std::string_view absent) const {
    DI_TRY(auto value, string(key));
    return value ? std::move(*value) : std::string(absent);
}

Result<std::string> JsonReader::required_string(std::string_view key) const {
    DI_TRY(auto value, string(key));
    if (!value) {
        return wrong(key, "a string");
    }
    return std::move(*value);
}

Result<const JsonValue::Array*> JsonReader::array(std::string_view key, size_t count_max) const {
    const JsonValue* member = find(key);
    if (member == nullptr) {
        return static_cast<const JsonValue::Array*>(nullptr);
    }
    if (!member->is_array()) {
        return wrong(key, "a list");
    }
    if (member->as_array().size() > count_max) {
        return fail(ErrorCode::kInvalidArgument, "{}: {} entries, expected at most {}", path_of(key), member->as_array().size(),
                    count_max);
    }
    return &member->as_array();
}

Result<std::optional<JsonReader>> JsonReader::object(std::string_view key) const {
    const JsonValue* member = find(key);
    if (member == nullptr) {
        return std::optional<JsonReader>();
    }
    DI_TRY(auto reader, open(*member, path_of(key)));
    return std::optional<JsonReader>(std::move(reader));
}

Result<JsonReader> JsonReader::required_object(std::string_view key) const {
    DI_TRY(auto reader, object(key));
    if (!reader) {
        return wrong(key, "an object");
    }
    return std::move(*reader);
}

std::string item_path(std::string_view path, size_t index) { return fmt::format("{}[{}]", path, index); }

std::string_view parameter_of(const Error& error) {
    const std::string_view text = error.text;
    const size_t end = text.find(": ");
    if (end == std::string_view::npos) {
        return {};
    }
    // A path has no blanks outside of a quoted key; a sentence does.
    const std::string_view head = text.substr(0, end);
    const bool is_path = head.find(' ') == std::string_view::npos && head != "JSON";
    return is_path ? head : std::string_view{};
}

}  // namespace di
