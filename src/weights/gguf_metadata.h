#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// The key-value part of a GGUF file, and the bounded reader that both parts of its header are read with.
namespace di {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read as they lie");

// Types of values, numbered as in the file.
enum class GgufType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

[[nodiscard]] std::string_view gguf_type_name(GgufType type);  // "u8", ..., "string", "array"

// Walks over the bytes of a file front to back. Every error names the offset and what was to be read there.
class GgufCursor {
  public:
    explicit GgufCursor(std::span<const uint8_t> file) : file_(file) {}

    [[nodiscard]] int64_t offset() const { return offset_; }
    [[nodiscard]] int64_t left() const { return static_cast<int64_t>(file_.size()) - offset_; }

    // A little-endian number.
    template <typename T>
    [[nodiscard]] Result<T> number(std::string_view field) {
        DI_TRY(const std::span<const uint8_t> bytes, take(sizeof(T), field));
        T value{};
        std::memcpy(&value, bytes.data(), sizeof(T));
        return value;
    }
    // A length and that many bytes, inside the file.
    [[nodiscard]] Result<std::string_view> text(std::string_view field, int64_t bytes_max = INT64_MAX);
    // A count of things that take at least `bytes_min` bytes each, all still to come.
    [[nodiscard]] Result<int64_t> count(std::string_view field, int64_t bytes_min, int64_t count_max);
    [[nodiscard]] Result<std::span<const uint8_t>> take(int64_t bytes, std::string_view field);

  private:
    std::span<const uint8_t> file_;
    int64_t offset_ = 0;
};

// The keys of a file and views of their values. Does not own: the file's bytes must stay. The getters check the type before
// they read; their errors name the key, its value and what was expected.
class GgufMetadata {
  public:
    // Bounds of a value, both allowed.
    struct IntegerRange {
        int64_t min = 0;
        int64_t max = 0;
    };
    struct NumberRange {
        double min = 0.0;
        double max = 0.0;
    };

    // Reads `count` pairs; afterwards every string and array is known to lie inside the file.
    [[nodiscard]] static Result<GgufMetadata> read(GgufCursor& cursor, int64_t count);

    [[nodiscard]] bool has(std::string_view key) const { return values_.contains(key); }
    [[nodiscard]] int64_t size() const { return std::ssize(values_); }
    // In ascending order.
    [[nodiscard]] std::vector<std::string_view> keys() const;
    // A value for a message or a list: "u32 30", "string \"llama\"", "array of 49152 string"; "missing" without one.
    [[nodiscard]] std::string shown(std::string_view key) const;

    // Without a fallback an absent key is an error. Integers of any width count, numbers are f32 or f64.
    [[nodiscard]] Result<int64_t> integer(std::string_view key, IntegerRange range,
                                          std::optional<int64_t> fallback = std::nullopt) const;
    [[nodiscard]] Result<double> number(std::string_view key, NumberRange range,
                                        std::optional<double> fallback = std::nullopt) const;
    [[nodiscard]] Result<bool> boolean(std::string_view key, std::optional<bool> fallback = std::nullopt) const;
    [[nodiscard]] Result<std::string_view> text(std::string_view key,
                                                std::optional<std::string_view> fallback = std::nullopt) const;

    // Arrays of exactly this element type and of at most `count_max` elements; an absent key is an error.
    [[nodiscard]] Result<std::vector<std::string_view>> texts(std::string_view key, int64_t count_max) const;
    [[nodiscard]] Result<std::vector<int32_t>> small_integers(std::string_view key, int64_t count_max) const;
    [[nodiscard]] Result<std::vector<float>> numbers(std::string_view key, int64_t count_max) const;

  private:
    struct Value {
        GgufType type = GgufType::kU8;
        GgufType element = GgufType::kU8;  // of an array
        int64_t count = 0;                 // elements of an array
        std::span<const uint8_t> bytes;    // without a string's or an array's length
    };

    [[nodiscard]] static Result<Value> read_value(GgufCursor& cursor, const std::string& field);
    [[nodiscard]] static Result<Value> read_array(GgufCursor& cursor, const std::string& field);
    [[nodiscard]] const Value* find(std::string_view key) const;
    [[nodiscard]] Result<const Value*> find_array(std::string_view key, GgufType element, int64_t count_max) const;
    [[nodiscard]] tl::unexpected<Error> rejected(std::string_view key, std::string_view expected) const;

    std::map<std::string, Value, std::less<>> values_;
};

}  // namespace di
