#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token_mask.h"
#include "model/model.h"

// Many requests at once, in tokens. The engine knows no text.
namespace di {

// A number that is added to the logit of one token.
struct TokenBias {
    int32_t token_id = 0;
    float bias = 0.0F;  // -100 .. 100
};

// What reported log-probabilities are of: the model's own distribution, or the one that was drawn from (after
// temperature, bans, bias, penalties, mask and filters; -inf where it has nothing).
enum class LogprobsMode : uint8_t { kRaw, kProcessed };

// What a request asks of the sampler. Ranges are checked by validate().
struct SamplingParams {
    double temperature = 1.0;         // >= 0; 0 = exact arg-max, lowest id on ties
    double top_p = 1.0;               // (0, 1]
    int32_t top_k = -1;               // -1 or 0: off
    double min_p = 0.0;               // [0, 1]: tokens below min_p times the likeliest are out
    double repetition_penalty = 1.0;  // (0, 10]; over prompt and output: logit / r if positive, * r else
    double presence_penalty = 0.0;    // [-2, 2]; over the output
    double frequency_penalty = 0.0;   // [-2, 2]; over the output, times the count
    std::vector<TokenBias> logit_bias{};
    std::vector<int32_t> allowed_token_ids{};  // empty: all; end tokens are allowed besides
    std::vector<int32_t> banned_token_ids{};
    std::optional<uint64_t> seed{};  // none: random
    int32_t max_tokens = 16;         // 0: an empty answer
    int32_t min_tokens = 0;          // end tokens are not drawn before
    bool ignore_eos = false;
    std::vector<int32_t> stop_token_ids{};    // end like the end-of-sequence token
    std::vector<int32_t> golden_token_ids{};  // forced output ids by output index, -1 = free
    bool logprobs = false;                    // of the drawn tokens
    int32_t top_logprobs = 0;                 // 0 .. 1000 most likely tokens beside each; > 0 means logprobs
    LogprobsMode logprobs_mode = LogprobsMode::kRaw;
    bool prompt_logprobs = false;  // raw, of prompt tokens 1 ..; such a request reads no cached prefix
    int32_t n = 1;                 // 1 .. 128 samples of one prompt; sample i has the seed (seed + i)
};

// Error names the field, the value and the range.
[[nodiscard]] Status validate(const SamplingParams& params, int64_t vocab_size);

// An image whose span of ids stands at [first_token, first_token + token count) in the prompt.
struct RequestImage {
    std::vector<float> patches{};  // [grid_height * grid_width, 3 * patch * patch]
    int64_t grid_height = 0;
    int64_t grid_width = 0;
    int32_t first_token = 0;
};

// Faults on purpose, for tests of what stands around the engine. Output positions count from 0; -1 = none.
struct FaultInjection {
    int32_t nan_logits_at = -1;    // the row of this output token becomes NaN
    int32_t engine_error_at = -1;  // the request ends with an internal error instead of this token
    int32_t slow_prefill_ms = 0;   // the prompt takes this much longer
};

struct TokenRequest {
    uint64_t id = 0;  // chosen by the caller, unique among unfinished requests
    std::vector<int32_t> prompt_token_ids;
    SamplingParams sampling;
    std::vector<RequestImage> images{};
    std::string user{};                       // fair share is among users
    int32_t priority = 0;                     // higher goes first (policy priority); preemption spares it
    std::optional<double> deadline_ms{};      // from arrival; what is not done then ends with kError
    std::string cache_salt{};                 // requests share cached prefixes only with those of the same salt
    std::shared_ptr<TokenMaskSource> mask{};  // structured output; shared with whoever compiles it
    FaultInjection fault{};
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kAbort, kError };
[[nodiscard]] std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", "abort", "error", ""

struct RequestTiming {
    double queue_ms = 0.0;        // arrival to first scheduled row
    double prefill_ms = 0.0;      // first scheduled row to last prompt row done
    double first_token_ms = 0.0;  // arrival to first token
    double total_ms = 0.0;        // arrival to finish
};

struct RequestUsage {
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;
    int64_t completion_tokens = 0;
    int64_t drafted_tokens = 0;
    int64_t accepted_tokens = 0;
};

struct TokenLogprob {
    int32_t token_id = 0;
    float logprob = 0.0F;
};

// Why a prompt was not found in the cache up to its last whole block.
enum class CacheMiss : uint8_t {
    kNone,        // all of it was
    kNew,         // nobody sent this prefix before, or not with this salt or these images
    kEvicted,     // blocks are there, but the state at their end was given up for memory
    kPromptRows,  // prompt_logprobs needs every row
    kReplay,      // a replay mode leaves no state that another prompt could start from
    kDisabled
};
[[nodiscard]] std::string_view cache_miss_name(
    CacheMiss reason);  // "none", "new", "evicted", "prompt_logprobs", "replay", "disabled"

// What one step did for one sample of a request. The record whose finish is not kNone is the last one of that sample; every
// sample gets exactly one. A request that never ran ends with one record for each of its samples.
struct StepOutput {
    uint64_t request_id = 0;
    int32_t sample_index = 0;                             // 0 .. n - 1
    std::vector<int32_t> token_ids;                       // new ones; an end token is among them
    std::vector<float> logprobs;                          // natural log, one a token; empty unless asked for
    std::vector<std::vector<TokenLogprob>> top_logprobs;  // one list a token, likeliest first; empty unless asked for
    std::vector<float> prompt_logprobs;                   // of prompt tokens 1 .., with the first token of sample 0
    std::vector<std::vector<TokenLogprob>> top_prompt_logprobs;
    std::vector<int32_t> draft_token_ids;  // verified in this step
    int32_t accepted_drafts = 0;
    FinishReason finish = FinishReason::kNone;
    std::optional<Error> error;  // with kError
    RequestUsage usage;
    CacheMiss cache_miss = CacheMiss::kNone;
    RequestTiming timing;
};

struct EngineLimits {
    int32_t max_model_len = 0;           // prompt + output tokens; a prompt that fills it gets one token
    int32_t max_num_seqs = 0;            // sequences in a step
    int32_t max_num_batched_tokens = 0;  // rows in a step, >= 1
    int64_t kv_memory_bytes = 0;         // for blocks; 0: what max_num_seqs sequences of max_model_len need, capped by the plan
    int32_t snapshot_slots = 0;          // state slots beyond max_num_seqs, for the ends of cached prefixes
};

// In which order waiting requests get room.
enum class SchedulingPolicy : uint8_t { kFirstCome, kPriority, kShortestPrefill, kFairShare };

// kExact: the target's own draw decides, so that the output does not depend on drafts. kRejection: the classic rule,
// lossless in distribution only.
enum class VerifyMode : uint8_t { kExact, kRejection };

// How an engine works; none of it changes what a request with a seed answers in deterministic mode.
struct EngineBehaviour {
    bool deterministic = false;  // verification exact, replay off: tokens and logprobs of a seeded request never change
    bool asynchronous = true;    // the next step is planned while one runs
    bool prefix_cache = true;
    bool chunked_prefill = true;   // false: a prompt runs in one step or is refused
    bool mixed_steps = true;       // prompt chunks and decode rows in one step; false: steps of one kind
    bool stop_preempted = false;   // a request that loses its room ends instead of being computed again
    int32_t drafts = -1;           // tokens a round; 0 = none, -1 = what the model's drafter gives
    bool scheduled_verify = true;  // how many drafts are verified follows confidence and cost; false: always all
    VerifyMode verify_mode = VerifyMode::kExact;
    SchedulingPolicy policy = SchedulingPolicy::kFirstCome;
    int32_t passed_max = 64;   // later requests that may overtake one that does not fit yet
    double step_ms_max = 0.0;  // a prompt chunk is cut so that a step is expected to take no longer; 0: no such limit
    // The same as a multiple of a step of what decodes alone, while anything does; 0: no such limit.
    double step_stretch_max = 0.0;
    int32_t queue_max = 0;            // waiting requests; one more is refused; 0: no limit
    double first_token_ms_max = 0.0;  // a request whose first token is expected later is refused; 0: no limit
};

// What the engine has done since it was made; for metrics and benchmarks.
struct EngineStats {
    int64_t steps = 0;
    int64_t prompt_tokens = 0;  // rows of prompts computed (recomputation counts again)
    int64_t cached_tokens = 0;  // prompt tokens found in the cache
    int64_t output_tokens = 0;
    int64_t draft_rounds = 0;    // sequence-steps that verified at least one draft
    int64_t drafted_tokens = 0;  // verified
    int64_t accepted_tokens = 0;
    std::vector<int64_t> verified_by_position;  // [depth]
    std::vector<int64_t> accepted_by_position;  // [depth]
    int64_t preemptions = 0;
    int64_t finished = 0;
    int64_t aborted = 0;
    int64_t failed = 0;
    int32_t running = 0;
    int32_t waiting = 0;
    int64_t blocks_used = 0;
    int64_t blocks_cached = 0;  // held by the prefix cache alone
    int64_t blocks_total = 0;
    double schedule_us_total = 0.0;    // planning and bookkeeping on the engine's thread
    double cpu_bubble_us_total = 0.0;  // between the result of a step and the launch of the next
    double model_ms_total = 0.0;       // steps in the model, sampler and drafter
};

class Engine {
  public:
    // `model` and `backend` must outlive the engine. eos_token_ids end a request unless ignore_eos.
    [[nodiscard]] static Result<std::unique_ptr<Engine>> create(Model& model, Backend& backend, const EngineLimits& limits,
                                                                const EngineBehaviour& behaviour,
                                                                std::vector<int32_t> eos_token_ids);
    virtual ~Engine() = default;

    // Always accepted: a request that cannot run (empty prompt, id out of range, too long, ...) ends with an error record in the next step.
    virtual void add_request(TokenRequest request) = 0;
    // Ends every sample of the request with kAbort in the next step, in whatever state it is; unknown ids are ignored.
    virtual void abort_request(uint64_t id) = 0;
    // Likewise one sample that has answered a token already; its fellows go on. Before that it is ignored: samples have
    // their first token from one row.
    virtual void abort_sample(uint64_t id, int32_t sample_index) = 0;
    // Runs one batch and returns what happened, in the order of arrival. With asynchronous stepping a call returns the
    // results of one step while the next one runs.
    [[nodiscard]] virtual std::vector<StepOutput> step() = 0;
    // Ends the step that runs ahead, if one does, and returns its results: afterwards nothing runs.
    [[nodiscard]] virtual std::vector<StepOutput> flush() = 0;
    // Forgets every cached prefix; running requests keep what they have. Only while nothing runs: behind flush().
    virtual void reset_prefix_cache() = 0;
    [[nodiscard]] virtual bool has_unfinished() const = 0;
    [[nodiscard]] virtual EngineStats stats() const = 0;
};

}  // namespace di
