#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/json_text.h"

namespace di {

// Bounds of a number, in the words of the error.
struct NumberRange {
    double low;
    double high;
    bool excludes_low = false;  // "(low, high]" instead of "[low, high]"
};

struct IntegerRange {
    int64_t low;
    int64_t high;
};

// Typed access to the members of a JSON object from a client. A member that is null counts as
// absent (the typed clients send it so); a member of the wrong kind is an error that begins with
// its path ("messages[2].content: ..."). Borrows the value, which must outlive the reader.
class JsonReader {
  public:
    // Fails when the value is no object. `path` is the value's place in the request, "" for the body.
    [[nodiscard]] static Result<JsonReader> open(const JsonValue& value, std::string path);

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::string path_of(std::string_view key) const { return member_path(path_, key); }

    // nullptr when absent or null.
    [[nodiscard]] const JsonValue* find(std::string_view key) const;
    [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }

    [[nodiscard]] Result<std::optional<bool>> boolean(std::string_view key) const;
    [[nodiscard]] Result<bool> boolean_or(std::string_view key, bool absent) const;
    [[nodiscard]] Result<std::optional<double>> number(std::string_view key, NumberRange range) const;
    [[nodiscard]] Result<std::optional<int64_t>> integer(std::string_view key, IntegerRange range) const;
    [[nodiscard]] Result<std::optional<std::string>> string(std::string_view key) const;
    [[nodiscard]] Result<std::string> string_or(std::string_view key, std::string_view absent) const;
    [[nodiscard]] Result<std::string> required_string(std::string_view key) const;

    // nullptr when absent; else of that kind. `count_max` bounds the items.
    [[nodiscard]] Result<const JsonValue::Array*> array(std::string_view key, size_t count_max) const;
    [[nodiscard]] Result<std::optional<JsonReader>> object(std::string_view key) const;
    [[nodiscard]] Result<JsonReader> required_object(std::string_view key) const;

    // "path: found, expected ..." for a member of this object.
    [[nodiscard]] tl::unexpected<Error> wrong(std::string_view key, std::string_view expected) const;

  private:
    JsonReader(const JsonValue& value, std::string path) : value_(&value), path_(std::move(path)) {}

    const JsonValue* value_;
    std::string path_;
};

// "path[3]"
[[nodiscard]] std::string item_path(std::string_view path, size_t index);

// Errors of request parsing begin with the place of the fault; this is that place
// ("messages[2].tool_calls[0].id"), or "" where the whole request is at fault.
[[nodiscard]] std::string_view parameter_of(const Error& error);

}  // namespace di
