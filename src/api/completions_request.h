#pragma once

#include <string_view>

#include "api/request.h"
#include "text/json_text.h"

namespace di {

struct CompletionsRules {
    bool allows_suffix = false;  // fill in the middle (--enable-fim)
};

// A body of POST /v1/completions. Errors begin with the field; unknown fields are ignored.
[[nodiscard]] Result<Request> parse_completions_request(const JsonValue& body, const CompletionsRules& rules = {});
[[nodiscard]] Result<Request> parse_completions_request(std::string_view body_text, const CompletionsRules& rules = {});

}  // namespace di
