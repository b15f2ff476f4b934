#include "api/answer_json.h"

#include <cmath>

#include "base/check.h"
#include "text/unicode.h"

namespace di {
namespace {

// What OpenAI's interface sends for a token that cannot be drawn: JSON has no infinity.
constexpr double kLogprobFloor = -9999.0;

JsonValue byte_list(std::string_view bytes) {
    JsonValue::Array items;
    items.reserve(bytes.size());
    for (const char byte : bytes) {
        items.push_back(JsonValue::integer(static_cast<unsigned char>(byte)));
    }
    return JsonValue::array(std::move(items));
}

JsonObject token_entry(std::string_view bytes, double logprob) {
    JsonObject entry;
    entry.text("token", token_text(bytes)).value("logprob", logprob_value(logprob)).value("bytes", byte_list(bytes));
    return entry;
}

}  // namespace

void ChoiceRecord::add(const AnswerDelta& delta) {
    switch (delta.kind) {
        case AnswerDelta::Kind::kReasoning: reasoning += delta.text; break;
        case AnswerDelta::Kind::kContent: content += delta.text; break;
        case AnswerDelta::Kind::kCallBegin:
            DI_CHECK(static_cast<size_t>(delta.call_index) == calls.size(), "calls come in order");
            calls.push_back({.id = delta.call_id, .name = delta.text, .arguments = {}});
            break;
        case AnswerDelta::Kind::kCallArguments:
            DI_CHECK(!calls.empty(), "arguments belong to a call");
            calls.back().arguments += delta.text;
            break;
        case AnswerDelta::Kind::kCallEnd: break;
    }
    logprobs.insert(logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    token_ids.insert(token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
}

void ChoiceRecord::add(const ChoiceEnd& choice_end) {
    DI_CHECK(!end.has_value(), "a choice ends once");
    end = choice_end;
    token_ids.insert(token_ids.end(), choice_end.token_ids.begin(), choice_end.token_ids.end());
}

std::string_view finish_reason_text(AnswerEnd end) {
    switch (end) {
        case AnswerEnd::kStop:
        case AnswerEnd::kStopString:
        case AnswerEnd::kStopToken: return "stop";
        case AnswerEnd::kToolCalls: return "tool_calls";
        case AnswerEnd::kLength:
        case AnswerEnd::kContextFull: return "length";
        case AnswerEnd::kContentFilter: return "content_filter";
    }
    return "stop";
}

JsonValue stop_reason_value(const ChoiceEnd& end) {
    if (end.end == AnswerEnd::kStopString) {
        return json_string(end.stop_text);
    }
    return end.end == AnswerEnd::kStopToken ? JsonValue::integer(end.stop_token_id) : JsonValue();
}

JsonValue openai_usage(const AnswerUsage& usage) {
    JsonObject object;
    object.integer("prompt_tokens", usage.prompt_tokens);
    object.integer("completion_tokens", usage.completion_tokens);
    object.integer("total_tokens", usage.prompt_tokens + usage.completion_tokens);
    object.value("prompt_tokens_details", JsonObject().integer("cached_tokens", usage.cached_tokens).take());
    object.value("completion_tokens_details", JsonObject().integer("reasoning_tokens", usage.reasoning_tokens).take());
    object.integer("prompt_cache_hit_tokens", usage.cached_tokens);
    object.integer("prompt_cache_miss_tokens", usage.prompt_tokens - usage.cached_tokens);
    return object.take();
}

JsonValue logprob_value(double logprob) {
    // A row of broken numbers ends its request with an error; whatever else is not finite is as good as impossible.
    return json_real(std::isfinite(logprob) ? logprob : kLogprobFloor);
}

std::string token_text(std::string_view bytes) {
    if (is_valid_utf8(bytes)) {
        return std::string(bytes);
    }
    std::string text;
    for (const char byte : bytes) {
        text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
    return text;
}

JsonValue logprob_entries(const std::vector<LogprobEntry>& entries) {
    JsonValue::Array items;
    items.reserve(entries.size());
    for (const LogprobEntry& entry : entries) {
        JsonValue::Array top;
        for (const TopLogprob& other : entry.top) {
            top.push_back(token_entry(other.bytes, other.logprob).take());
        }
        JsonObject item = token_entry(entry.bytes, entry.logprob);
        items.push_back(item.value("top_logprobs", JsonValue::array(std::move(top))).take());
    }
    return JsonValue::array(std::move(items));
}

std::set<std::string, std::less<>> custom_tool_names(const Request& request) {
    std::set<std::string, std::less<>> names;
    if (!request.conversation) {
        return names;
    }
    for (const Tool& tool : request.conversation->tools) {
        if (tool.is_custom) {
            names.insert(tool.name);
        }
    }
    return names;
}

ApiError cancelled_error() {
    // Not retryable: somebody wanted it so.
    return {.kind = ApiErrorKind::kInvalidRequest, .message = "the request was cancelled before its answer was complete"};
}

}  // namespace di
