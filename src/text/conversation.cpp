#include "text/conversation.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include "text/strict_schema.h"

namespace di {
namespace {

constexpr std::array<std::pair<std::string_view, QuickTask>, 6> kQuickTasks = {{
    {"action", QuickTask::kAction},
    {"query", QuickTask::kQuery},
    {"authority", QuickTask::kAuthority},
    {"domain", QuickTask::kDomain},
    {"title", QuickTask::kTitle},
    {"read_url", QuickTask::kReadUrl},
}};

// Whether a text holds "json" in any case.
bool mentions_json(std::string_view text) {
    static constexpr std::string_view kWord = "json";
    const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b; };
    return std::search(text.begin(), text.end(), kWord.begin(), kWord.end(), same) != text.end();
}

bool mentions_json(const Conversation& conversation) {
    for (const Message& message : conversation.messages) {
        for (const ContentPart& part : message.parts) {
            if (mentions_json(part.text)) {
                return true;
            }
        }
    }
    return false;
}

Status check_assistant(const Message& message, bool is_last) {
    std::unordered_set<std::string_view> ids;
    for (size_t i = 0; i < message.tool_calls.size(); ++i) {
        if (!ids.insert(message.tool_calls[i].id).second) {
            return fail(ErrorCode::kInvalidArgument, "{}.tool_calls[{}].id: {} is used twice, expected ids that differ",
                        message.path, i, short_quoted(message.tool_calls[i].id));
        }
    }
    for (const ContentPart& part : message.parts) {
        if (part.kind == ContentPart::Kind::kImage) {
            return fail(ErrorCode::kInvalidArgument, "{}: an image in an assistant message, expected text", part.path);
        }
    }
    if (message.is_prefix && !is_last) {
        return fail(ErrorCode::kInvalidArgument, "{}.prefix: only the last message can be continued", message.path);
    }
    if (message.is_prefix && !message.tool_calls.empty()) {
        return fail(ErrorCode::kInvalidArgument, "{}.prefix: a message with tool calls cannot be continued", message.path);
    }
    return {};
}

// Walks the messages and holds open the calls that still need a result.
class CallLedger {
  public:
    Status add(const Message& message) {
        if (message.role == MessageRole::kTool) {
            if (!known_.contains(message.tool_call_id)) {
                return fail(
                    ErrorCode::kInvalidArgument,
                    "{}.tool_call_id: {} answers no call, expected the id of a tool call of the assistant message before it",
                    message.path, short_quoted(message.tool_call_id));
            }
            open_.erase(std::remove(open_.begin(), open_.end(), std::string_view(message.tool_call_id)), open_.end());
            return {};
        }
        DI_TRY_STATUS(finish());
        if (message.role == MessageRole::kUser) {
            return {};
        }
        known_.clear();
        for (const ToolCall& call : message.tool_calls) {
            known_.insert(call.id);
            open_.push_back(call.id);
        }
        caller_path_ = message.path;
        return {};
    }

    Status finish() const {
        if (open_.empty()) {
            return {};
        }
        return fail(ErrorCode::kInvalidArgument,
                    "{}.tool_calls: call {} has no result, expected a tool message for each call directly after the message",
                    caller_path_, short_quoted(open_.front()));
    }

