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

}  // namespace di
