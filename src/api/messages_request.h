#pragma once

#include <string_view>

#include "api/request.h"

namespace di {

// What a server may decide about this protocol.
struct MessagesRules {
    bool drops_server_tools = false;     // tools that would run on Anthropic's side: left out instead of refused
    bool is_thinking_by_default = true;  // where a request says nothing about it
};

// A body of POST /v1/messages (or of its count_tokens). Errors begin with the field.
[[nodiscard]] Result<Request> parse_messages_request(const JsonValue& body, const MessagesRules& rules = {});
[[nodiscard]] Result<Request> parse_messages_request(std::string_view body_text, const MessagesRules& rules = {});

}  // namespace di
