#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/request.h"
#include "text/json_text.h"

// The small requests about prompts (spec: HTTP interface, section 10), in and out.
namespace di {

struct TextToTokenise {
    std::string text;
    bool adds_special_tokens = true;  // the begin of sentence, where the model wants one
};

// A body of POST /tokenize: text, or a chat request of which the prompt is asked for.
struct TokenizeRequest {
    std::variant<TextToTokenise, Request> subject;
    std::string model;
    bool returns_token_strings = false;
};

[[nodiscard]] Result<TokenizeRequest> parse_tokenize_request(const JsonValue& body);
// `token_strings`: one for each id, where they were asked for.
[[nodiscard]] std::string tokenize_body(std::span<const int32_t> ids, int64_t context_tokens,
                                        const std::optional<std::vector<std::string>>& token_strings);

// A body of POST /detokenize.
struct DetokenizeRequest {
    std::vector<int32_t> token_ids;  // all in the vocabulary
    std::string model;
    bool skips_special_tokens = false;
};

[[nodiscard]] Result<DetokenizeRequest> parse_detokenize_request(const JsonValue& body, int64_t vocabulary_size);
[[nodiscard]] std::string detokenize_body(std::string_view text);

// A body of POST /apply-template is a chat request (parse_chat_request).
[[nodiscard]] std::string template_body(std::string_view prompt_text);

// A body of POST /v1/messages/count_tokens is one of /v1/messages, of which only the prompt counts (parse_messages_request).
[[nodiscard]] std::string count_tokens_body(int64_t prompt_tokens);

}  // namespace di
