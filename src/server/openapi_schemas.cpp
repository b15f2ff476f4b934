#include "server/openapi_schemas.h"

#include <array>
#include <utility>

#include "base/check.h"

namespace di {
namespace {

constexpr auto kBodies = std::to_array<RouteBodies>({
    {"/v1/chat/completions", "ChatRequest", "ChatCompletion", true},
    {"/v1/completions", "CompletionRequest", "TextCompletion", true},
    {"/v1/responses", "ResponseRequest", "Response", true},
    {"/v1/responses/{id}", "", "Response", true},
    {"/v1/responses/{id}/cancel", "", "Response"},
    {"/v1/responses/{id}/input_items", "", "List"},
    {"/v1/messages", "MessagesRequest", "Message", true},
    {"/v1/messages/count_tokens", "CountTokensRequest", "TokenCount"},
    {"/v1/models", "", "ModelList"},
    {"/v1/models/{id*}", "", "Model"},
    {"/tokenize", "TokenizeRequest", "Tokens"},
    {"/v1/tokenize", "TokenizeRequest", "Tokens"},
    {"/detokenize", "DetokenizeRequest", "Text"},
    {"/v1/detokenize", "DetokenizeRequest", "Text"},
    {"/apply-template", "ChatRequest", "Prompt"},
    {"/health_generate", "", "TextCompletion"},
    {"/abort_request", "AbortRequest", ""},
});

struct QueryParameter {
    std::string_view path;  // as in the route table
    std::string_view name;
    std::string_view schema;  // JSON
};
constexpr auto kQuery = std::to_array<QueryParameter>({
    {"/v1/responses/{id}", "stream", R"({"type": "boolean"})"},
    {"/v1/responses/{id}", "starting_after", R"({"type": "integer", "minimum": 0})"},
    {"/v1/responses/{id}/input_items", "order", R"({"enum": ["asc", "desc"]})"},
    {"/v1/responses/{id}/input_items", "after", R"({"type": "string"})"},
    {"/v1/responses/{id}/input_items", "limit", R"({"type": "integer", "minimum": 1, "maximum": 100})"},
    {"/reset_prefix_cache", "force", R"({"type": "boolean"})"},
    {"/flush_cache", "force", R"({"type": "boolean"})"},
});

// Fields of all requests that draw tokens. null is as good as absent.
constexpr std::string_view kSamplingFields = R"json({
"model": {"type": ["string", "null"], "description": "the served name or an alias; empty or absent: the served one"},
"stream": {"type": ["boolean", "null"]},
"temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2},
"top_p": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
"top_k": {"type": ["integer", "null"], "minimum": -1},
"min_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
"presence_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
"frequency_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
"repetition_penalty": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 2},
"seed": {"type": ["integer", "null"], "minimum": 0, "maximum": 9223372036854775807},
"stop_token_ids": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/TokenId"}},
"bad_words": {"type": ["array", "null"], "items": {"type": "string", "minLength": 1}},
"allowed_token_ids": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/TokenId"}},
"ignore_eos": {"type": ["boolean", "null"]},
"min_tokens": {"type": ["integer", "null"], "minimum": 0},
"priority": {"type": ["integer", "null"], "minimum": -1000000, "maximum": 1000000}
})json";

// Of chat and text completions.
constexpr std::string_view kCompletionFields = R"json({
"max_tokens": {"type": ["integer", "null"], "minimum": 1},
"n": {"type": ["integer", "null"], "minimum": 1, "maximum": 16},
"stop": {"anyOf": [{"type": "null"}, {"type": "string", "minLength": 1},
  {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 16}]},
"logit_bias": {"type": ["object", "null"], "maxProperties": 300, "propertyNames": {"pattern": "^[0-9]+$"},
  "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}},
"stream_options": {"type": ["object", "null"], "properties": {"include_usage": {"type": ["boolean", "null"]},
  "continuous_usage_stats": {"type": ["boolean", "null"]}}},
"user": {"type": ["string", "null"]}
})json";

constexpr std::string_view kSchemas = R"json({
"Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "object",
  "required": ["message", "type", "param", "code"], "properties": {"message": {"type": "string"}, "type": {"type": "string"},
  "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}}}}},
"MessagesError": {"type": "object", "required": ["type", "error", "request_id"], "properties": {"type": {"const": "error"},
  "error": {"type": "object", "required": ["type", "message"], "properties": {"type": {"type": "string"}, "message": {"type": "string"}}},
  "request_id": {"type": "string"}}},
"Function": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,128}$"},
  "description": {"type": ["string", "null"]}, "parameters": {"type": ["object", "null"]}, "strict": {"type": ["boolean", "null"]}}},
