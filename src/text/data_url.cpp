#include "text/data_url.h"

#include <algorithm>
#include <utility>

#include "base/base64.h"
#include "base/hex.h"
#include "text/json_text.h"
#include "text/limits.h"

namespace di {
namespace {

// Bytes that stand for themselves are printable ASCII: of others nobody knows which bytes of a file they were.
Result<std::string> percent_decoded(std::string_view text) {
    std::string decoded;
    decoded.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte < 0x20 || byte > 0x7e) {
            return fail(ErrorCode::kInvalidArgument, "byte {:#04x} at {}, expected it percent-encoded", byte, i);
        }
        if (text[i] != '%') {
            decoded += text[i];
            continue;
        }
        const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
        const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
        if (high < 0 || low < 0) {
            return fail(ErrorCode::kInvalidArgument, "% at {}, expected two hexadecimal digits behind it", i);
        }
        decoded += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return decoded;
}

// Before anything is allocated. The number of bytes is exact but for the padding and for wrong input.
Status check_size(std::string_view data, bool is_base64) {
    const auto escapes = static_cast<size_t>(std::count(data.begin(), data.end(), '%'));
    const size_t characters = data.size() - std::min(data.size(), escapes * 2);
    const size_t bytes = is_base64 ? characters / 4 * 3 : characters;
    if (bytes > kImageBytesMax) {
        return fail(ErrorCode::kInvalidArgument, "image data of about {} bytes, expected at most {}", bytes, kImageBytesMax);
    }
    return {};
}

Result<std::string> decode_data(std::string_view data, bool is_base64) {
    if (!is_base64) {
        return percent_decoded(data);
    }
    if (data.find('%') == std::string_view::npos) {
        return decode_base64(data);
    }
    // '+', '/' and '=' may be escaped in a URL.
    DI_TRY(const std::string digits, percent_decoded(data));
    return decode_base64(digits);
}

}  // namespace

Result<std::string> decode_image_url(std::string_view url) {
    const size_t comma = url.find(',');
    if (!url.starts_with("data:image/") || comma == std::string_view::npos) {
        return fail(ErrorCode::kInvalidArgument, "image address {}, expected data:image/...;base64,... or data:image/...,%...",
                    short_quoted(url));
    }
    const bool is_base64 = url.substr(0, comma).ends_with(";base64");
    const std::string_view data = url.substr(comma + 1);
    DI_TRY_STATUS(check_size(data, is_base64));
    Result<std::string> image = decode_data(data, is_base64);
    if (!image) {
        return fail_in("image data", std::move(image.error()));
    }
    return image;
}

}  // namespace di
