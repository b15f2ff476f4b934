#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/request.h"
#include "base/result.h"

// What a client is told when its request fails (spec: HTTP interface, section 9).
namespace di {

enum class ApiErrorKind : uint8_t {
    kInvalidRequest,        // 400
    kContextLength,         // 400, context_length_exceeded
    kPreviousResponse,      // 400, previous_response_not_found
    kUnsupportedParameter,  // 400
    kAuthentication,        // 401
    kPermission,            // 403
    kModelNotFound,         // 404
    kNotFound,              // 404
    kMethodNotAllowed,      // 405
    kTooLarge,              // 413
    kUnsupportedMediaType,  // 415
    kRateLimit,             // 429
    kInternal,              // 500
    kUnavailable,           // 503: loading, draining, no worker
    kOverloaded,            // 503 (Messages: 529): a limit of this moment
    kTimeout,               // 504
};

struct ApiError {
    ApiErrorKind kind = ApiErrorKind::kInternal;
    std::string message;                 // for the person; valid UTF-8
    std::string parameter{};             // path of the field; "" where the whole request is at fault
    std::optional<int> retry_after_s{};  // header Retry-After
};

// A fault of parsing, rendering or the engine as the client sees it: the field becomes `parameter`.
[[nodiscard]] ApiError api_error_of(const Error& error);

[[nodiscard]] int http_status(ApiErrorKind kind, Dialect dialect);
// The body in the dialect's shape, one line of JSON. Bytes of the message that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string error_body(const ApiError& error, Dialect dialect, std::string_view request_id);
// "code" of OpenAI's shape: "invalid_request_error", "internal_error", ...; "" where it is null.
[[nodiscard]] std::string_view error_code_text(ApiErrorKind kind);

}  // namespace di
