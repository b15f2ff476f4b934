#pragma once

#include <cstdint>

#include "api/limits.h"
#include "api/request.h"

namespace di {

// What one request may ask for. The parsers refuse what is beyond api/limits.h; a server may be told to allow less.
struct RequestLimits {
    int64_t output_tokens_max = kOutputTokensMax;
    int64_t messages_max = static_cast<int64_t>(kMessagesMax);
    int64_t images_max = static_cast<int64_t>(kRequestImagesMax);
    int64_t tools_max = static_cast<int64_t>(kToolsMax);
    int64_t tool_schema_bytes_max = static_cast<int64_t>(kToolSchemaBytesMax);
    int64_t choices_max = kChoicesMax;
    int64_t stop_strings_max = static_cast<int64_t>(kStopStringsMax);
    int64_t stop_string_bytes_max = static_cast<int64_t>(kStopStringBytesMax);
    int64_t top_logprobs_max = kTopLogprobsMax;
};

// The error begins with the request's field. An output limit that is too high is an error, but in Messages, which lowers
// it: `request` is changed there.
[[nodiscard]] Status apply_request_limits(const RequestLimits& limits, Request& request);

}  // namespace di
