#include "engine/model_options.h"

#include <algorithm>
#include <utility>

#include "engine/limits.h"

namespace di {

ModelOptions make_model_options(const EngineOptions& options, const EngineLimits& limits, std::vector<int32_t> token_classes) {
    ModelOptions model;
    model.kv_quant = options.kv_quant;
    model.act_quant = options.act_quant;
    model.replay = options.replay;
    model.replay_keep = options.replay_keep;
    model.confidence_temperatures = options.confidence_temperatures;
    model.rows_max = limits.max_num_batched_tokens;
    // A sequence has a logit row for its token and for each draft, a prompt may ask for all of its own.
    const int64_t drafts = options.behaviour.drafts < 0 ? kDraftsMax : options.behaviour.drafts;
    const int64_t logit_rows = std::max<int64_t>(kPromptLogitRows, limits.max_num_seqs * (1 + drafts));
    model.logit_rows_max = options.logits_of_all_rows
                               ? limits.max_num_batched_tokens
                               : static_cast<int32_t>(std::min<int64_t>(limits.max_num_batched_tokens, logit_rows));
    model.sequences_max = limits.max_num_seqs;
    model.context_max = limits.max_model_len;
    model.token_classes = std::move(token_classes);
    return model;
}

}  // namespace di
