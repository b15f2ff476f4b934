#include "text/chat_format.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_tokens.h"
#include "text/unicode.h"

namespace di {

namespace {

// Keys whose strings come from clients.
constexpr std::string_view kContentKey = "content";
constexpr std::string_view kReasoningKey = "reasoning_content";

// Keeps what clients write from spelling a special token, whatever a template does with it: in every such spelling goes a
// character that no text has, taken out again behind the search for special tokens. The engine's own marks are not enough.
class SpellingGuard {
  public:
    // Takes the first of Unicode's noncharacters U+FDD0 to U+FDEF that no message holds.
    [[nodiscard]] static Result<SpellingGuard> create(const Conversation& conversation) {
        for (char32_t candidate = 0xfdd0; candidate <= 0xfdef; ++candidate) {
            std::string guard;
            append_utf8(guard, candidate);
            if (!is_used(conversation, guard)) {
                return SpellingGuard(std::move(guard));
            }
        }
        return fail(ErrorCode::kInvalidArgument,
                    "messages: they hold all of the noncharacters U+FDD0 to U+FDEF, expected at least one to be absent");
    }

    [[nodiscard]] std::string guarded(std::string text, const Tokenizer& tokenizer) const {
        // Breaking one spelling may lay open another that began inside it.
        for (bool is_changed = true; is_changed;) {
            is_changed = false;
            std::string broken;
            for (const TextSegment& segment : tokenizer.find_added_tokens(text)) {
                const bool is_special = segment.token_id >= 0 && tokenizer.is_special(segment.token_id);
                const size_t head = is_special ? utf8_step(segment.text).length : segment.text.size();
                broken += segment.text.substr(0, head);
                broken += is_special ? guard_ : "";
                broken += segment.text.substr(head);
                is_changed = is_changed || is_special;
            }
            text = std::move(broken);
        }
        return text;
    }

    // Appends `text` without guards.
    void append(std::string_view text, std::string& out) const {
        for (size_t at = 0; at < text.size();) {
            const size_t found = std::min(text.find(guard_, at), text.size());
            out += text.substr(at, found - at);
            at = found + guard_.size();
        }
    }

  private:
    explicit SpellingGuard(std::string guard) : guard_(std::move(guard)) {}

    static bool is_used(const Conversation& conversation, std::string_view guard) {
        return std::ranges::any_of(conversation.messages, [&](const Message& message) {
            return message.reasoning.find(guard) != std::string::npos ||
                   std::ranges::any_of(message.parts,
                                       [&](const ContentPart& part) { return part.text.find(guard) != std::string::npos; });
        });
    }

