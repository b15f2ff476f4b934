#include "weights/gguf_metadata.h"

#include <array>
#include <utility>

#include "base/check.h"
#include "weights/json_events.h"
#include "weights/limits.h"

namespace di {

namespace {

struct TypeTraits {
    std::string_view name;
    int64_t bytes;  // of one value; at least this many for strings and arrays
};

constexpr std::array<TypeTraits, 13> kTypes{{
    {"u8", 1},
    {"i8", 1},
    {"u16", 2},
    {"i16", 2},
    {"u32", 4},
    {"i32", 4},
    {"f32", 4},
    {"bool", 1},
    {"string", 8},
    {"array", 12},
    {"u64", 8},
    {"i64", 8},
    {"f64", 8},
}};

const TypeTraits& traits(GgufType type) { return kTypes[static_cast<size_t>(type)]; }

Result<GgufType> read_type(GgufCursor& cursor, const std::string& field) {
    const int64_t offset = cursor.offset();
    DI_TRY(const uint32_t number, cursor.number<uint32_t>(field));
    if (number >= kTypes.size()) {
        return fail(ErrorCode::kInvalidFile, "offset {}: {} is {}, expected 0 to {}", offset, field, number, kTypes.size() - 1);
    }
    return static_cast<GgufType>(number);
}

template <typename T>
T read_number(std::span<const uint8_t> bytes, int64_t index = 0) {
    T value{};
    std::memcpy(&value, bytes.data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
}

// A value of any integer type; none when it is something else or beyond int64_t.
std::optional<int64_t> as_integer(GgufType type, std::span<const uint8_t> bytes) {
    switch (type) {
        case GgufType::kU8: return read_number<uint8_t>(bytes);
        case GgufType::kI8: return read_number<int8_t>(bytes);
        case GgufType::kU16: return read_number<uint16_t>(bytes);
        case GgufType::kI16: return read_number<int16_t>(bytes);
        case GgufType::kU32: return read_number<uint32_t>(bytes);
        case GgufType::kI32: return read_number<int32_t>(bytes);
        case GgufType::kI64: return read_number<int64_t>(bytes);
        case GgufType::kU64: {
            const auto value = read_number<uint64_t>(bytes);
            return value <= static_cast<uint64_t>(INT64_MAX) ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
        }
        case GgufType::kF32:
        case GgufType::kF64:
        case GgufType::kBool:
        case GgufType::kString:
        case GgufType::kArray: return std::nullopt;
    }
    return std::nullopt;
}

std::optional<double> as_number(GgufType type, std::span<const uint8_t> bytes) {
    if (type == GgufType::kF32) {
        return read_number<float>(bytes);
    }
    return type == GgufType::kF64 ? std::optional(read_number<double>(bytes)) : std::nullopt;
}

}  // namespace

std::string_view gguf_type_name(GgufType type) { return traits(type).name; }

// --- GgufCursor ---------------------------------------------------------------

Result<std::span<const uint8_t>> GgufCursor::take(int64_t bytes, std::string_view field) {
    DI_CHECK(bytes >= 0, "a length is not negative");
    if (bytes > left()) {
        return fail(ErrorCode::kInvalidFile, "offset {}: {} needs {} bytes, the file has {} more", offset_, field, bytes,
                    left());
    }
    const auto taken = file_.subspan(static_cast<size_t>(offset_), static_cast<size_t>(bytes));
    offset_ += bytes;
    return taken;
}

Result<std::string_view> GgufCursor::text(std::string_view field, int64_t bytes_max) {
    const int64_t start = offset_;
    DI_TRY(const uint64_t length, number<uint64_t>(field));
    if (std::cmp_greater(length, left())) {
        return fail(ErrorCode::kInvalidFile, "offset {}: {} is {} bytes long, the file has {} more", start, field, length,
                    left());
    }
    if (std::cmp_greater(length, bytes_max)) {
        return fail(ErrorCode::kInvalidFile, "offset {}: {} is {} bytes long, expected at most {}", start, field, length,
                    bytes_max);
    }
    DI_TRY(const std::span<const uint8_t> bytes, take(static_cast<int64_t>(length), field));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<int64_t> GgufCursor::count(std::string_view field, int64_t bytes_min, int64_t count_max) {
    const int64_t start = offset_;
    DI_TRY(const uint64_t count, number<uint64_t>(field));
    if (std::cmp_greater(count, count_max)) {
        return fail(ErrorCode::kInvalidFile, "offset {}: {} is {}, expected at most {}", start, field, count, count_max);
    }
    if (std::cmp_greater(count, left() / bytes_min)) {
        return fail(ErrorCode::kInvalidFile, "offset {}: {} is {}, the file has {} more bytes, at least {} for each are needed",
                    start, field, count, left(), bytes_min);
    }
    return static_cast<int64_t>(count);
}

// --- GgufMetadata: reading ------------------------------------------------------

Result<GgufMetadata> GgufMetadata::read(GgufCursor& cursor, int64_t count) {
    GgufMetadata metadata;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t offset = cursor.offset();
        DI_TRY(const std::string_view key, cursor.text(fmt::format("key {}", i), limits::kGgufKeyBytesMax));
        const std::string shown_key = quoted_for_message(key);
        if (key.empty()) {
            return fail(ErrorCode::kInvalidFile, "offset {}: key {} is empty", offset, i);
        }
        DI_TRY(const Value value, read_value(cursor, shown_key));
        if (!metadata.values_.emplace(key, value).second) {
            return fail(ErrorCode::kInvalidFile, "offset {}: key {} occurs twice", offset, shown_key);
        }
    }
    return metadata;
}

Result<GgufMetadata::Value> GgufMetadata::read_value(GgufCursor& cursor, const std::string& field) {
    DI_TRY(const GgufType type, read_type(cursor, "type of " + field));
    if (type == GgufType::kArray) {
        return read_array(cursor, field);
    }
    Value value{.type = type, .element = type, .count = 1, .bytes = {}};
    if (type == GgufType::kString) {
        DI_TRY(const std::string_view text, cursor.text(field));
        value.bytes = {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
        return value;
    }
    const int64_t offset = cursor.offset();
    DI_TRY(value.bytes, cursor.take(traits(type).bytes, field));
    if (type == GgufType::kBool && value.bytes[0] > 1) {
        return fail(ErrorCode::kInvalidFile, "offset {}: bool {} is {}, expected 0 or 1", offset, field, value.bytes[0]);
    }
    return value;
}

Result<GgufMetadata::Value> GgufMetadata::read_array(GgufCursor& cursor, const std::string& field) {
    Value value{.type = GgufType::kArray, .element = GgufType::kU8, .count = 0, .bytes = {}};
    DI_TRY(value.element, read_type(cursor, "element type of " + field));
    if (value.element == GgufType::kArray) {
        return fail(ErrorCode::kUnsupported, "offset {}: {} is an array of arrays, which no known key is", cursor.offset(),
                    field);
    }
    const std::string length_field = "length of " + field;
    DI_TRY(value.count, cursor.count(length_field, traits(value.element).bytes, INT64_MAX));
    if (value.element != GgufType::kString) {
        DI_TRY(value.bytes, cursor.take(value.count * traits(value.element).bytes, field));
        return value;
    }
    GgufCursor start = cursor;
    const std::string element_field = "a string of " + field;
    for (int64_t i = 0; i < value.count; ++i) {
        DI_TRY([[maybe_unused]] const std::string_view text, cursor.text(element_field));
    }
    DI_TRY(value.bytes, start.take(cursor.offset() - start.offset(), field));
    return value;
}

// --- GgufMetadata: getters ------------------------------------------------------

const GgufMetadata::Value* GgufMetadata::find(std::string_view key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
}

std::vector<std::string_view> GgufMetadata::keys() const {
    std::vector<std::string_view> keys;
    keys.reserve(values_.size());
    for (const auto& [key, value] : values_) {
        keys.emplace_back(key);
    }
    return keys;
}

std::string GgufMetadata::shown(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) {
        return "missing";
    }
    if (value->type == GgufType::kArray) {
        return fmt::format("array of {} {}", value->count, gguf_type_name(value->element));
    }
    if (value->type == GgufType::kString) {
        const std::string_view text(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
        return fmt::format("string \"{}\"", quoted_for_message(text));
    }
    if (value->type == GgufType::kBool) {
        return fmt::format("bool {}", value->bytes[0] != 0);
    }
    if (const auto number = as_number(value->type, value->bytes)) {
        return fmt::format("{} {}", gguf_type_name(value->type), *number);
    }
    if (const auto integer = as_integer(value->type, value->bytes)) {
        return fmt::format("{} {}", gguf_type_name(value->type), *integer);
    }
    return fmt::format("{} {}", gguf_type_name(value->type), read_number<uint64_t>(value->bytes));
}

tl::unexpected<Error> GgufMetadata::rejected(std::string_view key, std::string_view expected) const {
    return fail(ErrorCode::kInvalidFile, "{} is {}, expected {}", key, shown(key), expected);
}

Result<int64_t> GgufMetadata::integer(std::string_view key, IntegerRange range, std::optional<int64_t> fallback) const {
    const Value* value = find(key);
    if (value == nullptr && fallback) {
        return *fallback;
    }
    const auto integer = value == nullptr ? std::nullopt : as_integer(value->type, value->bytes);
    if (!integer || *integer < range.min || *integer > range.max) {
        return rejected(key, fmt::format("an integer from {} to {}", range.min, range.max));
    }
    return *integer;
}

Result<double> GgufMetadata::number(std::string_view key, NumberRange range, std::optional<double> fallback) const {
    const Value* value = find(key);
    if (value == nullptr && fallback) {
        return *fallback;
    }
    const auto number = value == nullptr ? std::nullopt : as_number(value->type, value->bytes);
    // Written so that NaN is out of range.
    if (!number || !(*number >= range.min && *number <= range.max)) {
        return rejected(key, fmt::format("an f32 or f64 from {} to {}", range.min, range.max));
    }
    return *number;
}

Result<bool> GgufMetadata::boolean(std::string_view key, std::optional<bool> fallback) const {
    const Value* value = find(key);
    if (value == nullptr && fallback) {
        return *fallback;
    }
    if (value == nullptr || value->type != GgufType::kBool) {
        return rejected(key, "a bool");
    }
    return value->bytes[0] != 0;
}

Result<std::string_view> GgufMetadata::text(std::string_view key, std::optional<std::string_view> fallback) const {
    const Value* value = find(key);
    if (value == nullptr && fallback) {
        return *fallback;
    }
    if (value == nullptr || value->type != GgufType::kString) {
        return rejected(key, "a string");
    }
    return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

Result<const GgufMetadata::Value*> GgufMetadata::find_array(std::string_view key, GgufType element, int64_t count_max) const {
    const Value* value = find(key);
    if (value == nullptr || value->type != GgufType::kArray || value->element != element || value->count > count_max) {
        return rejected(key, fmt::format("an array of at most {} {}", count_max, gguf_type_name(element)));
    }
    return value;
}

Result<std::vector<std::string_view>> GgufMetadata::texts(std::string_view key, int64_t count_max) const {
    DI_TRY(const Value* value, find_array(key, GgufType::kString, count_max));
    GgufCursor cursor(value->bytes);
    std::vector<std::string_view> texts;
    texts.reserve(static_cast<size_t>(value->count));
    for (int64_t i = 0; i < value->count; ++i) {
        DI_TRY(const std::string_view text, cursor.text(key));
        texts.push_back(text);
    }
    return texts;
}

Result<std::vector<int32_t>> GgufMetadata::small_integers(std::string_view key, int64_t count_max) const {
    DI_TRY(const Value* value, find_array(key, GgufType::kI32, count_max));
    std::vector<int32_t> integers(static_cast<size_t>(value->count));
    if (!integers.empty()) {
        std::memcpy(integers.data(), value->bytes.data(), value->bytes.size());
    }
    return integers;
}

Result<std::vector<float>> GgufMetadata::numbers(std::string_view key, int64_t count_max) const {
    DI_TRY(const Value* value, find_array(key, GgufType::kF32, count_max));
    std::vector<float> numbers(static_cast<size_t>(value->count));
    if (!numbers.empty()) {
        std::memcpy(numbers.data(), value->bytes.data(), value->bytes.size());
    }
    return numbers;
}

}  // namespace di
