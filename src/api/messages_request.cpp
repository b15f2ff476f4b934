#include "api/messages_request.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "api/envelope_fields.h"
#include "api/format_fields.h"
#include "api/json_reader.h"
#include "api/limits.h"
#include "api/sampling_fields.h"
#include "api/thinking_fields.h"
#include "api/tool_fields.h"

namespace di {
namespace {

Result<ContentPart> parse_image(const JsonReader& block) {
    DI_TRY(const auto source, block.required_object("source"));
    DI_TRY(const auto type, source.required_string("type"));
    ContentPart part;
    part.kind = ContentPart::Kind::kImage;
    part.path = block.path();
    if (type == "url") {
        DI_TRY(part.image_url, source.required_string("url"));
        return part;
    }
    if (type == "base64") {
        DI_TRY(const auto media_type, source.required_string("media_type"));
        DI_TRY(const auto data, source.required_string("data"));
        part.image_url = fmt::format("data:{};base64,{}", media_type, data);
        return part;
    }
    return source.wrong("type", "base64 or url");
}

// Documents are not read; the model is told that there was one.
Result<ContentPart> parse_document(const JsonReader& block) {
    DI_TRY(const auto source, block.required_object("source"));
    DI_TRY(const auto type, source.required_string("type"));
    DI_TRY(const auto media_type, source.string_or("media_type", type));
    return text_part(fmt::format("[Unsupported document type: {}]", media_type));
}

Result<ContentPart> parse_search_result(const JsonReader& block) {
    DI_TRY(auto text, block.string_or("title", ""));
    DI_TRY(const auto source, block.string_or("source", ""));
    text += "\n" + source;
    DI_TRY(const auto* contents, block.array("content", kMessagesMax));
    for (size_t i = 0; contents != nullptr && i < contents->size(); ++i) {
        DI_TRY(const auto content, JsonReader::open((*contents)[i], item_path(block.path_of("content"), i)));
        DI_TRY(const auto piece, content.required_string("text"));
        text += "\n" + piece;
    }
    return text_part(std::move(text));
}

// Blocks that hold something to read: in user and system messages and in tool results.
Result<ContentPart> parse_readable(const JsonReader& block, const std::string& type) {
    if (type == "text") {
        DI_TRY(auto text, block.required_string("text"));
        return text_part(std::move(text));
    }
    if (type == "image") {
        return parse_image(block);
    }
    if (type == "document") {
        return parse_document(block);
    }
    if (type == "search_result") {
        return parse_search_result(block);
    }
    return block.wrong("type",
                       "a block that this message may hold: text, image, document, search_result, tool_use, "
                       "tool_result, thinking or redacted_thinking");
}

// A string, or a list of readable blocks.
Result<std::vector<ContentPart>> parse_readables(const JsonReader& parent, std::string_view key) {
    std::vector<ContentPart> parts;
    const JsonValue* value = parent.find(key);
    if (value != nullptr && value->is_string()) {
        parts.push_back(text_part(value->as_string()));
        return parts;
    }
    DI_TRY(const auto* blocks, parent.array(key, kMessagesMax));
    for (size_t i = 0; blocks != nullptr && i < blocks->size(); ++i) {
        DI_TRY(const auto block, JsonReader::open((*blocks)[i], item_path(parent.path_of(key), i)));
        DI_TRY(const auto type, block.required_string("type"));
        DI_TRY(auto part, parse_readable(block, type));
        parts.push_back(std::move(part));
    }
    return parts;
}

class MessageReader {
  public:
    explicit MessageReader(std::vector<Message>& messages) : messages_(messages) {}

    Status add(const JsonReader& item) {
        DI_TRY(const auto role, item.required_string("role"));
        const JsonValue* content = item.find("content");
        if (content == nullptr || (!content->is_string() && !content->is_array())) {
            return item.wrong("content", "a string or a list of blocks");
        }
        if (role == "user") {
            return add_user(item, *content);
        }
        DI_TRY_STATUS(finish(item.path()));
        if (role == "assistant") {
            return add_assistant(item, *content);
        }
        if (role != "system") {
            return item.wrong("role", "user, assistant or system");
        }
        Message message;
        message.role = MessageRole::kSystem;
        message.path = item.path();
        DI_TRY(message.parts, parse_readables(item, "content"));
        messages_.push_back(std::move(message));
        return {};
    }

    // Every call of the message before must have its result by now.
    Status finish(const std::string& path) const {
        if (open_calls_.empty()) {
            return {};
        }
        return fail(ErrorCode::kInvalidArgument,
                    "{}: tool_use {} has no tool_result, expected one for each tool_use in the next message", path,
                    short_quoted(open_calls_.front()));
    }

  private:
    // Results first, in whatever place they stood; the rest of the message follows them.
    Status add_user(const JsonReader& item, const JsonValue& content) {
        Message rest;
        rest.role = MessageRole::kUser;
        rest.path = item.path();
        bool has_result = false;
        if (content.is_string()) {
            rest.parts.push_back(text_part(content.as_string()));
        } else {
            DI_TRY(const auto* blocks, item.array("content", kMessagesMax));
            for (size_t i = 0; i < blocks->size(); ++i) {
                DI_TRY(const auto block, JsonReader::open((*blocks)[i], item_path(item.path_of("content"), i)));
                DI_TRY(const auto type, block.required_string("type"));
                if (type == "tool_result") {
                    DI_TRY_STATUS(add_result(block));
                    has_result = true;
                    continue;
                }
                DI_TRY(auto part, parse_readable(block, type));
                rest.parts.push_back(std::move(part));
            }
        }
        DI_TRY_STATUS(finish(item.path()));
        known_calls_.clear();
        if (!has_result || !rest.parts.empty()) {
            messages_.push_back(std::move(rest));
        }
        return {};
    }

