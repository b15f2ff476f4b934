#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/json_reader.h"
#include "api/request.h"

namespace di {

// A body of POST /v1/responses. With `previous_response_id` the messages are only those of this
// request: whoever has the store puts the earlier ones in front and then asks check_request(), which
// is left out here in that case.
[[nodiscard]] Result<Request> parse_responses_request(const JsonValue& body);
[[nodiscard]] Result<Request> parse_responses_request(std::string_view body_text);

// Items of a Responses input (or of a stored chain) as messages: `reasoning`, assistant `message`
// and call items in a row become one assistant message.
[[nodiscard]] Result<std::vector<Message>> parse_response_items(const JsonValue::Array& items, const std::string& path);

}  // namespace di
