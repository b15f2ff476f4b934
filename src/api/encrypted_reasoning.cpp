#include "api/encrypted_reasoning.h"

#include "base/base64.h"
#include "text/unicode.h"

namespace di {
namespace {

constexpr std::string_view kVersionTag = "di1.";

}  // namespace

std::string seal_reasoning(std::string_view text) { return std::string(kVersionTag) + encode_base64(text); }

std::optional<std::string> open_reasoning(std::string_view blob) {
    if (!blob.starts_with(kVersionTag)) {
        return std::nullopt;
    }
    auto text = decode_base64(blob.substr(kVersionTag.size()));
    if (!text || !is_valid_utf8(*text)) {
        return std::nullopt;
    }
    return std::move(*text);
}

}  // namespace di