    Status add_result(const JsonReader& block) {
        Message result;
        result.role = MessageRole::kTool;
        result.path = block.path();
        DI_TRY(result.tool_call_id, block.required_string("tool_use_id"));
        if (!known_calls_.contains(result.tool_call_id)) {
            return block.wrong("tool_use_id", "the id of a tool_use block of the message before");
        }
        DI_TRY(result.parts, parse_readables(block, "content"));
        open_calls_.erase(std::remove(open_calls_.begin(), open_calls_.end(), result.tool_call_id), open_calls_.end());
        messages_.push_back(std::move(result));
        return {};
    }

    Status add_assistant(const JsonReader& item, const JsonValue& content) {
        Message turn;
        turn.role = MessageRole::kAssistant;
        turn.path = item.path();
        if (content.is_string()) {
            turn.parts.push_back(text_part(content.as_string()));
        } else {
            DI_TRY(const auto* blocks, item.array("content", kMessagesMax));
            bool has_reasoning = false;
            for (size_t i = 0; i < blocks->size(); ++i) {
                DI_TRY(const auto block, JsonReader::open((*blocks)[i], item_path(item.path_of("content"), i)));
                DI_TRY_STATUS(add_assistant_block(block, turn, has_reasoning));
            }
        }
        known_calls_.clear();
        for (const ToolCall& call : turn.tool_calls) {
            known_calls_.insert(call.id);
            open_calls_.push_back(call.id);
        }
        messages_.push_back(std::move(turn));
        return {};
    }

    static Status add_assistant_block(const JsonReader& block, Message& turn, bool& has_reasoning) {
        DI_TRY(const auto type, block.required_string("type"));
        if (type == "redacted_thinking") {
            return {};  // nothing in it that we could read
        }
        if (type == "thinking") {
            DI_TRY(const auto text, block.required_string("thinking"));
            turn.reasoning += has_reasoning ? "\n\n" + text : text;
            has_reasoning = true;
            return {};
        }
        if (type == "tool_use") {
            ToolCall call;
            DI_TRY(call.id, block.required_string("id"));
            DI_TRY(call.name, block.required_string("name"));
            DI_TRY(const auto input, block.object("input"));
            call.arguments = input ? json_text(*block.find("input")) : "{}";
            turn.tool_calls.push_back(std::move(call));
            return {};
        }
        DI_TRY(auto part, parse_readable(block, type));
        turn.parts.push_back(std::move(part));
        return {};
    }

    std::vector<Message>& messages_;
    std::unordered_set<std::string> known_calls_;  // of the message before
    std::vector<std::string> open_calls_;          // those without a result yet
};

Status parse_conversation(const JsonReader& body, Conversation& conversation) {
    if (body.has("system")) {
        Message message;
        message.role = MessageRole::kSystem;
        message.path = body.path_of("system");
        DI_TRY(message.parts, parse_readables(body, "system"));
        if (!message.parts.empty()) {
            conversation.messages.push_back(std::move(message));
        }
    }
    DI_TRY(const auto* items, body.array("messages", kMessagesMax));
    if (items == nullptr || items->empty()) {
        return body.wrong("messages", "a list of at least one message");
    }
    MessageReader reader(conversation.messages);
    for (size_t i = 0; i < items->size(); ++i) {
        DI_TRY(const auto item, JsonReader::open((*items)[i], item_path(body.path_of("messages"), i)));
        DI_TRY_STATUS(reader.add(item));
    }
    return reader.finish(body.path_of("messages"));
}

// This protocol continues a last assistant message (clients force the beginning of an answer this
// way) unless thinking is asked for by name; who leaves `thinking` out then means no thinking.
void apply_thinking(const ThinkingFields& thinking, const MessagesRules& rules, Conversation& conversation) {
    Message& last = conversation.messages.back();
    conversation.is_thinking = thinking.has_mode ? thinking.is_thinking : thinking.is_thinking && rules.is_thinking_by_default;
    conversation.effort = thinking.effort;
    const bool is_asked_for = thinking.has_mode && thinking.is_thinking;
    if (last.role == MessageRole::kAssistant && !is_asked_for) {
        last.is_prefix = true;
        conversation.is_thinking = false;
    }
}

}  // namespace

Result<Request> parse_messages_request(const JsonValue& body, const MessagesRules& rules) {
    DI_TRY(const auto reader, JsonReader::open(body, ""));
    Request request;
    request.dialect = Dialect::kMessages;
    Conversation& conversation = request.conversation.emplace();
    DI_TRY_STATUS(parse_envelope_fields(reader, request));
    DI_TRY(request.sampling, parse_sampling_fields(reader, Dialect::kMessages));
    DI_TRY(request.stream.is_streaming, reader.boolean_or("stream", false));
    DI_TRY_STATUS(parse_conversation(reader, conversation));
    DI_TRY(const auto thinking, parse_thinking_fields(reader, Dialect::kMessages));
    apply_thinking(thinking, rules, conversation);
    if (!request.sampling.reasoning_tokens_max) {
        request.sampling.reasoning_tokens_max = thinking.budget_tokens;
    }
    DI_TRY_STATUS(parse_tool_fields(reader, request, {.drops_server_tools = rules.drops_server_tools}));
    DI_TRY(conversation.response_format, parse_format_fields(reader, Dialect::kMessages));
    DI_TRY_STATUS(check_request(request));
    return request;
}

Result<Request> parse_messages_request(std::string_view body_text, const MessagesRules& rules) {
    DI_TRY(const auto body, parse_json(body_text));
    return parse_messages_request(body, rules);
}

}  // namespace di
