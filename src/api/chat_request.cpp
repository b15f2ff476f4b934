#include "api/chat_request.h"

#include <utility>

#include "api/envelope_fields.h"
#include "api/format_fields.h"
#include "api/limits.h"
#include "api/sampling_fields.h"
#include "api/thinking_fields.h"
#include "api/tool_fields.h"

namespace di {
namespace {

constexpr std::string_view kUnsupportedDocument = "[Unsupported Document]";

Result<MessageRole> parse_role(const JsonReader& message) {
    DI_TRY(const auto role, message.required_string("role"));
    if (role == "system" || role == "developer") {
        return MessageRole::kSystem;
    }
    if (role == "user") {
        return MessageRole::kUser;
    }
    if (role == "assistant") {
        return MessageRole::kAssistant;
    }
    if (role == "tool") {
        return MessageRole::kTool;
    }
    if (role == "latest_reminder") {
        return MessageRole::kReminder;
    }
    return message.wrong("role", "system, developer, user, assistant, tool or latest_reminder");
}

Result<ContentPart> parse_image(const JsonReader& part) {
    DI_TRY(const auto image, part.required_object("image_url"));
    ContentPart result;
    result.kind = ContentPart::Kind::kImage;
    result.path = part.path();
    DI_TRY(result.image_url, image.required_string("url"));
    DI_TRY(result.image_detail, parse_image_detail(image));
    return result;
}

Result<ContentPart> parse_part(const JsonReader& part) {
    DI_TRY(const auto type, part.required_string("type"));
    if (type == "text" || type == "refusal") {
        DI_TRY(auto text, part.required_string(type));
        return text_part(std::move(text));
    }
    if (type == "image_url") {
        return parse_image(part);
    }
    if (type == "file") {
        DI_TRY(const auto file, part.required_object("file"));
        if (file.has("file_id")) {
            return file.wrong("file_id", "the file itself in file_data, there is no file store");
        }
        DI_TRY(const auto data, file.required_string("file_data"));
        return text_part(std::string(kUnsupportedDocument));
    }
    return part.wrong("type", "text, image_url or file");
}

// null is told from an empty string and an empty list: it is an error for most roles.
Result<bool> parse_content(const JsonReader& message, Message& result) {
    const JsonValue* content = message.find("content");
    if (content == nullptr) {
        return false;
    }
    if (content->is_string()) {
        result.parts.push_back(text_part(content->as_string()));
        return true;
    }
    if (!content->is_array()) {
        return message.wrong("content", "a string or a list of parts");
    }
    DI_TRY(const auto* parts, message.array("content", kMessagesMax));
    for (size_t i = 0; i < parts->size(); ++i) {
        DI_TRY(const auto reader, JsonReader::open((*parts)[i], item_path(message.path_of("content"), i)));
        DI_TRY(auto part, parse_part(reader));
        result.parts.push_back(std::move(part));
    }
    return true;
}

Result<std::string> parse_arguments(const JsonReader& function) {
    const JsonValue* arguments = function.find("arguments");
    if (arguments == nullptr) {
        return std::string("{}");
    }
    if (arguments->is_string()) {
        return arguments->as_string();
    }
    if (arguments->is_object()) {
        return json_text(*arguments);  // some clients send the object itself
    }
    return function.wrong("arguments", "a string with JSON, or an object");
}

Result<ToolCall> parse_call(const JsonReader& call) {
    ToolCall result;
    DI_TRY(result.id, call.required_string("id"));
    DI_TRY(const auto type, call.string_or("type", "function"));
    if (type == "custom") {
        DI_TRY(const auto custom, call.required_object("custom"));
        DI_TRY(result.name, custom.required_string("name"));
        DI_TRY(const auto input, custom.required_string("input"));
        result.arguments = custom_tool_arguments(input);
        return result;
    }
    if (type != "function") {
        return call.wrong("type", "function");
    }
    DI_TRY(const auto function, call.required_object("function"));
    DI_TRY(result.name, function.required_string("name"));
    DI_TRY(result.arguments, parse_arguments(function));
    return result;
}

Status parse_assistant(const JsonReader& message, bool has_content, Message& result) {
    DI_TRY(auto reasoning, message.string("reasoning_content"));
    if (!reasoning) {
        DI_TRY(reasoning, message.string("reasoning"));
    }
    result.reasoning = reasoning.value_or("");
    DI_TRY(result.is_prefix, message.boolean_or("prefix", false));
    DI_TRY(const auto* calls, message.array("tool_calls", kToolsMax));
    for (size_t i = 0; calls != nullptr && i < calls->size(); ++i) {
        DI_TRY(const auto reader, JsonReader::open((*calls)[i], item_path(message.path_of("tool_calls"), i)));
        DI_TRY(auto call, parse_call(reader));
        result.tool_calls.push_back(std::move(call));
    }
    if (has_content || !result.tool_calls.empty()) {
        return {};
    }
    DI_TRY(auto refusal, message.string("refusal"));
    if (!refusal) {
        return message.wrong("content", "content, tool_calls or a refusal");
    }
    result.parts.push_back(text_part(std::move(*refusal)));
    return {};
}

Result<std::optional<QuickTask>> parse_task(const JsonReader& reader) {
    DI_TRY(const auto name, reader.string("task"));
    if (!name) {
        return std::optional<QuickTask>();
    }
    const std::optional<QuickTask> task = quick_task(*name);
    if (!task) {
        return reader.wrong("task", quick_task_names());
    }
    return task;
}

Result<Message> parse_message(const JsonReader& message) {
    Message result;
    result.path = message.path();
    DI_TRY(result.role, parse_role(message));
    DI_TRY(const bool has_content, parse_content(message, result));
    if (result.role == MessageRole::kAssistant) {
        DI_TRY_STATUS(parse_assistant(message, has_content, result));
        return result;
    }
    if (!has_content) {
        return message.wrong("content", "a string or a list of parts");
    }
    DI_TRY(result.is_prefix, message.boolean_or("prefix", false));
    if (result.role == MessageRole::kTool) {
        DI_TRY(result.tool_call_id, message.required_string("tool_call_id"));
    }
    if (result.role == MessageRole::kUser) {
        DI_TRY(result.task, parse_task(message));
    }
    return result;
}

// The two ways to ask that the last assistant message be continued.
Status parse_continuation(const JsonReader& body, Conversation& conversation) {
    DI_TRY(const bool continues, body.boolean_or("continue_final_message", false));
    DI_TRY(const bool adds_prompt, body.boolean_or("add_generation_prompt", !continues));
    if (conversation.messages.empty()) {
        return {};  // check_conversation() has the words for that
    }
    Message& last = conversation.messages.back();
    if (continues && adds_prompt) {
        return body.wrong("add_generation_prompt", "false together with continue_final_message");
    }
    if (continues) {
        if (last.role != MessageRole::kAssistant) {
            return body.wrong("continue_final_message", "false, or an assistant message as the last one");
        }
        last.is_prefix = true;
    }
    if (!adds_prompt && !last.is_prefix) {
        return body.wrong("add_generation_prompt", "true, or an assistant message to continue");
    }
    if (!last.is_prefix) {
        return {};
    }
    if (!offered_tools(conversation).empty()) {
        return fail(ErrorCode::kInvalidArgument, "{}.prefix: a message cannot be continued while tools are offered", last.path);
    }
    if (conversation.response_format.kind == ResponseFormat::Kind::kJsonObject) {
        return fail(ErrorCode::kInvalidArgument, "{}.prefix: a message cannot be continued as json_object", last.path);
    }
    return {};
}

// An answer in sound is nothing that we could leave out in silence.
Status refuse_audio(const JsonReader& body) {
    if (body.has("audio")) {
        return body.wrong("audio", "no audio, answers are text");
    }
    DI_TRY(const auto* modalities, body.array("modalities", kMessagesMax));
    for (size_t i = 0; modalities != nullptr && i < modalities->size(); ++i) {
        const JsonValue& modality = (*modalities)[i];
        if (!modality.is_string() || modality.as_string() != "text") {
            return fail(ErrorCode::kInvalidArgument, "{}: {}, expected \"text\"", item_path(body.path_of("modalities"), i),
                        short_json_text(modality));
        }
    }
    return {};
}

}  // namespace

Result<std::vector<Message>> parse_chat_messages(const JsonReader& body) {
    DI_TRY(const auto* items, body.array("messages", kMessagesMax));
    if (items == nullptr) {
        return body.wrong("messages", "a list of messages");
    }
    std::vector<Message> messages;
    messages.reserve(items->size());
    for (size_t i = 0; i < items->size(); ++i) {
        DI_TRY(const auto reader, JsonReader::open((*items)[i], item_path(body.path_of("messages"), i)));
        DI_TRY(auto message, parse_message(reader));
        messages.push_back(std::move(message));
    }
    return messages;
}

Result<Request> parse_chat_request(const JsonValue& body) {
    DI_TRY(const auto reader, JsonReader::open(body, ""));
    Request request;
    request.dialect = Dialect::kChat;
    Conversation& conversation = request.conversation.emplace();
    DI_TRY_STATUS(parse_envelope_fields(reader, request));
    DI_TRY_STATUS(refuse_audio(reader));
    DI_TRY(request.sampling, parse_sampling_fields(reader, Dialect::kChat));
    DI_TRY(request.stream, parse_stream_fields(reader));
    DI_TRY(conversation.messages, parse_chat_messages(reader));
    DI_TRY(const auto thinking, parse_thinking_fields(reader, Dialect::kChat));
    conversation.is_thinking = thinking.is_thinking;
    conversation.effort = thinking.effort;
    if (!request.sampling.reasoning_tokens_max) {
        request.sampling.reasoning_tokens_max = thinking.budget_tokens;
    }
    DI_TRY(conversation.task, parse_task(reader));
    DI_TRY_STATUS(parse_tool_fields(reader, request));
    DI_TRY(conversation.response_format, parse_format_fields(reader, Dialect::kChat));
    DI_TRY_STATUS(parse_continuation(reader, conversation));
    DI_TRY_STATUS(check_request(request));
    return request;
}

Result<Request> parse_chat_request(std::string_view body_text) {
    DI_TRY(const auto body, parse_json(body_text));
    return parse_chat_request(body);
}

}  // namespace di
