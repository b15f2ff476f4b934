#include "api/responses_request.h"

#include <utility>

#include "api/encrypted_reasoning.h"
#include "api/envelope_fields.h"
#include "api/format_fields.h"
#include "api/limits.h"
#include "api/sampling_fields.h"
#include "api/thinking_fields.h"
#include "api/tool_fields.h"

namespace di {
namespace {

constexpr std::string_view kUnsupportedDocument = "[Unsupported Document]";

Result<ContentPart> parse_image(const JsonReader& part) {
    if (part.has("file_id")) {
        return part.wrong("file_id", "the image as a data URL in image_url, there is no file store");
    }
    ContentPart result;
    result.kind = ContentPart::Kind::kImage;
    result.path = part.path();
    DI_TRY(result.image_url, part.required_string("image_url"));
    DI_TRY(result.image_detail, parse_image_detail(part));
    return result;
}

Result<ContentPart> parse_part(const JsonReader& part) {
    DI_TRY(const auto type, part.required_string("type"));
    if (type == "input_text" || type == "output_text" || type == "text") {
        DI_TRY(auto text, part.required_string("text"));
        return text_part(std::move(text));
    }
    if (type == "refusal") {
        DI_TRY(auto text, part.required_string("refusal"));
        return text_part(std::move(text));
    }
    if (type == "input_image") {
        return parse_image(part);
    }
    if (type == "input_file") {
        return text_part(std::string(kUnsupportedDocument));
    }
    return part.wrong("type", "input_text, output_text, input_image or input_file");
}

// A string or a list of parts.
Result<std::vector<ContentPart>> parse_parts(const JsonReader& item, std::string_view key) {
    std::vector<ContentPart> result;
    const JsonValue* content = item.find(key);
    if (content != nullptr && content->is_string()) {
        result.push_back(text_part(content->as_string()));
        return result;
    }
    if (content == nullptr || !content->is_array()) {
        return item.wrong(key, "a string or a list of parts");
    }
    DI_TRY(const auto* parts, item.array(key, kMessagesMax));
    for (size_t i = 0; i < parts->size(); ++i) {
        DI_TRY(const auto reader, JsonReader::open((*parts)[i], item_path(item.path_of(key), i)));
        DI_TRY(auto part, parse_part(reader));
        result.push_back(std::move(part));
    }
    return result;
}

// Turns items into messages. Output of the model comes as several items that were one turn.
class ItemReader {
  public:
    Status add(const JsonReader& item) {
        // Two kinds may leave their type out.
        DI_TRY(const auto type, item.string_or("type", item.has("role") ? "message" : item.has("id") ? "item_reference" : ""));
        if (type == "message") {
            return add_message(item);
        }
        if (type == "reasoning") {
            return add_reasoning(item);
        }
        if (type == "function_call" || type == "custom_tool_call") {
            return add_call(item, type == "custom_tool_call");
        }
        if (type == "function_call_output" || type == "custom_tool_call_output") {
            return add_output(item);
        }
        if (type.empty()) {
            return item.wrong("type", "the type of an input item");
        }
        // Records of tools that ran elsewhere, and references without a store: nothing for the prompt.
        return {};
    }

    std::vector<Message> take() { return std::move(messages_); }

