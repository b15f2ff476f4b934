#pragma once

#include <cstdint>
#include <optional>

#include "api/json_reader.h"
#include "api/request.h"

namespace di {

struct ThinkingFields {
    bool is_thinking = true;
    int32_t effort = kEffortHigh;
    bool has_mode = false;                 // the client said on or off, not only how much
    std::optional<int64_t> budget_tokens;  // a wish for the length of the reasoning
};

// Whether and how hard the model shall think, from the fields of a dialect:
// chat `thinking`, `reasoning_effort`, `chat_template_kwargs`; Responses `reasoning.effort`;
// Messages `thinking`, `output_config.effort`.
[[nodiscard]] Result<ThinkingFields> parse_thinking_fields(const JsonReader& body, Dialect dialect);

}  // namespace di
