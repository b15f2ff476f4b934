#pragma once

#include <cstdint>
#include <span>

#include "engine/engine.h"
#include "engine/token_history.h"

namespace di {

// One row to draw a token from. Everything a draw depends on is here: nothing else in the process can change it.
struct SampleRow {
    std::span<const float> logits;           // [vocab] as the model gave them
    const SamplingParams* params = nullptr;  // of the request, valid for this vocabulary
    uint64_t seed = 0;
    int64_t index = 0;                         // place of the new token in prompt + output
    std::span<const int32_t> end_token_ids{};  // what ends the request; may hold an id twice
    bool bans_end_tokens = false;              // the output is still shorter than min_tokens
    const TokenHistory* history = nullptr;     // of the tokens before this row; may be null where no penalty is on
    std::span<const uint32_t> mask{};          // [ceil(vocab / 32)] as TokenMask::fill() writes it; empty: all may come
    int32_t forced_id = -1;                    // >= 0: this token, whatever the logits say
};

}  // namespace di
