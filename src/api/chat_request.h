#pragma once

#include <string_view>
#include <vector>

#include "api/json_reader.h"
#include "api/request.h"

namespace di {

// A body of POST /v1/chat/completions. Errors begin with the field (parameter_of()); unknown
// fields are ignored.
[[nodiscard]] Result<Request> parse_chat_request(const JsonValue& body);
[[nodiscard]] Result<Request> parse_chat_request(std::string_view body_text);

// The list `messages` of a chat request, also used where other bodies carry one.
[[nodiscard]] Result<std::vector<Message>> parse_chat_messages(const JsonReader& body);

}  // namespace di
