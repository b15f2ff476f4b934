#include "base/base64.h"

#include <array>
#include <cstdint>

namespace di {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> make_values() {
    std::array<int8_t, 256> values{};
    values.fill(-1);
    for (size_t i = 0; i < kAlphabet.size(); ++i) {
        values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
    }
    return values;
}
constexpr std::array<int8_t, 256> kValues = make_values();

}  // namespace

std::string encode_base64(std::string_view bytes) {
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (size_t i = 0; i < bytes.size(); i += 3) {
        const std::string_view group = bytes.substr(i, 3);
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; ++k) {
            bits = bits << 8U | (k < group.size() ? static_cast<unsigned char>(group[k]) : 0U);
        }
        for (size_t k = 0; k < 4; ++k) {
            text += k <= group.size() ? kAlphabet[bits >> (18 - 6 * k) & 63U] : '=';
        }
    }
    return text;
}

Result<std::string> decode_base64(std::string_view text) {
    const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
    const std::string_view digits = text.substr(0, text.size() - padding);
    std::string bytes;
    bytes.reserve(digits.size() / 4 * 3 + 3);
    uint32_t group = 0;
    uint32_t bit_count = 0;
    for (size_t i = 0; i < digits.size(); ++i) {
        const int8_t value = kValues[static_cast<unsigned char>(digits[i])];
        if (value < 0) {
            return fail(ErrorCode::kInvalidArgument, "byte {:#04x} at {}, expected base64",
                        static_cast<unsigned char>(digits[i]), i);
        }
        group = (group << 6U) | static_cast<uint32_t>(value);
        bit_count += 6;
        if (bit_count >= 8) {
            bit_count -= 8;
            bytes += static_cast<char>(group >> bit_count & 0xFFU);
        }
    }
    if (digits.size() % 4 == 1) {
        return fail(ErrorCode::kInvalidArgument, "{} base64 digits, which is never a whole number of bytes", digits.size());
    }
    return bytes;
}

}  // namespace di
