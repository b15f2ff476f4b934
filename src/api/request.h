#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "text/conversation.h"

namespace di {

// One neutral request: every dialect is parsed into it, and nothing behind it knows a dialect's
// field names. Optional fields are empty when the client left them out, so that the defaults of
// model and server can be told from a client's wish.

enum class Dialect { kChat, kCompletions, kResponses, kMessages };

struct LogitBias {
    int32_t token_id = 0;
    float bias = 0.0F;
};

struct SamplingFields {
    std::optional<double> temperature;         // [0, 2]; 0 = greedy
    std::optional<double> top_p;               // (0, 1]
    std::optional<int64_t> top_k;              // -1 or 0 = off
    std::optional<double> min_p;               // [0, 1]
    std::optional<double> presence_penalty;    // [-2, 2], over generated tokens
    std::optional<double> frequency_penalty;   // [-2, 2], over generated tokens
    std::optional<double> repetition_penalty;  // (0, 2], over prompt and output
    std::optional<int64_t> seed;               // choice i uses seed + i
    std::vector<LogitBias> logit_bias;         // ids differ
    std::vector<std::string> stop;             // none is empty
    bool includes_stop_text = false;           // the matched stop string stays in the answer
    std::vector<int32_t> stop_token_ids;
    bool ignores_eos = false;
    std::optional<int64_t> output_tokens_min;
    std::optional<int64_t> output_tokens_max;
    bool skips_special_tokens = true;
    std::vector<std::string> bad_words;
    std::vector<int32_t> allowed_token_ids;  // empty = all
    int64_t choice_count = 1;
    std::optional<int64_t> reasoning_tokens_max;  // a wish; enforced where the server says so
    std::optional<int64_t> priority;              // lower runs first
    bool wants_logprobs = false;
    int64_t top_logprob_count = 0;
    std::optional<int64_t> prompt_logprob_count;  // completions: alternatives of each prompt token
    std::vector<int32_t> forced_token_ids;        // field golden_token_ids: output by position, -1 = free
};

struct StreamFields {
    bool is_streaming = false;
    bool includes_usage = false;        // chat: a chunk of its own with the usage
    bool has_continuous_usage = false;  // chat: usage on every chunk
};

// Faults that a test asks for (field `fault`).
struct FaultFields {
    std::optional<int64_t> nan_logits_at;  // index of the output token
    std::optional<int64_t> slow_prefill_ms;
    std::optional<int64_t> engine_error_at;  // index of the output token
};

// A prompt without chat encoding: text, or token ids taken as they are.
using RawPrompt = std::variant<std::string, std::vector<int32_t>>;

struct Request {
    Dialect dialect = Dialect::kChat;
    std::string model;                         // as the client wrote it; "" = the served one
    std::optional<Conversation> conversation;  // chat, responses, messages
    std::vector<RawPrompt> raw_prompts;        // completions: at least one
    ResponseFormat response_format;            // completions: what each answer must look like
    bool adds_special_tokens = true;           // completions: a text gets its begin of sentence
    bool echoes_prompt = false;                // completions
    SamplingFields sampling;
    StreamFields stream;
    bool allows_parallel_calls = true;  // false: generation stops after one call
    bool includes_reasoning = true;     // false: reasoning is left out of the answer
    bool separates_reasoning = true;    // false: reasoning is put in front of the content
    bool streams_reasoning = true;      // false: in a stream reasoning comes in one piece
    bool returns_token_ids = false;
    std::string request_id;                     // "" = the server makes one
    std::string cache_salt;                     // isolates the prefix cache; "" = shared
    std::optional<int64_t> prompt_tokens_kept;  // the last so many of the prompt; -1: what the context holds
    std::optional<FaultFields> fault;           // to be refused unless the server allows faults
    // Responses only.
    std::string previous_response_id;
    bool is_stored = true;
    bool is_background = false;
    bool truncates_input = false;  // drop the oldest items until the prompt fits
    bool includes_encrypted_reasoning = false;
    std::vector<std::string> ignored_tools;  // declared types that we cannot run: worth a warning
};

}  // namespace di
