#pragma once

#include <cstddef>
#include <string>

#include "session/session.h"

namespace di {

// The object that `run --json` prints for a prompt, on one line. Text that is cut inside a character has U+FFFD there.
[[nodiscard]] std::string result_json(size_t index, const PromptResult& result);

}  // namespace di
