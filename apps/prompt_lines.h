#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "session/prompt.h"

// The lines of `run --prompts`: {"prompt": text | "prompt_token_ids": [..] | "messages": [..], ...sampling fields}.
namespace di {

// All lines of a file, or of standard input for "-". Empty lines are left out.
[[nodiscard]] Result<std::vector<std::string>> read_prompt_lines(const std::string& path);

// One line over the defaults of the flags. Errors name the field, the value and what was expected.
[[nodiscard]] Result<PromptRequest> parse_prompt_line(std::string_view line, const PromptRequest& defaults);

}  // namespace di
