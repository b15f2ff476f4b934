#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/limits.h"
#include "api/request.h"
#include "session/preparer.h"
#include "text/answer_parser.h"

namespace di {

// Whose sampling values count: the client's, or DeepSeek's own service's (thinking on: temperature 1, top-p at least 0.95;
// off: temperature as asked, top-p 1).
enum class SamplingPolicy : uint8_t { kClient, kDeepseek };

// What a server says of every answer.
struct AnswerRules {
    SamplingPolicy sampling_policy = SamplingPolicy::kClient;
    int64_t output_tokens_max = kOutputTokensMax;
    int64_t context_tokens = 0;             // prompt + output
    bool enforces_reasoning_limit = false;  // Request's limit on reasoning tokens; else it is ignored
    LogprobsMode logprobs_mode = LogprobsMode::kRaw;
    std::string user{};        // fair share is among users
    std::string cache_salt{};  // isolates the prefix cache beside the request's own
    int32_t priority = 0;      // of the user; the request's own comes on top
    std::optional<double> deadline_ms{};
};

// A request made ready for the engine, and how to read what comes back.
struct AnswerPlan {
    std::vector<TokenRequest> prompts;    // one for a conversation, else one a raw prompt; without ids
    std::vector<bool> is_cut_by_context;  // of each prompt: its output limit is what the context leaves
    AnswerParserOptions parser;
    bool is_raw = false;  // no conversation: special tokens mean nothing, all of it is text
    bool is_thinking = false;
    int32_t samples = 1;  // of each prompt

    [[nodiscard]] int64_t prompt_tokens() const;
};

// Renders, tokenises and checks. `images`: the encoded images of the conversation's image parts, in order. Any thread.
[[nodiscard]] Result<AnswerPlan> plan_answer(Request request, std::vector<std::string> images, const AnswerRules& rules,
                                             Preparer& preparer);

}  // namespace di