  private:
    std::unordered_set<std::string_view> known_;  // calls of the last assistant message
    std::vector<std::string_view> open_;          // those not answered yet
    std::string_view caller_path_;
};

Status check_messages(const Conversation& conversation) {
    if (conversation.messages.empty()) {
        return fail(ErrorCode::kInvalidArgument, "messages: the list is empty, expected at least one message");
    }
    CallLedger ledger;
    for (const Message& message : conversation.messages) {
        const bool is_last = &message == &conversation.messages.back();
        if (message.role == MessageRole::kAssistant) {
            DI_TRY_STATUS(check_assistant(message, is_last));
        } else if (message.is_prefix) {
            return fail(ErrorCode::kInvalidArgument, "{}.prefix: only an assistant message can be continued", message.path);
        } else if (!message.tool_calls.empty()) {
            return fail(ErrorCode::kInvalidArgument, "{}.tool_calls: only an assistant message calls tools", message.path);
        }
        if (message.task && message.role != MessageRole::kUser) {
            return fail(ErrorCode::kInvalidArgument, "{}.task: only a user message can be a task", message.path);
        }
        if (message.task && !is_last && (&message + 1)->role != MessageRole::kAssistant) {
            return fail(ErrorCode::kInvalidArgument, "{}.task: the message after a task must be the assistant's", message.path);
        }
        DI_TRY_STATUS(ledger.add(message));
    }
    return ledger.finish();
}

Status check_tools(const Conversation& conversation) {
    std::unordered_set<std::string_view> names;
    for (const Tool& tool : conversation.tools) {
        if (!names.insert(tool.name).second) {
            return fail(ErrorCode::kInvalidArgument, "{}.name: {} is declared twice, expected names that differ", tool.path,
                        short_quoted(tool.name));
        }
        DI_TRY_STATUS(check_tool_schema(tool.parameters, tool.is_strict, member_path(tool.path, tool.schema_key)));
    }
    for (const std::string& name : conversation.tool_choice.allowed_names) {
        if (!names.contains(name) && !conversation.tools.empty()) {
            return fail(ErrorCode::kInvalidArgument, "tool_choice: {} is not among the tools", short_quoted(name));
        }
    }
    return {};
}

Status check_continuation(const Conversation& conversation) {
    const Message& last = conversation.messages.back();
    if (last.is_prefix && forces_tool_call(conversation)) {
        return fail(ErrorCode::kInvalidArgument,
                    "tool_choice: a tool call cannot be forced while the last message is continued");
    }
    if (!asked_task(conversation)) {
        return {};
    }
    if (last.role == MessageRole::kAssistant) {
        return fail(ErrorCode::kInvalidArgument, "task: the last message is the assistant's, expected the user's");
    }
    if (forces_tool_call(conversation)) {
        return fail(ErrorCode::kInvalidArgument, "task: a quick task calls no tools, expected no forced tool_choice");
    }
    return {};
}

Status check_format(const ResponseFormat& format, const Conversation& conversation) {
    const std::string_view path = format.path.empty() ? "response_format" : std::string_view(format.path);
    if (format.kind == ResponseFormat::Kind::kJsonObject && !mentions_json(conversation)) {
        return fail(ErrorCode::kInvalidArgument, "{}: json_object needs the word 'json' in some message", path);
    }
    if (format.kind == ResponseFormat::Kind::kJsonSchema) {
        return check_schema(format.schema, path);
    }
    return {};
}

}  // namespace

ContentPart text_part(std::string text) {
    ContentPart part;
    part.text = std::move(text);
    return part;
}

std::optional<QuickTask> quick_task(std::string_view name) {
    for (const auto& [task_name, task] : kQuickTasks) {
        if (task_name == name) {
            return task;
        }
    }
    return std::nullopt;
}

std::string_view quick_task_names() { return "action, query, authority, domain, title, read_url"; }

Conversation user_conversation(std::string text) {
    Message message;
    message.parts.push_back(text_part(std::move(text)));
    message.path = "messages[0]";
    Conversation conversation;
    conversation.messages.push_back(std::move(message));
    return conversation;
}

std::vector<const Tool*> offered_tools(const Conversation& conversation) {
    std::vector<const Tool*> offered;
    if (conversation.tool_choice.kind == ToolChoice::Kind::kNone) {
        return offered;
    }
    const std::vector<std::string>& allowed = conversation.tool_choice.allowed_names;
    for (const Tool& tool : conversation.tools) {
        if (allowed.empty() || std::find(allowed.begin(), allowed.end(), tool.name) != allowed.end()) {
            offered.push_back(&tool);
        }
    }
    return offered;
}

std::optional<QuickTask> asked_task(const Conversation& conversation) {
    const Message& last = conversation.messages.back();
    return last.role == MessageRole::kUser && last.task ? last.task : conversation.task;
}

bool forces_tool_call(const Conversation& conversation) {
    return conversation.tool_choice.kind == ToolChoice::Kind::kRequired && !offered_tools(conversation).empty();
}

Status check_conversation(const Conversation& conversation) {
    DI_TRY_STATUS(check_messages(conversation));
    if (conversation.is_thinking && (conversation.effort < 1 || conversation.effort > kEffortMax)) {
        return fail(ErrorCode::kInvalidArgument, "reasoning_effort: {}, expected 1 to {}", conversation.effort, kEffortMax);
    }
    DI_TRY_STATUS(check_tools(conversation));
    DI_TRY_STATUS(check_continuation(conversation));
    return check_format(conversation.response_format, conversation);
}

}  // namespace di
