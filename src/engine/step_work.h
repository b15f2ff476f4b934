#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/verify.h"
#include "model/batch.h"

namespace di {

// A token drawn for one sample, or several with drafts that were right.
struct DrawnTokens {
    Sequence* sequence = nullptr;
    VerifyResult verified;
};

// Rows of one sequence in a step, and what came of them.
struct StepRows {
    Sequence* sequence = nullptr;
    int32_t first_position = 0;
    int32_t row_count = 0;
    std::vector<int32_t> drafts;     // the last rows
    std::vector<float> draft_rates;  // products of their confidences
    bool draws_token = false;        // the last known token is among the rows
    std::vector<StateSnapshot> snapshots;
    int32_t first_logit_row = 0;  // in the batch's list; of every row with prompt_logprobs, else of the rows that draw
    int32_t logit_row_count = 0;
    std::vector<uint32_t> masks;    // [1 + drafts, words]; empty: no constraint
    std::vector<uint8_t> has_mask;  // [1 + drafts]; 0: every token is allowed

    // --- results ---
    VerifyResult verified;
    std::vector<DrawnTokens> samples;  // of samples that begin with this prompt
    std::vector<float> prompt_logprobs;
    std::vector<std::vector<TokenLogprob>> top_prompt_logprobs;
    std::optional<Error> prompt_error;
    std::vector<int32_t> next_drafts;
    std::vector<float> confidences;                     // of next_drafts
    std::vector<DraftDistribution> next_distributions;  // rejection mode only
};

struct StepDurations {
    double forward_ms = 0.0;  // copies and images included
    double sample_ms = 0.0;
    double draft_ms = 0.0;
};

// One step as the device sees it, and its results. Filled by the engine, run by StepRunner; in between nobody else touches it.
struct StepWork {
    std::vector<StepRows> rows;  // the first `used` are in use
    size_t used = 0;
    CacheCopies copies;
    Batch batch;
    int32_t draft_depth = 0;  // to draft behind this step
    int32_t draft_sequences_max = 0;
    int64_t context_tokens = 0;  // over all rows, the tokens that the last row of its sequence sees
    int32_t prompt_rows = 0;
    int32_t draft_rows = 0;  // drafted behind this step: sequences * depth
    StepDurations times;

    [[nodiscard]] std::span<StepRows> used_rows() { return std::span(rows).first(used); }
};

}  // namespace di
