#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/conversation.h"
#include "text/tokenizer.h"

namespace di {

// How DeepSeek models want a conversation written. V4.1 marks system messages with a token of
// their own and leaves them where they stand; V4 gathers them at the start and spells tool calls
// without blanks.
enum class ChatDialect { kV4, kV41 };

// Bytes [begin, end) of the prompt text that are one special token.
struct SpecialRange {
    int64_t begin = 0;
    int64_t end = 0;
    bool operator==(const SpecialRange&) const = default;
};

// An image of the prompt: the part of the conversation that named it, and its one token in the
// text, which the model's side replaces by as many positions as the image needs.
struct ImageReference {
    int64_t message_index = 0;  // in Conversation::messages
    int64_t part_index = 0;     // in Message::parts
    int64_t range_index = 0;    // in EncodedPrompt::special_ranges
};

// In which state the reader of the model's output begins.
enum class AnswerStart {
    kReasoning,           // leading newlines are dropped
    kReasoningContinued,  // newlines are kept
    kContent,
    kContentContinued,
    kCalls,  // inside a tool block that the prompt opened
};

struct EncodedPrompt {
    std::string text;
    std::vector<SpecialRange> special_ranges;  // ascending, apart
    std::vector<ImageReference> images;        // in the order of the text
    AnswerStart answer_start = AnswerStart::kContent;
    bool may_call_tools = false;   // a tool block in the output is a call, not text
    bool must_call_tools = false;  // the answer has to be a call
};

// The prompt text of a conversation. Fails where check_conversation() does.
[[nodiscard]] Result<EncodedPrompt> encode_prompt(const Conversation& conversation, ChatDialect dialect);

// What of that can be told without writing the prompt. The conversation has at least one message.
[[nodiscard]] AnswerStart answer_start(const Conversation& conversation);
[[nodiscard]] bool may_call_tools(const Conversation& conversation);

// The token ids: each special range becomes its one id; everything between is encoded with the
// recognition of special tokens switched off, piece by piece. Fails when the tokenizer lacks a token
// that the prompt needs, and names it.
[[nodiscard]] Result<std::vector<int32_t>> tokenise_prompt(const EncodedPrompt& prompt, const Tokenizer& tokenizer);

// Whether a tokenizer has what every chat prompt of the dialect needs: begin and end of sentence,
// User, Assistant, the two think tokens and, for V4.1, System. The error names what is missing. Other
// tokens are asked for by the prompt that needs them.
[[nodiscard]] Status check_chat_tokens(const Tokenizer& tokenizer, ChatDialect dialect);

}  // namespace di