  private:
    Status add_message(const JsonReader& item) {
        DI_TRY(const auto role, item.required_string("role"));
        DI_TRY(auto parts, parse_parts(item, "content"));
        if (role == "assistant") {
            // A message after a call is a new turn; the call before it is then without a result.
            Message& turn = assistant_turn(item, is_open_ && !has_call_);
            turn.parts.insert(turn.parts.end(), std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
            has_message_ = true;
            return {};
        }
        Message& message = new_message(item);
        message.parts = std::move(parts);
        if (role == "system" || role == "developer") {
            message.role = MessageRole::kSystem;
        } else if (role == "user") {
            message.role = MessageRole::kUser;
        } else {
            return item.wrong("role", "system, developer, user or assistant");
        }
        return {};
    }

    Status add_reasoning(const JsonReader& item) {
        DI_TRY(const auto* contents, item.array("content", kMessagesMax));
        Message& turn = assistant_turn(item, is_open_ && !has_message_ && !has_call_);
        for (size_t i = 0; contents != nullptr && i < contents->size(); ++i) {
            DI_TRY(const auto part, JsonReader::open((*contents)[i], item_path(item.path_of("content"), i)));
            DI_TRY(const auto text, part.required_string("text"));
            turn.reasoning += has_reasoning_ ? "\n" + text : text;
            has_reasoning_ = true;
        }
        if (contents != nullptr && !contents->empty()) {
            return {};
        }
        // A client that stores nothing on our side sends the blob alone; one of another service says nothing to us.
        DI_TRY(const auto blob, item.string_or("encrypted_content", ""));
        if (const auto text = open_reasoning(blob); text && !text->empty()) {
            turn.reasoning += has_reasoning_ ? "\n" + *text : *text;
            has_reasoning_ = true;
        }
        return {};
    }

    Status add_call(const JsonReader& item, bool is_custom) {
        ToolCall call;
        DI_TRY(call.id, item.required_string("call_id"));
        DI_TRY(call.name, item.required_string("name"));
        DI_TRY(const auto name_space, item.string_or("namespace", ""));
        if (!name_space.empty()) {
            call.name = namespaced_name(name_space, call.name);
        }
        if (is_custom) {
            DI_TRY(const auto input, item.required_string("input"));
            call.arguments = custom_tool_arguments(input);
        } else if (const JsonValue* arguments = item.find("arguments"); arguments != nullptr && arguments->is_object()) {
            call.arguments = json_text(*arguments);
        } else {
            DI_TRY(call.arguments, item.string_or("arguments", "{}"));
        }
        assistant_turn(item, is_open_).tool_calls.push_back(std::move(call));
        has_call_ = true;
        return {};
    }

    Status add_output(const JsonReader& item) {
        DI_TRY(auto id, item.required_string("call_id"));
        DI_TRY(auto parts, parse_parts(item, "output"));
        Message& message = new_message(item);
        message.role = MessageRole::kTool;
        message.tool_call_id = std::move(id);
        message.parts = std::move(parts);
        return {};
    }

    Message& new_message(const JsonReader& item) {
        is_open_ = has_reasoning_ = has_message_ = has_call_ = false;
        Message& message = messages_.emplace_back();
        message.path = item.path();
        return message;
    }

    Message& assistant_turn(const JsonReader& item, bool continues) {
        if (continues) {
            return messages_.back();
        }
        Message& message = new_message(item);
        message.role = MessageRole::kAssistant;
        is_open_ = true;
        return message;
    }

    std::vector<Message> messages_;
    bool is_open_ = false;        // the last message is an assistant turn that may go on
    bool has_reasoning_ = false;  // what that turn has so far
    bool has_message_ = false;
    bool has_call_ = false;
};

Status parse_input(const JsonReader& body, Request& request) {
    std::vector<Message>& messages = request.conversation->messages;
    DI_TRY(auto instructions, body.string("instructions"));
    const JsonValue* input = body.find("input");
    if (!instructions && input == nullptr && request.previous_response_id.empty()) {
        return body.wrong("input", "input or instructions");
    }
    if (instructions) {
        Message& message = messages.emplace_back();
        message.role = MessageRole::kSystem;
        message.path = body.path_of("instructions");
        message.parts.push_back(text_part(std::move(*instructions)));
    }
    if (input == nullptr) {
        return {};
    }
    if (input->is_string()) {
        Message& message = messages.emplace_back();
        message.path = body.path_of("input");
        message.parts.push_back(text_part(input->as_string()));
        return {};
    }
    if (!input->is_array() || input->as_array().empty()) {
        return body.wrong("input", "a string or a list of at least one item");
    }
    DI_TRY(const auto* items, body.array("input", kMessagesMax));
    DI_TRY(auto parsed, parse_response_items(*items, body.path_of("input")));
    messages.insert(messages.end(), std::make_move_iterator(parsed.begin()), std::make_move_iterator(parsed.end()));
    return {};
}

Status parse_include(const JsonReader& body, Request& request) {
    DI_TRY(const auto* items, body.array("include", kMessagesMax));
    for (size_t i = 0; items != nullptr && i < items->size(); ++i) {
        const JsonValue& item = (*items)[i];
        if (!item.is_string()) {
            return fail(ErrorCode::kInvalidArgument, "{}: {}, expected a string", item_path(body.path_of("include"), i),
                        short_json_text(item));
        }
        if (item.as_string() == "reasoning.encrypted_content") {
            request.includes_encrypted_reasoning = true;
        }
        if (item.as_string() == "message.output_text.logprobs") {
            request.sampling.wants_logprobs = true;
        }
    }
    return {};
}

Status parse_store_fields(const JsonReader& body, Request& request) {
    for (const std::string_view key : {"conversation", "prompt"}) {
        if (body.has(key)) {
            return body.wrong(key, "no such field, it is not supported");
        }
    }
    DI_TRY(request.previous_response_id, body.string_or("previous_response_id", ""));
    if (request.previous_response_id.size() > kNameBytesMax) {
        return body.wrong("previous_response_id", "the id of a response");
    }
    DI_TRY(request.is_stored, body.boolean_or("store", true));
    DI_TRY(request.is_background, body.boolean_or("background", false));
    if (request.is_background && !request.is_stored) {
        return body.wrong("background", "store to be true with it");
    }
    DI_TRY(const auto truncation, body.string_or("truncation", "disabled"));
    if (truncation != "auto" && truncation != "disabled") {
        return body.wrong("truncation", "auto or disabled");
    }
    request.truncates_input = truncation == "auto";
    return {};
}

}  // namespace

Result<std::vector<Message>> parse_response_items(const JsonValue::Array& items, const std::string& path) {
    ItemReader reader;
    for (size_t i = 0; i < items.size(); ++i) {
        DI_TRY(const auto item, JsonReader::open(items[i], item_path(path, i)));
        DI_TRY_STATUS(reader.add(item));
    }
    return reader.take();
}

Result<Request> parse_responses_request(const JsonValue& body) {
    DI_TRY(const auto reader, JsonReader::open(body, ""));
    Request request;
    request.dialect = Dialect::kResponses;
    Conversation& conversation = request.conversation.emplace();
    DI_TRY_STATUS(parse_envelope_fields(reader, request));
    DI_TRY_STATUS(parse_store_fields(reader, request));
    DI_TRY(request.sampling, parse_sampling_fields(reader, Dialect::kResponses));
    DI_TRY_STATUS(parse_include(reader, request));
    // stream_options only has include_obfuscation here, which says nothing to us.
    DI_TRY(request.stream.is_streaming, reader.boolean_or("stream", false));
    DI_TRY_STATUS(parse_input(reader, request));
    DI_TRY(const auto thinking, parse_thinking_fields(reader, Dialect::kResponses));
    conversation.is_thinking = thinking.is_thinking;
    conversation.effort = thinking.effort;
    DI_TRY_STATUS(parse_tool_fields(reader, request));
    DI_TRY(conversation.response_format, parse_format_fields(reader, Dialect::kResponses));
    if (request.previous_response_id.empty()) {
        DI_TRY_STATUS(check_request(request));
    }
    return request;
}

Result<Request> parse_responses_request(std::string_view body_text) {
    DI_TRY(const auto body, parse_json(body_text));
    return parse_responses_request(body);
}

}  // namespace di
