#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "text/conversation.h"

namespace di {

// The images of all image parts, in the order of the prompt. All are data URLs: nothing is fetched.
[[nodiscard]] Result<std::vector<std::string>> conversation_images(const Conversation& conversation);

}  // namespace di
