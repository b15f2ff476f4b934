#pragma once

#include <string_view>

#include "api/request.h"

namespace di {

// A body of POST /v1/messages (or of its count_tokens). Errors begin with the field.
[[nodiscard]] Result<Request> parse_messages_request(const JsonValue& body);
[[nodiscard]] Result<Request> parse_messages_request(std::string_view body_text);

}  // namespace di
