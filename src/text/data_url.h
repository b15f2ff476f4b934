#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace di {

// The encoded image that a data URL holds: "data:image/png;base64,iVBO..." or percent-encoded, "data:image/png,%89PNG..."
// (RFC 2397). Nothing is fetched: another address is an error that says so.
[[nodiscard]] Result<std::string> decode_image_url(std::string_view url);

}  // namespace di
