#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/conversation.h"

namespace di {

// The encoded image that a data URL holds: "data:image/png;base64,....". Nothing is fetched: another address is an
// error that says so.
[[nodiscard]] Result<std::string> decode_image_url(std::string_view url);

// The images of all image parts, in the order of the prompt.
[[nodiscard]] Result<std::vector<std::string>> conversation_images(const Conversation& conversation);

}  // namespace di
