#pragma once

// Writes GGUF files for tests, right ones and wrong ones. Independent of src/weights on purpose: a test must not believe
// the reader that it tests.
//
//     GgufBuilder file;
//     file.text("general.architecture", "llama").number<uint32_t>("llama.block_count", 2);
//     file.tensor("token_embd.weight", 0, {64, 100}, bytes);
//     directory.write("model.gguf", file.build());

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace di {

class GgufBuilder {
  public:
    enum : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

    uint32_t version = 3;
    uint64_t alignment = 32;          // of the data; the key general.alignment is the caller's
    int64_t missing_bytes = 0;        // cut from the end
    uint64_t tensor_count_added = 0;  // lies about the counts
    uint64_t key_count_added = 0;

    // A number as it lies in memory.
    template <typename T>
    static std::string bytes_of(T value) {
        std::string bytes(sizeof(T), '\0');
        std::memcpy(bytes.data(), &value, sizeof(T));
        return bytes;
    }
    static std::string string_of(std::string_view text) { return bytes_of<uint64_t>(text.size()) + std::string(text); }

    // A key with any bytes behind its type.
    GgufBuilder& raw(std::string_view key, uint32_t type, const std::string& value) {
        pairs_ += string_of(key) + bytes_of(type) + value;
        ++pair_count_;
        return *this;
    }
    template <typename T>
    GgufBuilder& number(std::string_view key, T value) {
        return raw(key, type_of<T>(), bytes_of(value));
    }
    GgufBuilder& text(std::string_view key, std::string_view value) { return raw(key, kString, string_of(value)); }
    GgufBuilder& boolean(std::string_view key, bool value) { return raw(key, kBool, std::string(1, value ? '\1' : '\0')); }
    GgufBuilder& texts(std::string_view key, const std::vector<std::string>& values) {
        std::string bytes = bytes_of<uint32_t>(kString) + bytes_of<uint64_t>(values.size());
        for (const std::string& value : values) {
            bytes += string_of(value);
        }
        return raw(key, kArray, bytes);
    }
    template <typename T>
    GgufBuilder& numbers(std::string_view key, const std::vector<T>& values) {
        std::string bytes = bytes_of(type_of<T>()) + bytes_of<uint64_t>(values.size());
        for (const T value : values) {
            bytes += bytes_of(value);
        }
        return raw(key, kArray, bytes);
    }

    // `dims` as in the file, row length first. The data goes behind that of the tensors so far.
    GgufBuilder& tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& dims, const std::string& data) {
        data_.resize((data_.size() + alignment - 1) / alignment * alignment);
        describe(name, type, dims, data_.size());
        data_ += data;
        return *this;
    }
    // A description alone.
    GgufBuilder& describe(std::string_view name, uint32_t type, const std::vector<uint64_t>& dims, uint64_t offset) {
        tensors_ += string_of(name) + bytes_of(static_cast<uint32_t>(dims.size()));
        for (const uint64_t dim : dims) {
            tensors_ += bytes_of(dim);
        }
        tensors_ += bytes_of(type) + bytes_of(offset);
        ++tensor_count_;
        return *this;
    }

    [[nodiscard]] std::string build() const {
        std::string file = "GGUF" + bytes_of(version) + bytes_of(tensor_count_ + tensor_count_added) +
                           bytes_of(pair_count_ + key_count_added) + pairs_ + tensors_;
        if (tensor_count_ > 0) {
            file.resize((file.size() + alignment - 1) / alignment * alignment);
        }
        file += data_;
        file.resize(file.size() - static_cast<size_t>(missing_bytes));
        return file;
    }

  private:
    template <typename T>
    static uint32_t type_of() {
        if constexpr (std::is_same_v<T, float>) {
            return kF32;
        } else if constexpr (std::is_same_v<T, double>) {
            return kF64;
        } else {
            static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>, "booleans have a function of their own");
            constexpr bool kIsSigned = std::is_signed_v<T>;
            switch (sizeof(T)) {
                case 1: return kIsSigned ? kI8 : kU8;
                case 2: return kIsSigned ? kI16 : kU16;
                case 4: return kIsSigned ? kI32 : kU32;
                default: return kIsSigned ? kI64 : kU64;
            }
        }
    }

    std::string pairs_;
    std::string tensors_;
    std::string data_;
    uint64_t pair_count_ = 0;
    uint64_t tensor_count_ = 0;
};

}  // namespace di
