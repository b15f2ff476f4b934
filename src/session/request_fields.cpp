#include "session/request_fields.h"

#include <algorithm>
#include <string_view>

#include "session/limits.h"

namespace di {

Status refuse_service_fields(const SamplingFields& fields) {
    struct Field {
        std::string_view name;
        bool is_asked_for;
    };
    const Field all[] = {
        {"include_stop_str_in_output", fields.includes_stop_text},
        {"skip_special_tokens", !fields.skips_special_tokens},
        {"bad_words", !fields.bad_words.empty()},
        {"n", fields.choice_count != 1},
        {"logprobs", fields.wants_logprobs || fields.top_logprob_count != 0},
        {"reasoning token limit", fields.reasoning_tokens_max.has_value()},
    };
    for (const Field& field : all) {
        if (field.is_asked_for) {
            return fail(ErrorCode::kUnsupported, "{} is not supported here, only by the service; expected it to be absent",
                        field.name);
        }
    }
    return {};
}

void apply_sampling_fields(const SamplingFields& fields, PromptRequest& prompt) {
    SamplingParams& sampling = prompt.sampling;
    sampling.temperature = fields.temperature.value_or(sampling.temperature);
    sampling.top_p = fields.top_p.value_or(sampling.top_p);
    sampling.top_k = static_cast<int32_t>(fields.top_k.value_or(sampling.top_k));
    sampling.min_p = fields.min_p.value_or(sampling.min_p);
    sampling.presence_penalty = fields.presence_penalty.value_or(sampling.presence_penalty);
    sampling.frequency_penalty = fields.frequency_penalty.value_or(sampling.frequency_penalty);
    sampling.repetition_penalty = fields.repetition_penalty.value_or(sampling.repetition_penalty);
    if (!fields.logit_bias.empty()) {
        sampling.logit_bias.clear();
        for (const LogitBias& entry : fields.logit_bias) {
            sampling.logit_bias.push_back({.token_id = entry.token_id, .bias = entry.bias});
        }
    }
    if (!fields.allowed_token_ids.empty()) {
        sampling.allowed_token_ids = fields.allowed_token_ids;
    }
    if (fields.seed) {
        sampling.seed = static_cast<uint64_t>(*fields.seed);
    }
    sampling.max_tokens = static_cast<int32_t>(fields.output_tokens_max.value_or(sampling.max_tokens));
    sampling.min_tokens = static_cast<int32_t>(fields.output_tokens_min.value_or(sampling.min_tokens));
    sampling.ignore_eos = fields.ignores_eos || sampling.ignore_eos;
    if (!fields.stop_token_ids.empty()) {
        sampling.stop_token_ids = fields.stop_token_ids;
    }
    if (!fields.forced_token_ids.empty()) {
        sampling.golden_token_ids = fields.forced_token_ids;
    }
    if (!fields.stop.empty()) {
        prompt.stop = fields.stop;
    }
    sampling.n = static_cast<int32_t>(fields.choice_count);
    sampling.logprobs = fields.wants_logprobs;
    sampling.top_logprobs = static_cast<int32_t>(fields.top_logprob_count);
    if (fields.priority) {
        // Clients count the other way round: lower runs first.
        prompt.priority -= static_cast<int32_t>(std::clamp<int64_t>(*fields.priority, -kPriorityMax, kPriorityMax));
    }
}

}  // namespace di
