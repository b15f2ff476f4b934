#include "session/request_fields.h"

#include <string_view>

namespace di {
namespace {

struct LaterField {
    std::string_view name;
    bool is_asked_for;
};

Status refuse_later_fields(const SamplingFields& fields) {
    const LaterField later[] = {
        {"include_stop_str_in_output", fields.includes_stop_text},
        {"skip_special_tokens", !fields.skips_special_tokens},
        {"bad_words", !fields.bad_words.empty()},
        {"n", fields.choice_count != 1},
        {"priority", fields.priority.value_or(0) != 0},
        {"logprobs", fields.wants_logprobs || fields.top_logprob_count != 0},
        {"reasoning token limit", fields.reasoning_tokens_max.has_value()},
    };
    for (const LaterField& field : later) {
        if (field.is_asked_for) {
            return fail(ErrorCode::kUnsupported, "{} is not supported in this version, expected it to be absent", field.name);
        }
    }
    return {};
}

}  // namespace

Status apply_sampling_fields(const SamplingFields& fields, PromptRequest& prompt) {
    DI_TRY_STATUS(refuse_later_fields(fields));
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
    return {};
}

}  // namespace di
