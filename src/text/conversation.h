#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/json_text.h"

namespace di {

// What every request dialect becomes before a prompt is built from it: a conversation in neutral
// terms. A prompt from one line of text is `encode_prompt(user_conversation(text), dialect)`.

enum class MessageRole {
    kSystem,  // also "developer"
    kUser,
    kAssistant,
    kTool,      // the result of one call of the assistant message before it
    kReminder,  // "latest_reminder": facts of the moment, written in place
};

enum class ImageDetail { kLow, kHigh, kAuto, kOriginal };

// A text, or an image that is named by its address and loaded by others.
struct ContentPart {
    enum class Kind { kText, kImage };
    Kind kind = Kind::kText;
    std::string text;       // kText: as it came, never trimmed or escaped
    std::string image_url;  // kImage: http(s) or data URL
    ImageDetail image_detail = ImageDetail::kHigh;
    std::string path;  // kImage: where in the request it stood, for messages to the client
};

[[nodiscard]] ContentPart text_part(std::string text);

struct ToolCall {
    std::string id;  // unique within its message
    std::string name;
    std::string arguments;  // JSON object text; anything else is repeated to the model as it is
};

// Small jobs that the model answers without reasoning (spec: chat encoding, section 7).
enum class QuickTask { kAction, kQuery, kAuthority, kDomain, kTitle, kReadUrl };

[[nodiscard]] std::optional<QuickTask> quick_task(std::string_view name);
[[nodiscard]] std::string_view quick_task_names();  // for messages: "action, query, ..."

struct Message {
    MessageRole role = MessageRole::kUser;
    std::vector<ContentPart> parts;    // joined with an empty line
    std::string reasoning;             // assistant: its reasoning, if the client sent it back
    std::vector<ToolCall> tool_calls;  // assistant
    std::string tool_call_id;          // tool: the call that it answers
    std::optional<QuickTask> task;     // user: this turn was a quick task (history)
    bool is_prefix = false;            // assistant, last: the model continues this text
    std::string path;                  // where in the request it stood: "messages[2]"
};

struct Tool {
    std::string name;
    std::string description;                     // "" when none was given
    JsonValue parameters = JsonValue::object();  // JSON Schema of the arguments; {} when none was given
    bool is_strict = false;                      // arguments are forced to the schema, closed
    bool is_custom = false;                      // its one argument `input` is text that the client gets as it is
    std::string path;                            // where in the request it stood: "tools[0]"
    std::string schema_key = "parameters";       // how the request's dialect calls the schema
};

struct ToolChoice {
    enum class Kind { kAuto, kNone, kRequired };
    Kind kind = Kind::kAuto;
    std::vector<std::string> allowed_names;  // only these are offered; empty = all
};

struct ResponseFormat {
    enum class Kind { kText, kJsonObject, kJsonSchema, kRegex, kGrammar, kChoice, kStructuralTag };
    Kind kind = Kind::kText;
    JsonValue schema;                  // kJsonSchema: the schema as sent; kStructuralTag: the tag object
    bool is_strict = false;            // kJsonSchema
    std::string pattern;               // kRegex, kGrammar (EBNF)
    std::vector<std::string> choices;  // kChoice
    std::string path;                  // where in the request it stood: "response_format"
};

// Reasoning effort is a number from 1 to 100; names stand for these.
inline constexpr int32_t kEffortLow = 50;
inline constexpr int32_t kEffortHigh = 75;
inline constexpr int32_t kEffortMax = 100;

struct Conversation {
    std::vector<Message> messages;
    std::vector<Tool> tools;
    ToolChoice tool_choice;
    ResponseFormat response_format;
    bool is_thinking = true;
    int32_t effort = kEffortHigh;   // used while thinking
    std::optional<QuickTask> task;  // the last user turn is a quick task
};

[[nodiscard]] Conversation user_conversation(std::string text);

// The tools that the model is told about: none, all, or the allowed ones, in the order of declaration.
[[nodiscard]] std::vector<const Tool*> offered_tools(const Conversation& conversation);

// The quick task that the answer is to: of the conversation, or of its last user turn.
[[nodiscard]] std::optional<QuickTask> asked_task(const Conversation& conversation);

// Whether the answer must be a tool call.
[[nodiscard]] bool forces_tool_call(const Conversation& conversation);

// Everything about the conversation as a whole that would make it impossible to write as a prompt:
// calls without results and results without calls, images in assistant messages, a prefix that is
// not last, broken tool schemas, ... The error begins with the place in the request.
[[nodiscard]] Status check_conversation(const Conversation& conversation);

}  // namespace di