"TextPart": {"type": "object", "required": ["type", "text"], "properties": {"type": {"const": "text"}, "text": {"type": "string"}}},
"ImagePart": {"type": "object", "required": ["type", "image_url"], "properties": {"type": {"const": "image_url"},
  "image_url": {"type": "object", "required": ["url"], "properties": {"url": {"type": "string"},
  "detail": {"enum": ["low", "high", "auto", "original"]}}}}},
"Content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"anyOf": [{"$ref": "#/components/schemas/TextPart"},
  {"$ref": "#/components/schemas/ImagePart"}]}}]},
"ToolCall": {"type": "object", "required": ["id", "type", "function"], "properties": {"id": {"type": "string", "minLength": 1},
  "type": {"const": "function"}, "function": {"type": "object", "required": ["name", "arguments"],
  "properties": {"name": {"type": "string"}, "arguments": {"type": "string"}}}}},
"AssistantMessage": {"type": "object", "required": ["role"], "properties": {"role": {"const": "assistant"},
  "content": {"type": ["string", "null"]}, "reasoning_content": {"type": ["string", "null"]},
  "tool_calls": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/ToolCall"}}}},
"ToolMessage": {"type": "object", "required": ["role", "tool_call_id", "content"], "properties": {"role": {"const": "tool"},
  "tool_call_id": {"type": "string"}, "content": {"$ref": "#/components/schemas/Content"}}},
"ChatMessage": {"anyOf": [{"type": "object", "required": ["role", "content"], "properties": {
  "role": {"enum": ["system", "developer", "user"]}, "content": {"$ref": "#/components/schemas/Content"}}},
  {"$ref": "#/components/schemas/AssistantMessage"}, {"$ref": "#/components/schemas/ToolMessage"}]},
"ResponseFormat": {"type": "object", "required": ["type"], "properties": {
  "type": {"enum": ["text", "json_object", "json_schema", "regex", "grammar", "structural_tag"]},
  "json_schema": {"type": "object", "required": ["name", "schema"], "properties": {"name": {"type": "string"},
  "schema": {"type": "object"}, "strict": {"type": ["boolean", "null"]}}},
  "regex": {"type": "string"}, "grammar": {"type": "string"}}},
"ChatRequest": {"type": "object", "required": ["messages"], "properties": {
  "messages": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/ChatMessage"}},
  "max_completion_tokens": {"type": ["integer", "null"], "minimum": 1},
  "tools": {"type": ["array", "null"], "maxItems": 1024, "items": {"type": "object", "required": ["type", "function"],
  "properties": {"type": {"const": "function"}, "function": {"$ref": "#/components/schemas/Function"}}}},
  "tool_choice": {"anyOf": [{"enum": [null, "none", "auto", "required"]}, {"type": "object", "required": ["type", "function"],
  "properties": {"type": {"const": "function"}, "function": {"type": "object", "required": ["name"],
  "properties": {"name": {"type": "string"}}}}}]},
  "parallel_tool_calls": {"type": ["boolean", "null"]},
  "response_format": {"anyOf": [{"type": "null"}, {"$ref": "#/components/schemas/ResponseFormat"}]},
  "reasoning_effort": {"anyOf": [{"enum": [null, "none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"]},
  {"type": "integer", "minimum": 1, "maximum": 100}]},
  "thinking": {"type": ["object", "null"], "required": ["type"], "properties": {"type": {"enum": ["enabled", "disabled", "adaptive"]},
  "budget_tokens": {"type": ["integer", "null"], "minimum": 1}}},
  "logprobs": {"type": ["boolean", "null"]}, "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20}}},
"CompletionRequest": {"type": "object", "required": ["prompt"], "properties": {
  "prompt": {"anyOf": [{"type": "string", "minLength": 1},
  {"type": "array", "minItems": 1, "maxItems": 256, "items": {"type": "string", "minLength": 1}},
  {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/TokenId"}},
  {"type": "array", "minItems": 1, "maxItems": 256, "items": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/TokenId"}}}]},
  "suffix": {"type": ["string", "null"], "description": "only where the server enables it"},
  "echo": {"type": ["boolean", "null"]}, "logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20}}},
"ResponseRequest": {"type": "object", "required": ["input"], "properties": {
  "input": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"anyOf": [
  {"type": "object", "required": ["role", "content"], "properties": {"type": {"const": "message"},
  "role": {"enum": ["system", "developer", "user", "assistant"]}, "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {
  "type": "object", "required": ["type", "text"], "properties": {"type": {"enum": ["input_text", "output_text"]}, "text": {"type": "string"}}}}]}}},
  {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["function_call", "function_call_output", "reasoning",
  "item_reference"]}, "call_id": {"type": "string"}, "name": {"type": "string"}, "arguments": {"type": "string"}}}]}}]},
  "instructions": {"type": ["string", "null"]}, "max_output_tokens": {"type": ["integer", "null"], "minimum": 1},
  "tools": {"type": ["array", "null"], "maxItems": 1024, "items": {"type": "object", "required": ["type"],
  "properties": {"type": {"type": "string"}}}},
  "tool_choice": {"anyOf": [{"enum": [null, "none", "auto", "required"]}, {"type": "object", "required": ["type", "name"],
  "properties": {"type": {"const": "function"}, "name": {"type": "string"}}}]},
  "reasoning": {"type": ["object", "null"], "properties": {"effort": {"enum": [null, "none", "minimal", "low", "medium", "high", "xhigh"]}}},
  "text": {"type": ["object", "null"], "properties": {"format": {"type": ["object", "null"], "required": ["type"],
  "properties": {"type": {"enum": ["text", "json_object", "json_schema"]}}}}},
  "previous_response_id": {"type": ["string", "null"]}, "store": {"type": ["boolean", "null"]},
  "background": {"type": ["boolean", "null"]}, "truncation": {"enum": [null, "disabled", "auto"]},
  "include": {"type": ["array", "null"], "items": {"type": "string"}}, "parallel_tool_calls": {"type": ["boolean", "null"]},
  "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20}, "metadata": {"type": ["object", "null"]}}},
"MessagesRequest": {"type": "object", "required": ["messages"], "properties": {
  "messages": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["role", "content"], "properties": {
  "role": {"enum": ["user", "assistant", "system"]}, "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"anyOf": [
  {"$ref": "#/components/schemas/TextPart"},
  {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["image", "tool_use", "tool_result", "thinking"]}}}]}}]}}}},
  "system": {"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"type": "object", "required": ["type", "text"],
  "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}}]},
  "max_tokens": {"type": ["integer", "null"], "minimum": 1},
  "tools": {"type": ["array", "null"], "maxItems": 1024, "items": {"type": "object", "required": ["name", "input_schema"], "properties": {
  "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,128}$"}, "description": {"type": ["string", "null"]},
  "input_schema": {"type": "object", "required": ["type"], "properties": {"type": {"const": "object"}}}}}},
  "tool_choice": {"type": ["object", "null"], "required": ["type"], "properties": {"type": {"enum": ["auto", "any", "tool", "none"]},
  "name": {"type": "string"}, "disable_parallel_tool_use": {"type": ["boolean", "null"]}}},
  "thinking": {"type": ["object", "null"], "required": ["type"], "properties": {"type": {"enum": ["enabled", "disabled", "adaptive"]},
  "budget_tokens": {"type": ["integer", "null"], "minimum": 1}}},
  "output_config": {"type": ["object", "null"], "properties": {"effort": {"enum": [null, "low", "medium", "high", "xhigh", "max"]}}},
  "stop_sequences": {"type": ["array", "null"], "maxItems": 16, "items": {"type": "string", "minLength": 1}}}},
