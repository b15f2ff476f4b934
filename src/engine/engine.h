#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"

// Many requests at once, in tokens. The engine knows no text.
namespace di {

// What a request asks of the sampler. Ranges are checked by validate().
struct SamplingParams {
    double temperature = 1.0;      // >= 0; 0 = exact arg-max, lowest id on ties
    double top_p = 1.0;            // (0, 1]
    int32_t top_k = -1;            // -1 or 0: off
    std::optional<uint64_t> seed;  // none: random
    int32_t max_tokens = 16;       // 0: an empty answer
    int32_t min_tokens = 0;        // end tokens are not drawn before
    bool ignore_eos = false;
    std::vector<int32_t> stop_token_ids;    // end like the end-of-sequence token
    std::vector<int32_t> golden_token_ids;  // forced output ids by output index, -1 = free
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

struct TokenRequest {
    uint64_t id = 0;  // chosen by the caller, unique among unfinished requests
    std::vector<int32_t> prompt_token_ids;
    SamplingParams sampling;
    std::vector<RequestImage> images;
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

// What one step did for one request. The record whose finish is not kNone is the last one; every request gets exactly one.
struct StepOutput {
    uint64_t request_id = 0;
    std::vector<int32_t> token_ids;  // new ones; an end token is among them
    std::vector<float> logprobs;     // natural log of the model's own distribution at each new token
    FinishReason finish = FinishReason::kNone;
    std::optional<Error> error;  // with kError
    RequestUsage usage;
    RequestTiming timing;
};

struct EngineLimits {
    int32_t max_model_len = 0;           // prompt + output tokens
    int32_t max_num_seqs = 0;            // sequences in a step
    int32_t max_num_batched_tokens = 0;  // rows in a step, >= 1
    int64_t kv_memory_bytes = 0;         // for blocks; 0: what max_num_seqs sequences of max_model_len need, capped by the plan
};

class Engine {
  public:
    // `model` and `backend` must outlive the engine. eos_token_ids end a request unless ignore_eos.
    [[nodiscard]] static Result<std::unique_ptr<Engine>> create(Model& model, Backend& backend, const EngineLimits& limits,
                                                                std::vector<int32_t> eos_token_ids);
    virtual ~Engine() = default;

    // Always accepted: a request that cannot run (empty prompt, id out of range, too long, ...) ends with an error record in the next step.
    virtual void add_request(TokenRequest request) = 0;
    // Ends the request with kAbort in the next step; unknown ids are ignored.
    virtual void abort_request(uint64_t id) = 0;
    // Runs one batch and returns what happened, in the order of arrival.
    [[nodiscard]] virtual std::vector<StepOutput> step() = 0;
    [[nodiscard]] virtual bool has_unfinished() const = 0;
};

}  // namespace di
