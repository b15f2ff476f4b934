#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer.h"
#include "api/json_writing.h"

// The parts of answers that several dialects write alike.
namespace di {

// Everything that one choice said.
struct ChoiceRecord {
    std::string reasoning{};
    std::string content{};
    std::vector<AnswerCall> calls{};
    std::vector<LogprobEntry> logprobs{};
    std::vector<int32_t> token_ids{};
    std::optional<ChoiceEnd> end{};

    void add(const AnswerDelta& delta);
    void add(const ChoiceEnd& choice_end);
};

// "stop", "length", "tool_calls", "content_filter".
[[nodiscard]] std::string_view finish_reason_text(AnswerEnd end);
// The stop string or token id that ended the choice, or null.
[[nodiscard]] JsonValue stop_reason_value(const ChoiceEnd& end);

// Usage of chat and completions.
[[nodiscard]] JsonValue openai_usage(const AnswerUsage& usage);

// How a log-probability is written: finite, -9999.0 for what cannot happen.
[[nodiscard]] JsonValue logprob_value(double logprob);
// The token as text; one that is not whole UTF-8 as "\xe4\xb8".
[[nodiscard]] std::string token_text(std::string_view bytes);
// [{"token", "logprob", "bytes", "top_logprobs": [...]}, ...]
[[nodiscard]] JsonValue logprob_entries(const std::vector<LogprobEntry>& entries);

// Names of the declared tools whose calls are free text.
[[nodiscard]] std::set<std::string, std::less<>> custom_tool_names(const Request& request);

// Where the answer of a dialect without that state was cancelled.
[[nodiscard]] ApiError cancelled_error();

}  // namespace di