"CountTokensRequest": {"$ref": "#/components/schemas/MessagesRequest"},
"TokenizeRequest": {"type": "object", "properties": {"prompt": {"type": "string"}, "content": {"type": "string"},
  "messages": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/ChatMessage"}},
  "add_special_tokens": {"type": ["boolean", "null"]}, "return_token_strs": {"type": ["boolean", "null"]}},
  "anyOf": [{"required": ["prompt"]}, {"required": ["content"]}, {"required": ["messages"]}]},
"DetokenizeRequest": {"type": "object", "required": ["tokens"], "properties": {
  "tokens": {"type": "array", "items": {"$ref": "#/components/schemas/TokenId"}}, "skip_special_tokens": {"type": ["boolean", "null"]}}},
"AbortRequest": {"type": "object", "properties": {"rid": {"type": "string", "minLength": 1}, "request_id": {"type": "string", "minLength": 1}},
  "anyOf": [{"required": ["rid"]}, {"required": ["request_id"]}]},
"Usage": {"type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens"], "properties": {
  "prompt_tokens": {"type": "integer", "minimum": 0}, "completion_tokens": {"type": "integer", "minimum": 0},
  "total_tokens": {"type": "integer", "minimum": 0}}},
"ChatCompletion": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
  "id": {"type": "string"}, "object": {"const": "chat.completion"}, "created": {"type": "integer"}, "model": {"type": "string"},
  "choices": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["index", "message", "finish_reason"], "properties": {
  "index": {"type": "integer"}, "message": {"type": "object", "required": ["role", "content"], "properties": {
  "role": {"const": "assistant"}, "content": {"type": "string"}, "reasoning_content": {"type": ["string", "null"]},
  "tool_calls": {"type": "array", "items": {"type": "object", "required": ["id", "type", "function"]}}}},
  "finish_reason": {"enum": ["stop", "length", "tool_calls", "content_filter"]}}}},
  "usage": {"$ref": "#/components/schemas/Usage"}}},
