#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace di {

// Base64 with the standard alphabet and padding.
[[nodiscard]] std::string encode_base64(std::string_view bytes);
// Padding may be missing; blanks and line ends are errors.
[[nodiscard]] Result<std::string> decode_base64(std::string_view text);

}  // namespace di