    std::string guard_;
};

// Parts are joined as everywhere (conversation.h).
Result<std::string> text_of(const Message& message) {
    std::string text;
    for (size_t i = 0; i < message.parts.size(); ++i) {
        if (message.parts[i].kind != ContentPart::Kind::kText) {
            return fail(ErrorCode::kUnsupported, "{}: images are not supported with this model's chat template",
                        message.parts[i].path.empty() ? message.path : message.parts[i].path);
        }
        text += (i > 0 ? "\n\n" : "") + message.parts[i].text;
    }
    return text;
}

Result<std::string_view> role_of(const Message& message) {
    switch (message.role) {
        case MessageRole::kSystem: return "system";
        case MessageRole::kUser: return "user";
        case MessageRole::kAssistant: return "assistant";
        case MessageRole::kTool:
            return fail(ErrorCode::kUnsupported, "{}: tool results are not supported with this model's chat template",
                        message.path);
        case MessageRole::kReminder:
            return fail(ErrorCode::kUnsupported, "{}: reminders are not supported with this model's chat template",
                        message.path);
    }
    return "user";
}

Status check_supported(const Conversation& conversation) {
    if (!offered_tools(conversation).empty()) {
        return fail(ErrorCode::kUnsupported,
                    "tools: tool calls are not supported with this model's chat template, expected a request without tools");
    }
    if (asked_task(conversation)) {
        return fail(ErrorCode::kUnsupported, "quick tasks are DeepSeek's, this model has none");
    }
    for (const Message& message : conversation.messages) {
        if (!message.tool_calls.empty()) {
            return fail(ErrorCode::kUnsupported, "{}: tool calls are not supported with this model's chat template",
                        message.path);
        }
        if (message.is_prefix) {
            return fail(ErrorCode::kUnsupported, "{}: continuing an answer is not supported with this model's chat template",
                        message.path);
        }
    }
    return {};
}

Result<JsonValue> messages_of(const Conversation& conversation, const SpellingGuard& guard, const Tokenizer& tokenizer) {
    JsonValue::Array messages;
    for (const Message& message : conversation.messages) {
        DI_TRY(const std::string_view role, role_of(message));
        DI_TRY(std::string text, text_of(message));
        JsonValue entry = JsonValue::object();
        entry.set("role", JsonValue::string(std::string(role)));
        entry.set(kContentKey, JsonValue::string(guard.guarded(std::move(text), tokenizer)));
        if (!message.reasoning.empty()) {
            entry.set(kReasoningKey, JsonValue::string(guard.guarded(message.reasoning, tokenizer)));
        }
        messages.push_back(std::move(entry));
    }
    return JsonValue::array(std::move(messages));
}

// Appends text in which added tokens are recognized.
void append_recognized(std::string_view text, const SpellingGuard& guard, const Tokenizer& tokenizer, EncodedPrompt& prompt) {
    for (const TextSegment& segment : tokenizer.find_added_tokens(text)) {
        const auto begin = static_cast<int64_t>(prompt.text.size());
        guard.append(segment.text, prompt.text);
        if (segment.token_id >= 0) {
            prompt.special_ranges.push_back({.begin = begin, .end = static_cast<int64_t>(prompt.text.size())});
        }
    }
}

// Templates of reasoning models may open the reasoning themselves.
bool ends_with_think(std::string_view text) { return text.substr(0, text.find_last_not_of(" \n") + 1).ends_with(kThinkToken); }

}  // namespace

ChatFormat ChatFormat::deepseek(ChatDialect dialect) { return ChatFormat(Kind(dialect)); }

ChatFormat ChatFormat::of_template(const ChatTemplate& chat_template) {
    auto program = JinjaTemplate::parse(chat_template.source);
    if (!program) {
        return ChatFormat(Kind(Error{program.error().code, "chat template: " + program.error().text}));
    }
    return ChatFormat(Kind(Template{.program = std::move(*program),
                                    .bos = chat_template.bos,
                                    .eos = chat_template.eos,
                                    .adds_bos = chat_template.adds_bos}));
}

ChatFormat ChatFormat::none(std::string reason) { return ChatFormat(Kind(Error{ErrorCode::kUnsupported, std::move(reason)})); }

Result<EncodedPrompt> ChatFormat::encode(const Conversation& conversation, const Tokenizer& tokenizer) const {
    if (const auto* dialect = std::get_if<ChatDialect>(&kind_)) {
        return encode_prompt(conversation, *dialect);
    }
    if (const auto* error = std::get_if<Error>(&kind_)) {
        return tl::unexpected<Error>(*error);
    }
    return render(std::get<Template>(kind_), conversation, tokenizer);
}

Result<EncodedPrompt> ChatFormat::render(const Template& chat_template, const Conversation& conversation,
                                         const Tokenizer& tokenizer) {
    DI_TRY_STATUS(check_conversation(conversation));
    DI_TRY_STATUS(check_supported(conversation));
    DI_TRY(const SpellingGuard guard, SpellingGuard::create(conversation));
    JsonValue variables = JsonValue::object();
    DI_TRY(JsonValue messages, messages_of(conversation, guard, tokenizer));
    variables.set("messages", std::move(messages));
    variables.set("add_generation_prompt", JsonValue::boolean(true));
    variables.set("enable_thinking", JsonValue::boolean(conversation.is_thinking));
    variables.set("bos_token", JsonValue::string(chat_template.bos));
    variables.set("eos_token", JsonValue::string(chat_template.eos));
    DI_TRY(const std::vector<TemplateText> texts, chat_template.program.render(variables, {kContentKey, kReasoningKey}));
    EncodedPrompt prompt;
    const bool has_bos = !texts.empty() && !texts.front().is_input && texts.front().text.starts_with(chat_template.bos);
    if (chat_template.adds_bos && !has_bos) {
        append_recognized(chat_template.bos, guard, tokenizer, prompt);
    }
    for (const TemplateText& text : texts) {
        if (text.is_input) {
            guard.append(text.text, prompt.text);
        } else {
            append_recognized(text.text, guard, tokenizer, prompt);
        }
    }
    const bool opens_reasoning = !texts.empty() && !texts.back().is_input && ends_with_think(texts.back().text);
    prompt.answer_start = opens_reasoning ? AnswerStart::kReasoning : AnswerStart::kContent;
    return prompt;
}

}  // namespace di