"TextCompletion": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
  "id": {"type": "string"}, "object": {"const": "text_completion"}, "created": {"type": "integer"}, "model": {"type": "string"},
  "choices": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["index", "text", "finish_reason"], "properties": {
  "index": {"type": "integer"}, "text": {"type": "string"}, "finish_reason": {"enum": ["stop", "length", "content_filter"]}}}},
  "usage": {"$ref": "#/components/schemas/Usage"}}},
"Response": {"type": "object", "required": ["id", "object", "created_at", "status", "model", "output", "usage"], "properties": {
  "id": {"type": "string"}, "object": {"const": "response"}, "created_at": {"type": "number"},
  "status": {"enum": ["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]}, "model": {"type": "string"},
  "output": {"type": "array", "items": {"type": "object", "required": ["type"]}}, "usage": {"type": ["object", "null"]}}},
"Message": {"type": "object", "required": ["id", "type", "role", "model", "content", "stop_reason", "usage"], "properties": {
  "id": {"type": "string"}, "type": {"const": "message"}, "role": {"const": "assistant"}, "model": {"type": "string"},
  "content": {"type": "array", "items": {"type": "object", "required": ["type"], "properties": {
  "type": {"enum": ["thinking", "text", "tool_use"]}}}},
  "stop_reason": {"enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "model_context_window_exceeded"]},
  "usage": {"type": "object", "required": ["input_tokens", "output_tokens"]}}},
"TokenCount": {"type": "object", "required": ["input_tokens"], "properties": {"input_tokens": {"type": "integer", "minimum": 0}}},
"List": {"type": "object", "required": ["object", "data", "has_more"], "properties": {"object": {"const": "list"}, "data": {"type": "array"},
  "has_more": {"type": "boolean"}}},
"ModelList": {"type": "object", "required": ["data"], "properties": {"data": {"type": "array", "minItems": 1,
  "items": {"$ref": "#/components/schemas/Model"}}}},
"Model": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
"Tokens": {"type": "object", "required": ["count", "max_model_len", "tokens"], "properties": {"count": {"type": "integer"},
  "max_model_len": {"type": "integer"}, "tokens": {"type": "array", "items": {"$ref": "#/components/schemas/TokenId"}},
  "token_strs": {"type": "array", "items": {"type": "string"}}}},
"Text": {"type": "object", "required": ["prompt", "text", "content"], "properties": {"prompt": {"type": "string"},
  "text": {"type": "string"}, "content": {"type": "string"}}},
"Prompt": {"type": "object", "required": ["prompt"], "properties": {"prompt": {"type": "string"}}}
})json";

JsonValue parsed(std::string_view text) {
    Result<JsonValue> value = parse_json(text);
    DI_CHECK(value.has_value(), value ? "" : value.error().text);
    return std::move(*value);
}

// `request` with the fields of `fields` behind its own.
JsonValue with_fields(JsonValue request, std::string_view fields) {
    JsonValue properties = *request.find("properties");
    const JsonValue more = parsed(fields);
    for (const auto& [name, schema] : more.as_object()) {
        properties.set(name, schema);
    }
    request.set("properties", std::move(properties));
    return request;
}

}  // namespace

JsonValue openapi_schemas(int64_t vocabulary_size) {
    JsonValue schemas = parsed(kSchemas);
    schemas.set("TokenId", JsonValue::object({{"type", JsonValue::string("integer")},
                                              {"minimum", JsonValue::integer(0)},
                                              {"maximum", JsonValue::integer(vocabulary_size - 1)}}));
    for (const std::string_view name : {"ChatRequest", "CompletionRequest"}) {
        schemas.set(name, with_fields(*schemas.find(name), kCompletionFields));
    }
    for (const std::string_view name : {"ChatRequest", "CompletionRequest", "ResponseRequest", "MessagesRequest"}) {
        schemas.set(name, with_fields(*schemas.find(name), kSamplingFields));
    }
    return schemas;
}

const RouteBodies* find_route_bodies(std::string_view path) {
    for (const RouteBodies& bodies : kBodies) {
        if (bodies.path == path) {
            return &bodies;
        }
    }
    return nullptr;
}

JsonValue::Array query_parameters(std::string_view path) {
    JsonValue::Array parameters;
    for (const QueryParameter& parameter : kQuery) {
        if (parameter.path == path) {
            parameters.push_back(JsonValue::object({{"name", JsonValue::string(std::string(parameter.name))},
                                                    {"in", JsonValue::string("query")},
                                                    {"schema", parsed(parameter.schema)}}));
        }
    }
    return parameters;
}

}  // namespace di
