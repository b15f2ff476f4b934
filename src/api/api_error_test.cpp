#include "api/api_error.h"

#include <gtest/gtest.h>

#include "text/json_text.h"

namespace di {
namespace {

// The table of the specification: status, type, code, and for Messages status and type.
struct Row {
    ApiErrorKind kind;
    int status;
    std::string_view type;
    std::string_view code;  // "" = null
    int messages_status;
    std::string_view messages_type;
};

constexpr Row kRows[] = {
    {ApiErrorKind::kInvalidRequest, 400, "invalid_request_error", "invalid_request_error", 400, "invalid_request_error"},
    {ApiErrorKind::kContextLength, 400, "invalid_request_error", "context_length_exceeded", 400, "invalid_request_error"},
    {ApiErrorKind::kPreviousResponse, 400, "invalid_request_error", "previous_response_not_found", 400,
     "invalid_request_error"},
    {ApiErrorKind::kUnsupportedParameter, 400, "invalid_request_error", "unsupported_parameter", 400, "invalid_request_error"},
    {ApiErrorKind::kAuthentication, 401, "invalid_request_error", "invalid_api_key", 401, "authentication_error"},
    {ApiErrorKind::kPermission, 403, "permission_error", "", 403, "permission_error"},
    {ApiErrorKind::kModelNotFound, 404, "invalid_request_error", "model_not_found", 404, "not_found_error"},
    {ApiErrorKind::kNotFound, 404, "invalid_request_error", "", 404, "not_found_error"},
    {ApiErrorKind::kMethodNotAllowed, 405, "invalid_request_error", "", 405, "not_found_error"},
    {ApiErrorKind::kTooLarge, 413, "invalid_request_error", "request_too_large", 413, "request_too_large"},
    {ApiErrorKind::kUnsupportedMediaType, 415, "invalid_request_error", "unsupported_media_type", 415, "invalid_request_error"},
    {ApiErrorKind::kRateLimit, 429, "rate_limit_error", "rate_limit_exceeded", 429, "rate_limit_error"},
    {ApiErrorKind::kInternal, 500, "server_error", "internal_error", 500, "api_error"},
    {ApiErrorKind::kUnavailable, 503, "server_error", "service_unavailable", 503, "overloaded_error"},
    {ApiErrorKind::kOverloaded, 503, "server_error", "service_unavailable", 529, "overloaded_error"},
    {ApiErrorKind::kTimeout, 504, "server_error", "timeout", 504, "timeout_error"},
};

JsonValue parsed(const std::string& text) {
    EXPECT_EQ(text.find('\n'), std::string::npos);
    auto value = parse_json(text);
    EXPECT_TRUE(value.has_value()) << text;
    return value ? *value : JsonValue::object();
}

TEST(ApiError, EveryKindHasItsStatusAndShape) {
    for (const Row& row : kRows) {
        SCOPED_TRACE(row.code);
        EXPECT_EQ(http_status(row.kind, Dialect::kChat), row.status);
        EXPECT_EQ(http_status(row.kind, Dialect::kResponses), row.status);
        EXPECT_EQ(http_status(row.kind, Dialect::kMessages), row.messages_status);
        EXPECT_EQ(error_code_text(row.kind), row.code);
        const ApiError error{.kind = row.kind, .message = "no", .parameter = "a.b"};
        const JsonValue body = parsed(error_body(error, Dialect::kCompletions, "req_1"));
        const JsonValue& inner = *body.find("error");
        EXPECT_EQ(inner.find("type")->as_string(), row.type);
        EXPECT_EQ(inner.find("message")->as_string(), "no");
        EXPECT_EQ(inner.find("param")->as_string(), "a.b");
        EXPECT_EQ(json_text(*inner.find("code")), row.code.empty() ? "null" : "\"" + std::string(row.code) + "\"");
        const JsonValue message = parsed(error_body(error, Dialect::kMessages, "req_1"));
        EXPECT_EQ(message.find("type")->as_string(), "error");
        EXPECT_EQ(message.find("request_id")->as_string(), "req_1");
        EXPECT_EQ(message.find("error")->find("type")->as_string(), row.messages_type);
    }
}

TEST(ApiError, AFaultWithoutAFieldHasParamNull) {
    const JsonValue body = parsed(error_body({.kind = ApiErrorKind::kInternal, .message = "x"}, Dialect::kChat, ""));
    EXPECT_TRUE(body.find("error")->find("param")->is_null());
}

TEST(ApiError, AnyBytesInAMessageGiveValidJson) {
    const ApiError error{.kind = ApiErrorKind::kInvalidRequest, .message = "a\xff\n\"\xe4\xb8", .parameter = "x\x80"};
    for (const Dialect dialect : {Dialect::kChat, Dialect::kMessages}) {
        const JsonValue body = parsed(error_body(error, dialect, "\xc3"));
        EXPECT_EQ(body.find("error")->find("message")->as_string(), "a\xef\xbf\xbd\n\"\xef\xbf\xbd");
    }
}

TEST(ApiError, ErrorsOfTheProductBecomeKindsAndFields) {
    const ApiError field = api_error_of({ErrorCode::kInvalidArgument, "messages[2].content: null, expected a string"});
    EXPECT_EQ(field.kind, ApiErrorKind::kInvalidRequest);
    EXPECT_EQ(field.parameter, "messages[2].content");
    EXPECT_EQ(field.message, "messages[2].content: null, expected a string");
    EXPECT_EQ(api_error_of({ErrorCode::kInvalidArgument, "JSON: line 1: broken"}).parameter, "");
    EXPECT_EQ(api_error_of({ErrorCode::kUnsupported, "n: 3, expected 1"}).kind, ApiErrorKind::kUnsupportedParameter);
    EXPECT_EQ(api_error_of({ErrorCode::kContextExceeded, "the context holds 8"}).kind, ApiErrorKind::kContextLength);
    EXPECT_EQ(api_error_of({ErrorCode::kTimedOut, "too late"}).kind, ApiErrorKind::kTimeout);
    const ApiError full = api_error_of({ErrorCode::kUnavailable, "queue: full"});
    EXPECT_EQ(full.kind, ApiErrorKind::kRateLimit);
    EXPECT_TRUE(full.retry_after_s.has_value());
    EXPECT_EQ(full.parameter, "");
    EXPECT_EQ(api_error_of({ErrorCode::kInternal, "x: y"}).kind, ApiErrorKind::kInternal);
    EXPECT_EQ(api_error_of({ErrorCode::kNotFound, "tensor: y"}).kind, ApiErrorKind::kInternal);
}

}  // namespace
}  // namespace di
