#include "text/chat_encoding.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "text/chat_tokens.h"
#include "text/chat_tools.h"
#include "text/prompt_writer.h"

namespace di {
namespace {

// V4 has words for two levels of effort and nothing for the low one.
constexpr std::string_view kEffortHighV4 =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root cause, "
    "rigorously stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, considered alternative, "
    "and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n";

constexpr std::string_view kEffortMaxV4 =
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively decompose the "
    "problem into its most fundamental components, trace every causal chain to its root, and resolve the underlying cause "
    "rather than any surface symptom.\n"
    "Do not stop reasoning until you have independently verified the solution from multiple angles and are certain that no "
    "assumption remains unchecked and no error remains undiscovered.\n\n";

constexpr std::string_view kSchemaHead = "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";
constexpr std::string_view kJsonObjectV4 =
    "You are a helpful assistant designed to output JSON.\n## Response Format:\n\nReply with JSON object ONLY.";

// Between messages of one turn, parts of one message, and blocks of the system text.
constexpr std::string_view kJoint = "\n\n";

std::string_view task_token(QuickTask task) {
    switch (task) {
        case QuickTask::kAction: return kActionToken;
        case QuickTask::kQuery: return kQueryToken;
        case QuickTask::kAuthority: return kAuthorityToken;
        case QuickTask::kDomain: return kDomainToken;
        case QuickTask::kTitle: return kTitleToken;
        case QuickTask::kReadUrl: return kReadUrlToken;
    }
    DI_CHECK(false, "unknown task");
}

bool is_user_turn(MessageRole role) { return role == MessageRole::kUser || role == MessageRole::kTool; }

bool has_content(const Message& turn) {
    return std::any_of(turn.parts.begin(), turn.parts.end(), [](const ContentPart& part) { return !part.text.empty(); });
}

class PromptEncoder {
  public:
    PromptEncoder(const Conversation& conversation, ChatDialect dialect)
        : conversation_(conversation),
          dialect_(dialect),
          tools_(offered_tools(conversation)),
          task_(asked_task(conversation)) {}

    Result<EncodedPrompt> encode() {
        writer_.special(kBeginToken);
        arrange();
        DI_TRY_STATUS(write_head());
        for (size_t at = 0; at < body_.size(); ++at) {
            write_message(body_[at], at == 0 ? -1 : body_[at - 1]);
        }
        return writer_.finish(write_generation());
    }

  private:
    const Message& message(int64_t index) const { return conversation_.messages[static_cast<size_t>(index)]; }
    bool is_v41() const { return dialect_ == ChatDialect::kV41; }

    // Splits the messages into those that make the system text at the start and the rest.
    void arrange() {
        const auto count = static_cast<int64_t>(conversation_.messages.size());
        for (int64_t i = 0; i < count; ++i) {
            const bool is_system = message(i).role == MessageRole::kSystem;
            if (is_system && (i == 0 || !is_v41())) {
                head_.push_back(i);
            } else {
                body_.push_back(i);
            }
        }
        sort_tool_results();
    }

