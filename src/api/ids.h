#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/random.h"

// Names of answers and their parts (spec: HTTP interface, section 1). They need not be secret, only different.
namespace di {

// "chatcmpl-" and 32 hexadecimal digits.
[[nodiscard]] std::string new_id(std::string_view prefix, Random& random);

inline constexpr std::string_view kChatIdPrefix = "chatcmpl-";
inline constexpr std::string_view kCompletionIdPrefix = "cmpl-";
inline constexpr std::string_view kResponseIdPrefix = "resp_";
inline constexpr std::string_view kMessageIdPrefix = "msg_";
inline constexpr std::string_view kRequestIdPrefix = "req_";

// "call_07_" and 24 letters and digits; `index` counts the calls of an answer.
[[nodiscard]] std::string new_call_id(int32_t index, Random& random);

// "rs_<response>_<index>": an item of a Responses answer.
[[nodiscard]] std::string item_id(std::string_view kind, std::string_view response_id, int64_t index);

// What a client may name its request: 1 to 128 printable ASCII characters.
[[nodiscard]] bool is_request_id(std::string_view text);

}  // namespace di
