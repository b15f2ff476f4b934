#include <cmath>

#include "engine/engine.h"
#include "engine/limits.h"

namespace di {

namespace {

Status check_ids(const char* field, const std::vector<int32_t>& ids, int32_t least, int64_t vocab_size, int64_t count_max) {
    if (static_cast<int64_t>(ids.size()) > count_max) {
        return fail(ErrorCode::kInvalidArgument, "{} has {} entries, expected at most {}", field, ids.size(), count_max);
    }
    for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < least || ids[i] >= vocab_size) {
            return fail(ErrorCode::kInvalidArgument, "{}[{}] is {}, expected {} .. {}", field, i, ids[i], least,
                        vocab_size - 1);
        }
    }
    return {};
}

Status check_number(const char* field, double value, double least, double most) {
    if (!(value >= least && value <= most)) {
        return fail(ErrorCode::kInvalidArgument, "{} is {}, expected {} .. {}", field, value, least, most);
    }
    return {};
}

Status check_penalties(const SamplingParams& params) {
    DI_TRY_STATUS(check_number("min_p", params.min_p, 0.0, 1.0));
    if (!(params.repetition_penalty > 0.0 && params.repetition_penalty <= kRepetitionPenaltyMax)) {
        return fail(ErrorCode::kInvalidArgument, "repetition_penalty is {}, expected more than 0 and at most {}",
                    params.repetition_penalty, kRepetitionPenaltyMax);
    }
    DI_TRY_STATUS(check_number("presence_penalty", params.presence_penalty, -2.0, 2.0));
    return check_number("frequency_penalty", params.frequency_penalty, -2.0, 2.0);
}

Status check_logit_bias(const std::vector<TokenBias>& biases, int64_t vocab_size) {
    if (static_cast<int64_t>(biases.size()) > kLogitBiasMax) {
        return fail(ErrorCode::kInvalidArgument, "logit_bias has {} entries, expected at most {}", biases.size(),
                    kLogitBiasMax);
    }
    for (const TokenBias& entry : biases) {
        if (entry.token_id < 0 || entry.token_id >= vocab_size) {
            return fail(ErrorCode::kInvalidArgument, "logit_bias names the token {}, expected 0 .. {}", entry.token_id,
                        vocab_size - 1);
        }
        if (!(entry.bias >= -kLogitBiasValueMax && entry.bias <= kLogitBiasValueMax)) {
            return fail(ErrorCode::kInvalidArgument, "logit_bias of token {} is {}, expected {} .. {}", entry.token_id,
                        entry.bias, -kLogitBiasValueMax, kLogitBiasValueMax);
        }
    }
    return {};
}

}  // namespace

Status validate(const SamplingParams& params, int64_t vocab_size) {
    if (!std::isfinite(params.temperature) || params.temperature < 0.0) {
        return fail(ErrorCode::kInvalidArgument, "temperature is {}, expected a finite number >= 0", params.temperature);
    }
    if (!(params.top_p > 0.0 && params.top_p <= 1.0)) {
        return fail(ErrorCode::kInvalidArgument, "top_p is {}, expected more than 0 and at most 1", params.top_p);
    }
    if (params.top_k < -1) {
        return fail(ErrorCode::kInvalidArgument, "top_k is {}, expected -1 or 0 (off) or >= 1", params.top_k);
    }
    if (params.max_tokens < 0) {
        return fail(ErrorCode::kInvalidArgument, "max_tokens is {}, expected >= 0", params.max_tokens);
    }
    if (params.min_tokens < 0 || params.min_tokens > params.max_tokens) {
        return fail(ErrorCode::kInvalidArgument, "min_tokens is {}, expected 0 .. max_tokens ({})", params.min_tokens,
                    params.max_tokens);
    }
    DI_TRY_STATUS(check_penalties(params));
    DI_TRY_STATUS(check_logit_bias(params.logit_bias, vocab_size));
    if (params.top_logprobs < 0 || params.top_logprobs > kTopLogprobsMax) {
        return fail(ErrorCode::kInvalidArgument, "top_logprobs is {}, expected 0 .. {}", params.top_logprobs, kTopLogprobsMax);
    }
    if (params.n < 1 || params.n > kSamplesMax) {
        return fail(ErrorCode::kInvalidArgument, "n is {}, expected 1 .. {}", params.n, kSamplesMax);
    }
    DI_TRY_STATUS(check_ids("allowed_token_ids", params.allowed_token_ids, 0, vocab_size, vocab_size));
    DI_TRY_STATUS(check_ids("banned_token_ids", params.banned_token_ids, 0, vocab_size, vocab_size));
    DI_TRY_STATUS(check_ids("stop_token_ids", params.stop_token_ids, 0, vocab_size, kStopTokenIdsMax));
    return check_ids("golden_token_ids", params.golden_token_ids, -1, vocab_size, kGoldenTokenIdsMax);
}

std::string_view finish_reason_name(FinishReason reason) {
    switch (reason) {
        case FinishReason::kNone: return "";
        case FinishReason::kStop: return "stop";
        case FinishReason::kLength: return "length";
        case FinishReason::kAbort: return "abort";
        case FinishReason::kError: return "error";
    }
    return "";
}

std::string_view cache_miss_name(CacheMiss reason) {
    switch (reason) {
        case CacheMiss::kNone: return "none";
        case CacheMiss::kNew: return "new";
        case CacheMiss::kEvicted: return "evicted";
        case CacheMiss::kPromptRows: return "prompt_logprobs";
        case CacheMiss::kReplay: return "replay";
        case CacheMiss::kDisabled: return "disabled";
    }
    return "";
}

}  // namespace di