    // Results of one turn go into the order of the calls; other messages of the turn keep their places.
    void sort_tool_results() {
        const Message* caller = nullptr;
        for (size_t first = 0; first < body_.size();) {
            if (message(body_[first]).role == MessageRole::kAssistant) {
                caller = &message(body_[first]);
            }
            size_t end = first;
            std::vector<size_t> places;
            std::vector<std::pair<size_t, int64_t>> results;  // position of the call, message
            while (end < body_.size() && is_user_turn(message(body_[end]).role)) {
                if (message(body_[end]).role == MessageRole::kTool) {
                    places.push_back(end);
                    results.emplace_back(call_position(caller, message(body_[end]).tool_call_id), body_[end]);
                }
                ++end;
            }
            std::stable_sort(results.begin(), results.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
            for (size_t i = 0; i < places.size(); ++i) {
                body_[places[i]] = results[i].second;
            }
            first = std::max(end, first + 1);
        }
    }

    static size_t call_position(const Message* caller, std::string_view id) {
        if (caller == nullptr) {
            return 0;
        }
        for (size_t i = 0; i < caller->tool_calls.size(); ++i) {
            if (caller->tool_calls[i].id == id) {
                return i;
            }
        }
        return 0;
    }

    bool has_format_block() const {
        return conversation_.response_format.kind == ResponseFormat::Kind::kJsonObject ||
               conversation_.response_format.kind == ResponseFormat::Kind::kJsonSchema;
    }

    // The system token, the effort, the system text, the tools and the format of the answer.
    Status write_head() {
        const bool has_system_text = !head_.empty() || !tools_.empty() || has_format_block();
        if (is_v41() && (conversation_.is_thinking || has_system_text)) {
            writer_.special(kSystemToken);
        }
        if (conversation_.is_thinking) {
            write_effort();
        }
        for (size_t i = 0; i < head_.size(); ++i) {
            writer_.plain(i == 0 ? "" : kJoint);
            write_parts(head_[i]);
        }
        if (!tools_.empty()) {
            writer_.plain(kJoint);
            DI_TRY_STATUS(write_tool_declarations(writer_, tools_, dialect_));
        }
        if (has_format_block()) {
            writer_.plain(kJoint);
            write_format();
        }
        return {};
    }

    void write_effort() {
        if (is_v41()) {
            writer_.plain(
                fmt::format("Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the reasoning)\n\n",
                            conversation_.effort));
        } else if (conversation_.effort >= kEffortMax) {
            writer_.plain(kEffortMaxV4);
        } else if (conversation_.effort >= kEffortHigh) {
            writer_.plain(kEffortHighV4);
        }
    }

    void write_format() {
        const ResponseFormat& format = conversation_.response_format;
        if (format.kind == ResponseFormat::Kind::kJsonSchema) {
            writer_.plain(kSchemaHead);
            writer_.plain(json_text(format.schema));
        } else if (is_v41()) {
            writer_.plain(kSchemaHead);
            writer_.plain("{\"type\": \"json_object\"}");
        } else {
            writer_.plain(kJsonObjectV4);
        }
    }

    void write_parts(int64_t message_index) {
        const std::vector<ContentPart>& parts = message(message_index).parts;
        for (size_t i = 0; i < parts.size(); ++i) {
            writer_.plain(i == 0 ? "" : kJoint);
            if (parts[i].kind == ContentPart::Kind::kImage) {
                writer_.image({.message_index = message_index, .part_index = static_cast<int64_t>(i), .range_index = 0});
            } else {
                writer_.plain(parts[i].text);
            }
        }
    }

    void write_message(int64_t index, int64_t previous) {
        const bool follows_user_turn = previous >= 0 && is_user_turn(message(previous).role);
        switch (message(index).role) {
            case MessageRole::kSystem:
                writer_.special(kSystemToken);
                write_parts(index);
                return;
            case MessageRole::kReminder:
                writer_.special(kReminderToken);
                write_parts(index);
                return;
            case MessageRole::kUser:
                open_user_turn(follows_user_turn);
                write_parts(index);
                return;
            case MessageRole::kTool:
                open_user_turn(follows_user_turn);
                writer_.plain("<tool_result>");
                write_parts(index);
                writer_.plain("</tool_result>");
                return;
            case MessageRole::kAssistant: write_assistant(index, previous >= 0 ? message(previous).task : std::nullopt); return;
        }
    }

    void open_user_turn(bool is_open) {
        if (is_open) {
            writer_.plain(kJoint);
        } else {
            writer_.special(kUserToken);
        }
    }

    void write_assistant(int64_t index, std::optional<QuickTask> answered_task) {
        const Message& turn = message(index);
        if (answered_task) {
            write_task(*answered_task);
        } else {
            writer_.special(kAssistantToken);
            if (turn.is_prefix) {
                write_prefix(index);
                return;
            }
            write_reasoning(turn.reasoning, conversation_.is_thinking && !tools_.empty());
        }
        write_parts(index);
        if (!turn.tool_calls.empty()) {
            write_tool_calls(writer_, turn.tool_calls, dialect_);
        }
        if (!turn.is_prefix) {
            writer_.special(kEndToken);
        }
    }

    // Earlier reasoning stays only where the model may be in the middle of a tool loop.
    void write_reasoning(std::string_view reasoning, bool is_kept) {
        if (is_kept) {
            writer_.special(kThinkToken);
            writer_.plain(reasoning);
        }
        writer_.special(kThinkEndToken);
    }

    // The turn that the model continues: nothing after what is given.
    void write_prefix(int64_t index) {
        const Message& turn = message(index);
        if (!conversation_.is_thinking || has_content(turn)) {
            write_reasoning(turn.reasoning, conversation_.is_thinking);
            write_parts(index);
            return;
        }
        writer_.special(kThinkToken);
        writer_.plain(turn.reasoning);
    }

    // What stands between a user turn and the answer to a quick task.
    void write_task(QuickTask task) {
        if (task == QuickTask::kAction) {
            writer_.special(kAssistantToken);
            writer_.special(conversation_.is_thinking ? kThinkToken : kThinkEndToken);
        }
        writer_.special(task_token(task));
    }

    // The last part of the prompt, and what the reader of the answer must know.
    EncodedPrompt write_generation() {
        EncodedPrompt ending;
        ending.answer_start = answer_start(conversation_);
        ending.may_call_tools = may_call_tools(conversation_);
        ending.must_call_tools = forces_tool_call(conversation_);
        if (task_) {
            write_task(*task_);
            return ending;
        }
        if (conversation_.messages.back().is_prefix) {
            return ending;
        }
        writer_.special(kAssistantToken);
        writer_.special(conversation_.is_thinking ? kThinkToken : kThinkEndToken);
        if (ending.answer_start == AnswerStart::kCalls) {
            write_tool_block_opening(writer_, dialect_);
        }
        return ending;
    }

    const Conversation& conversation_;
    ChatDialect dialect_;
    std::vector<const Tool*> tools_;
    std::optional<QuickTask> task_;  // of the turn to be answered
    std::vector<int64_t> head_;      // messages that make the system text
    std::vector<int64_t> body_;      // the others, in the order of the prompt
    PromptWriter writer_;
};

// A token of the chat format. A piece of ordinary text that happens to have the spelling does not count.
Result<int32_t> token_id(const Tokenizer& tokenizer, std::string_view spelling) {
    const std::optional<int32_t> id = tokenizer.find(spelling);
    if (!id || !tokenizer.is_added(*id)) {
        return fail(ErrorCode::kInvalidArgument, "the model's tokenizer has no token {}, which this prompt needs", spelling);
    }
    return *id;
}

}  // namespace

Result<EncodedPrompt> encode_prompt(const Conversation& conversation, ChatDialect dialect) {
    DI_TRY_STATUS(check_conversation(conversation));
    return PromptEncoder(conversation, dialect).encode();
}

AnswerStart answer_start(const Conversation& conversation) {
    const Message& last = conversation.messages.back();
    if (asked_task(conversation)) {
        return AnswerStart::kContent;
    }
    if (last.is_prefix && (!conversation.is_thinking || has_content(last))) {
        return AnswerStart::kContentContinued;
    }
    if (conversation.is_thinking) {
        return last.is_prefix && !last.reasoning.empty() ? AnswerStart::kReasoningContinued : AnswerStart::kReasoning;
    }
    return forces_tool_call(conversation) ? AnswerStart::kCalls : AnswerStart::kContent;
}

bool may_call_tools(const Conversation& conversation) {
    return !asked_task(conversation) && !offered_tools(conversation).empty();
}

Result<std::vector<int32_t>> tokenise_prompt(const EncodedPrompt& prompt, const Tokenizer& tokenizer) {
    std::vector<int32_t> ids;
    const std::string_view text = prompt.text;
    size_t at = 0;
    const auto append_plain = [&](size_t end) -> Status {
        if (end > at) {
            DI_TRY(auto piece, tokenizer.encode_plain(text.substr(at, end - at)));
            ids.insert(ids.end(), piece.begin(), piece.end());
        }
        return {};
    };
    for (const SpecialRange& range : prompt.special_ranges) {
        const auto begin = static_cast<size_t>(range.begin);
        const auto end = static_cast<size_t>(range.end);
        DI_CHECK(begin >= at && end > begin && end <= text.size(), "special ranges ascend and lie in the text");
        DI_TRY_STATUS(append_plain(begin));
        DI_TRY(const int32_t id, token_id(tokenizer, text.substr(begin, end - begin)));
        ids.push_back(id);
        at = end;
    }
    DI_TRY_STATUS(append_plain(text.size()));
    return ids;
}

Status check_chat_tokens(const Tokenizer& tokenizer, ChatDialect dialect) {
    for (const std::string_view spelling :
         {kBeginToken, kEndToken, kSystemToken, kUserToken, kAssistantToken, kThinkToken, kThinkEndToken}) {
        if (spelling == kSystemToken && dialect == ChatDialect::kV4) {
            continue;
        }
        const std::optional<int32_t> id = tokenizer.find(spelling);
        if (!id || !tokenizer.is_added(*id)) {
            return fail(ErrorCode::kInvalidFile, "tokenizer.json: no added token {}, expected the tokens of the chat format",
                        spelling);
        }
    }
    return {};
}

}  // namespace di
