#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/engine.h"
#include "engine/token_history.h"
#include "engine/verify.h"
#include "backend/device_memory.h"
#include "kv/prefix_key.h"

namespace di {

// An image of a request and where its embeddings are while the prompt runs over its span.
struct SequenceImage {
    std::shared_ptr<const RequestImage> input;  // shared by the samples of a request
    int32_t token_count = 0;                    // of the span, markers included
    DeviceMemory embeddings;                    // [token_count, d]; null before and after
    bool is_encoded = false;                    // they are filled

    [[nodiscard]] int32_t end_token() const { return input->first_token + token_count; }
};

// Moments in microseconds of the engine's clock; -1: not yet.
struct SequenceTimes {
    int64_t arrival_us = 0;
    int64_t first_row_us = -1;
    int64_t prefill_done_us = -1;
    int64_t first_token_us = -1;
    int64_t deadline_us = -1;  // none
};

// Where a sequence stands. Preempted ones wait again, with all their tokens.
enum class SequencePhase : uint8_t {
    kHeld,     // not to be scheduled: a sample that waits for the first one to have run the prompt, or one that is about to end
    kBlocked,  // its constraint is being compiled
    kWaiting,  // no slot, no blocks
    kRunning,  // a state slot, and blocks for what it has run
    kFinished,  // its last record is made
};

// What is expected of drafts: products of confidences, so that they fall from the first to the last.
struct DraftRates {
    std::vector<float> current;   // of `drafts`
    std::vector<float> previous;  // of the round before
};

// Everything the engine knows of one sample of an accepted request. While a step that holds the sequence runs, only
// the step's thread touches `history` and `mask`; the rest belongs to the engine's thread.
struct Sequence {
    uint64_t request_id = 0;
    int32_t sample_index = 0;
    int64_t arrival_index = 0;  // records of a step come in this order
    std::string user;
    int32_t priority = 0;
    SamplingParams sampling;
    FaultInjection fault;
    uint64_t seed = 0;            // of this sample
    std::vector<int32_t> tokens;  // prompt, then output
    int32_t prompt_length = 0;
    int32_t length_max = 0;              // prompt + output, by max_tokens and the context
    std::vector<SequenceImage> images;   // by ascending first_token, spans apart
    std::vector<int32_t> end_token_ids;  // what ends the request
    std::vector<Sequence*> samples;      // held until the prompt has run; of the same request

    SequencePhase phase = SequencePhase::kWaiting;
    bool is_drawn_by_step = false;  // the step that runs draws this sample's first token
    bool is_aborted = false;        // ends as soon as no step holds it
    std::optional<Error> failure;   // ends with it as soon as no step holds it
    int32_t cached = 0;             // tokens that the model has seen
    int32_t in_flight = 0;          // rows of the step that runs, drafts included
    int32_t admitted_from = 0;      // tokens found in the cache at the last admission
    int64_t start_index = -1;       // counts admissions: the larger, the later it started to run
    int64_t last_step = -1;         // in which it had a row
    int32_t passed = 0;             // admissions of later arrivals while it waited
    int32_t state_slot = -1;
    std::vector<int32_t> block_table;
    PrefixKey key_root;                   // the parent of the first key: model, formats, salt
    std::vector<PrefixImage> key_images;  // what `images` show
    std::vector<PrefixKey> keys;          // of whole blocks of `tokens`

    std::vector<int32_t> drafts;  // for the positions behind the last token
    DraftRates rates;
    std::vector<DraftDistribution> draft_distributions;  // of `drafts`; rejection mode only
    std::shared_ptr<TokenMaskSource> mask_source;
    std::unique_ptr<TokenMask> mask;
    std::optional<TokenHistory> history;  // made when first needed

    SequenceTimes times;
    RequestUsage counts;  // cached, drafted and accepted so far
    CacheMiss cache_miss = CacheMiss::kNone;
    std::vector<float> prompt_logprobs;  // collected until the first token goes out
    std::vector<std::vector<TokenLogprob>> top_prompt_logprobs;

    [[nodiscard]] int32_t length() const { return static_cast<int32_t>(tokens.size()); }
    [[nodiscard]] int32_t output_length() const { return length() - prompt_length; }
    // Tokens still to run before the next one can be drawn: 1 in decode.
    [[nodiscard]] int32_t rows_wanted() const { return length() - cached; }
    // Not every token but the last has run: of a new prompt, or of one that is computed again.
    [[nodiscard]] bool is_prefilling() const { return rows_wanted() > 1 || output_length() == 0; }
    // Drafts that may be verified at once: the token behind them must still fit.
    [[nodiscard]] int32_t drafts_useful() const { return std::max(0, length_max - length() - 1); }
    [[nodiscard]] bool is_end_token(int32_t id) const;
    // Place in `images` of the span that holds `position`, -1 if none does.
    [[nodiscard]] int32_t image_at(int32_t position) const;
    [[nodiscard]] RequestUsage usage() const;
    [[nodiscard]] RequestTiming timing(int64_t now_us) const;
};

}  // namespace di
