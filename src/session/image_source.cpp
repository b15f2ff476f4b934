#include "session/image_source.h"

#include <array>
#include <cstdint>
#include <utility>

#include "text/json_text.h"
#include "text/limits.h"

namespace di {
namespace {

constexpr std::array<int8_t, 256> make_values() {
    std::array<int8_t, 256> values{};
    values.fill(-1);
    constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < kAlphabet.size(); ++i) {
        values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
    }
    return values;
}
constexpr std::array<int8_t, 256> kValues = make_values();

Result<std::string> decode_base64(std::string_view text) {
    const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
    const std::string_view digits = text.substr(0, text.size() - padding);
    std::string bytes;
    bytes.reserve(digits.size() / 4 * 3 + 3);
    uint32_t group = 0;
    int bits = 0;
    for (size_t i = 0; i < digits.size(); ++i) {
        const int8_t value = kValues[static_cast<unsigned char>(digits[i])];
        if (value < 0) {
            return fail(ErrorCode::kInvalidArgument, "image data: byte {:#04x} at {}, expected base64",
                        static_cast<unsigned char>(digits[i]), i);
        }
        group = (group << 6U) | static_cast<uint32_t>(value);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes += static_cast<char>(group >> static_cast<uint32_t>(bits) & 0xFFU);
        }
    }
    if (digits.size() % 4 == 1) {
        return fail(ErrorCode::kInvalidArgument, "image data: {} base64 digits, which is never a whole number of bytes",
                    digits.size());
    }
    return bytes;
}

}  // namespace

Result<std::string> decode_image_url(std::string_view url) {
    constexpr std::string_view kMark = ";base64,";
    const size_t comma = url.find(kMark);
    if (!url.starts_with("data:image/") || comma == std::string_view::npos) {
        return fail(ErrorCode::kInvalidArgument, "image address {}, expected data:image/...;base64,...", short_quoted(url));
    }
    const std::string_view data = url.substr(comma + kMark.size());
    if (data.size() / 4 * 3 > kImageBytesMax) {
        return fail(ErrorCode::kInvalidArgument, "image data of about {} bytes, expected at most {}", data.size() / 4 * 3,
                    kImageBytesMax);
    }
    return decode_base64(data);
}

Result<std::vector<std::string>> conversation_images(const Conversation& conversation) {
    std::vector<std::string> images;
    for (const Message& message : conversation.messages) {
        for (const ContentPart& part : message.parts) {
            if (part.kind != ContentPart::Kind::kImage) {
                continue;
            }
            auto image = decode_image_url(part.image_url);
            if (!image) {
                return fail_in(part.path, std::move(image.error()));
            }
            images.push_back(std::move(*image));
        }
    }
    return images;
}

}  // namespace di
