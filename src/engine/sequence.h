#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "engine/engine.h"
#include "engine/token_history.h"
#include "kv/device_memory.h"

namespace di {

// An image of a request and where its embeddings are while the prompt runs over its span.
struct SequenceImage {
    RequestImage input;
    int32_t token_count = 0;  // of the span, markers included
    DeviceMemory embeddings;  // [token_count, d]; null before and after

    [[nodiscard]] int32_t end_token() const { return input.first_token + token_count; }
};

// Moments in microseconds of the engine's clock; -1: not yet.
struct SequenceTimes {
    int64_t arrival_us = 0;
    int64_t first_row_us = -1;
    int64_t prefill_done_us = -1;
    int64_t first_token_us = -1;
};

// Everything the engine knows of one accepted request. Waiting: no slot, no blocks. Running: a state slot and blocks for
// its whole length.
struct Sequence {
    uint64_t request_id = 0;
    int64_t arrival_index = 0;  // records of a step come in this order
    SamplingParams sampling;
    uint64_t seed = 0;            // the request's, or a random one
    std::vector<int32_t> tokens;  // prompt, then output
    TokenHistory history;         // of `tokens`
    int32_t prompt_length = 0;
    int32_t length_max = 0;              // prompt + output, by max_tokens and the context
    int32_t cached = 0;                  // tokens that the model has seen
    std::vector<SequenceImage> images;   // by ascending first_token, spans apart
    std::vector<int32_t> end_token_ids;  // what ends the request
    int32_t state_slot = -1;
    std::vector<int32_t> block_table;
    SequenceTimes times;

    [[nodiscard]] int32_t length() const { return static_cast<int32_t>(tokens.size()); }
    [[nodiscard]] int32_t output_length() const { return length() - prompt_length; }
    // Tokens still to run before the next one can be drawn: 1 in decode.
    [[nodiscard]] int32_t rows_wanted() const { return length() - cached; }
    [[nodiscard]] bool is_prefilling() const { return cached < prompt_length; }
    // The last token drawn is never run through the model.
    [[nodiscard]] int32_t cached_max() const { return length_max - 1; }
    [[nodiscard]] bool is_end_token(int32_t id) const;
    // Place in `images` of the span that holds `position`, -1 if none does.
    [[nodiscard]] int32_t image_at(int32_t position) const;
    // Forced id of the next output token, -1 = free.
    [[nodiscard]] int32_t golden_id() const;
    [[nodiscard]] RequestUsage usage() const;
    [[nodiscard]] RequestTiming timing(int64_t now_us) const;
};

// Rows of one sequence in a step.
struct ScheduledRows {
    Sequence* sequence = nullptr;
    int32_t row_count = 0;

    // The step ends with a token drawn for the sequence.
    [[nodiscard]] bool draws_token() const { return row_count == sequence->rows_wanted(); }
};

}  // namespace di
