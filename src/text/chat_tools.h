#pragma once

#include <span>

#include "base/result.h"
#include "text/chat_encoding.h"
#include "text/prompt_writer.h"

namespace di {

// The block that tells the model which tools it has and how to call them. At least one tool.
[[nodiscard]] Status write_tool_declarations(PromptWriter& writer, std::span<const Tool* const> tools, ChatDialect dialect);

// The calls of an assistant turn, with the empty line before them. At least one call.
void write_tool_calls(PromptWriter& writer, std::span<const ToolCall> calls, ChatDialect dialect);

// The opening of a tool block, at the end of a prompt that forces a call.
void write_tool_block_opening(PromptWriter& writer, ChatDialect dialect);

}  // namespace di
