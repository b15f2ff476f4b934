#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/api_error.h"
#include "api/request.h"
#include "text/json_text.h"

// An answer in neutral terms: what a writer (answer_writer.h) makes a dialect's events or body of.
namespace di {

struct TopLogprob {
    std::string bytes;  // of the token, perhaps not whole UTF-8
    double logprob = 0.0;
    int32_t token_id = -1;  // of a prompt's alternatives
};

struct LogprobEntry {
    std::string bytes;
    double logprob = 0.0;  // natural; -infinity is written as -9999.0
    std::vector<TopLogprob> top{};
};

enum class AnswerEnd : uint8_t {
    kStop,         // the model ended it
    kStopString,   // `stop_text`
    kStopToken,    // `stop_token_id`, one of the request's own
    kToolCalls,    // ended, and it holds calls
    kLength,       // the output limit
    kContextFull,  // the model's context
    kContentFilter,
};

// One call of an answer that is complete.
struct AnswerCall {
    std::string id;  // "call_00_..."
    std::string name;
    std::string arguments;
};

struct AnswerUsage {
    int64_t prompt_tokens = 0;      // with expanded images; counted once whatever the number of choices
    int64_t cached_tokens = 0;      // of the prompt
    int64_t completion_tokens = 0;  // all sampled ones, ends and markers included; summed over choices
    int64_t reasoning_tokens = 0;   // before </think>
    bool has_think_end = false;     // Messages counts the delimiter
    int64_t completed_s = 0;        // Responses: when the answer was complete
};

// A piece of one choice, in the order of generation.
struct AnswerDelta {
    enum class Kind : uint8_t { kReasoning, kContent, kCallBegin, kCallArguments, kCallEnd };
    int32_t choice = 0;
    Kind kind = Kind::kContent;
    std::string text{};                    // kCallBegin: the name
    int32_t call_index = 0;                // of calls
    std::string call_id{};                 // kCallBegin
    std::vector<LogprobEntry> logprobs{};  // kContent, where asked for: of all tokens whose text this is
    std::vector<int32_t> token_ids{};      // where asked for: of all tokens since the last delta
    std::optional<AnswerUsage> usage{};    // where it is wanted on every chunk: so far, of all choices
};

struct ChoiceEnd {
    int32_t choice = 0;
    AnswerEnd end = AnswerEnd::kStop;
    std::string stop_text{};
    int32_t stop_token_id = -1;
    std::vector<int32_t> token_ids{};    // where asked for: of the tokens behind the last delta
    std::optional<AnswerUsage> usage{};  // as in AnswerDelta
};

// Of one prompt token that was given (completions with echo and logprobs); the first has no log-probability.
struct PromptLogprob {
    std::string bytes;
    std::optional<double> logprob{};
    std::vector<TopLogprob> top{};
    int32_t token_id = -1;
};

// What is known of an answer before its first token.
struct AnswerHead {
    std::string id;     // "chatcmpl-<32 hex>", "resp_...", "msg_...", "cmpl-..."
    std::string model;  // as the request named it
    int64_t created_s = 0;
    std::string fingerprint;  // of model and build
    int32_t choice_count = 1;
    bool is_thinking = false;   // a reasoning part is to be expected
    int64_t prompt_tokens = 0;  // for Messages' first event
    int64_t cached_tokens = 0;  // likewise, as far as known then
    // Completions, for each prompt: its text with echo; its tokens where their log-probabilities are asked for. Choices are
    // counted over prompts times choices of each.
    std::vector<std::string> echo_texts{};
    std::vector<std::vector<PromptLogprob>> prompt_logprobs{};
    std::vector<std::vector<int32_t>> prompt_token_ids{};  // of each prompt, where token ids are returned
    // Responses: the request's body, of which values are echoed.
    JsonValue request_body{};
};

}  // namespace di
