#include "api/api_error.h"

#include <array>
#include <utility>

#include "api/json_reader.h"
#include "api/json_writing.h"
#include "base/check.h"

namespace di {
namespace {

struct ErrorShape {
    ApiErrorKind kind;
    int status;
    int messages_status;
    std::string_view type;
    std::string_view code;  // "" = null
    std::string_view messages_type;
};

constexpr std::string_view kInvalid = "invalid_request_error";
constexpr int kStatusOverloaded = 529;  // a status of the Messages protocol alone

constexpr std::array kShapes = {
    ErrorShape{ApiErrorKind::kInvalidRequest, 400, 400, kInvalid, kInvalid, kInvalid},
    ErrorShape{ApiErrorKind::kContextLength, 400, 400, kInvalid, "context_length_exceeded", kInvalid},
    ErrorShape{ApiErrorKind::kPreviousResponse, 400, 400, kInvalid, "previous_response_not_found", kInvalid},
    ErrorShape{ApiErrorKind::kUnsupportedParameter, 400, 400, kInvalid, "unsupported_parameter", kInvalid},
    ErrorShape{ApiErrorKind::kAuthentication, 401, 401, kInvalid, "invalid_api_key", "authentication_error"},
    ErrorShape{ApiErrorKind::kPermission, 403, 403, "permission_error", "", "permission_error"},
    ErrorShape{ApiErrorKind::kModelNotFound, 404, 404, kInvalid, "model_not_found", "not_found_error"},
    ErrorShape{ApiErrorKind::kNotFound, 404, 404, kInvalid, "", "not_found_error"},
    ErrorShape{ApiErrorKind::kMethodNotAllowed, 405, 405, kInvalid, "", "not_found_error"},
    ErrorShape{ApiErrorKind::kTooLarge, 413, 413, kInvalid, "request_too_large", "request_too_large"},
    ErrorShape{ApiErrorKind::kUnsupportedMediaType, 415, 415, kInvalid, "unsupported_media_type", kInvalid},
    ErrorShape{ApiErrorKind::kRateLimit, 429, 429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error"},
    ErrorShape{ApiErrorKind::kInternal, 500, 500, "server_error", "internal_error", "api_error"},
    ErrorShape{ApiErrorKind::kUnavailable, 503, 503, "server_error", "service_unavailable", "overloaded_error"},
    ErrorShape{ApiErrorKind::kOverloaded, 503, kStatusOverloaded, "server_error", "service_unavailable", "overloaded_error"},
    ErrorShape{ApiErrorKind::kTimeout, 504, 504, "server_error", "timeout", "timeout_error"},
};

const ErrorShape& shape_of(ApiErrorKind kind) {
    for (const ErrorShape& shape : kShapes) {
        if (shape.kind == kind) {
            return shape;
        }
    }
    DI_CHECK(false, "every kind of error has a row");
    return kShapes.front();
}

// Seconds after which a limit of the moment is worth another try.
constexpr int kRetryAfterS = 1;

}  // namespace

ApiError api_error_of(const Error& error) {
    ApiError result;
    result.message = error.text;
    result.parameter = parameter_of(error);
    switch (error.code) {
        case ErrorCode::kInvalidArgument: result.kind = ApiErrorKind::kInvalidRequest; break;
        case ErrorCode::kUnsupported: result.kind = ApiErrorKind::kUnsupportedParameter; break;
        case ErrorCode::kContextExceeded: result.kind = ApiErrorKind::kContextLength; break;
        case ErrorCode::kTimedOut: result.kind = ApiErrorKind::kTimeout; break;
        case ErrorCode::kUnavailable:  // the queue is full, or the first token too far away
        case ErrorCode::kOutOfMemory:
            result.kind = ApiErrorKind::kRateLimit;
            result.retry_after_s = kRetryAfterS;
            break;
        case ErrorCode::kNotFound:  // a file or a tensor of ours, nothing that the client named
        case ErrorCode::kInvalidFile:
        case ErrorCode::kInternal: result.kind = ApiErrorKind::kInternal; break;
    }
    if (http_status(result.kind, Dialect::kChat) != 400) {
        result.parameter.clear();  // what the message begins with is no field of the request
    }
    return result;
}

int http_status(ApiErrorKind kind, Dialect dialect) {
    const ErrorShape& shape = shape_of(kind);
    return dialect == Dialect::kMessages ? shape.messages_status : shape.status;
}

std::string error_body(const ApiError& error, Dialect dialect, std::string_view request_id) {
    const ErrorShape& shape = shape_of(error.kind);
    if (dialect == Dialect::kMessages) {
        JsonValue inner = JsonObject().text("type", shape.messages_type).text("message", error.message).take();
        return json_text(
            JsonObject().text("type", "error").value("error", std::move(inner)).text("request_id", request_id).take());
    }
    JsonObject inner;
    inner.text("message", error.message).text("type", shape.type);
    inner.text_or_null("param", error.parameter).text_or_null("code", shape.code);
    return json_text(JsonObject().value("error", inner.take()).take());
}

std::string_view error_code_text(ApiErrorKind kind) { return shape_of(kind).code; }

}  // namespace di
