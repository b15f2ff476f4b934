#include "api/response_object.h"

#include <utility>

namespace di {
namespace {

JsonValue member_or(const JsonValue& body, std::string_view key, JsonValue absent) {
    const JsonValue* value = body.find(key);
    return value == nullptr || value->is_null() ? std::move(absent) : *value;
}

// A nested object with members that clients expect even where the request left them out.
JsonValue completed(JsonValue object, std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) {
        if (object.find(key) == nullptr) {
            object.set(key, JsonValue());
        }
    }
    return object;
}

JsonValue object_of(const JsonValue& body, std::string_view key) {
    JsonValue value = member_or(body, key, JsonValue::object());
    return value.is_object() ? std::move(value) : JsonValue::object();
}

JsonValue echoed_reasoning(const JsonValue& body) {
    JsonValue reasoning = object_of(body, "reasoning");
    return completed(std::move(reasoning), {"effort", "summary"});
}

JsonValue echoed_text(const JsonValue& body) {
    JsonValue text = object_of(body, "text");
    if (member_or(text, "format", JsonValue()).is_null()) {
        text.set("format", JsonObject().text("type", "text").take());
    }
    return completed(std::move(text), {"verbosity"});
}

JsonValue echoed_tools(const JsonValue& body) {
    JsonValue tools = member_or(body, "tools", JsonValue::array({}));
    JsonValue::Array items = tools.is_array() ? tools.as_array() : JsonValue::Array{};
    for (JsonValue& tool : items) {
        const JsonValue* type = tool.find("type");
        if (type != nullptr && type->is_string() && type->as_string() == "function") {
            tool = completed(std::move(tool), {"description", "parameters", "strict"});
        }
    }
    return JsonValue::array(std::move(items));
}

JsonValue usage_value(const AnswerUsage& usage) {
    JsonObject input;
    input.integer("cached_tokens", usage.cached_tokens).integer("cache_write_tokens", 0);
    JsonObject object;
    object.integer("input_tokens", usage.prompt_tokens).value("input_tokens_details", input.take());
    object.integer("output_tokens", usage.completion_tokens);
    object.value("output_tokens_details", JsonObject().integer("reasoning_tokens", usage.reasoning_tokens).take());
    object.integer("total_tokens", usage.prompt_tokens + usage.completion_tokens);
    return object.take();
}

}  // namespace

ResponseObject::ResponseObject(const Request& request, const AnswerHead& head)
    : id_(head.id),
      model_(head.model),
      created_s_(head.created_s),
      is_background_(request.is_background),
      is_stored_(request.is_stored) {
    const JsonValue& body = head.request_body;
    const auto keep = [&](std::string_view key, JsonValue absent) {
        echoed_.push_back({.key = std::string(key), .value = member_or(body, key, std::move(absent))});
    };
    const auto put = [&](std::string_view key, JsonValue value) {
        echoed_.push_back({.key = std::string(key), .value = std::move(value)});
    };
    put("content_filters", JsonValue());
    keep("frequency_penalty", json_real(0.0));
    keep("instructions", JsonValue());
    keep("max_output_tokens", JsonValue());
    keep("max_tool_calls", JsonValue());
    keep("moderation", JsonValue());
    keep("parallel_tool_calls", JsonValue::boolean(true));
    keep("presence_penalty", json_real(0.0));
    keep("previous_response_id", JsonValue());
    keep("prompt_cache_key", JsonValue());
    keep("prompt_cache_retention", JsonValue());
    put("reasoning", echoed_reasoning(body));
    keep("safety_identifier", JsonValue());
    put("service_tier", JsonValue::string("default"));
    keep("temperature", json_real(1.0));
    put("text", echoed_text(body));
    keep("tool_choice", JsonValue::string("auto"));
    put("tools", echoed_tools(body));
    keep("top_logprobs", JsonValue::integer(0));
    keep("top_p", json_real(1.0));
    keep("truncation", JsonValue::string("disabled"));
    keep("user", JsonValue());
    keep("metadata", JsonValue::object());
}

JsonValue ResponseObject::value(JsonValue output) const {
    JsonObject object;
    object.text("id", id_).text("object", "response").integer("created_at", created_s_).text("status", status);
    object.boolean("background", is_background_);
    object.value("completed_at", completed_s ? JsonValue::integer(*completed_s) : JsonValue());
    object.value("error", error);
    object.value("incomplete_details",
                 incomplete_reason.empty() ? JsonValue() : JsonObject().text("reason", incomplete_reason).take());
    object.text("model", model_).value("output", std::move(output)).boolean("store", is_stored_);
    object.value("usage", usage ? usage_value(*usage) : JsonValue());
    for (const JsonMember& member : echoed_) {
        object.value(member.key, member.value);
    }
    return object.take();
}

}  // namespace di
