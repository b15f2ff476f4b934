#include "engine/model_options.h"

#include <algorithm>
#include <utility>

namespace di {

ModelOptions make_model_options(const EngineOptions& options, const EngineLimits& limits, std::vector<int32_t> token_classes) {
    ModelOptions model;
    model.kv_quant = options.kv_quant;
    model.act_quant = options.act_quant;
    model.replay = options.replay;
    model.replay_keep = options.replay_keep;
    model.confidence_temperatures = options.confidence_temperatures;
    model.rows_max = limits.max_num_batched_tokens;
    // A step has at most one logit row a sequence, and one a row.
    model.logit_rows_max = options.logits_of_all_rows ? limits.max_num_batched_tokens
                                                      : std::min(limits.max_num_batched_tokens, limits.max_num_seqs);
    model.sequences_max = limits.max_num_seqs;
    model.context_max = limits.max_model_len;
    model.token_classes = std::move(token_classes);
    return model;
}

}  // namespace di
