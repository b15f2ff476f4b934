#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/engine.h"

namespace di {

// Most output tokens a request may get: its max_tokens, or what the context leaves behind the prompt. Behind a prompt that
// fills the context it is one: the last token is never run, so it needs no place.
[[nodiscard]] int32_t output_tokens_max(const TokenRequest& request, int32_t max_model_len);

// Whether `model` can run the request within a context of `max_model_len` and a pool of `block_count` blocks of `block_tokens`.
struct RequestBounds {
    int32_t max_model_len = 0;
    int64_t block_tokens = 0;
    int64_t block_count = 0;
    int32_t prompt_rows_max = 0;  // a prompt must run in one step of as many rows; 0: it may be cut
};
// The error names what is wrong, the value and the limit. Images must stand in the order of their spans.
[[nodiscard]] Status check_request(const TokenRequest& request, const Model& model, const RequestBounds& bounds);

}  // namespace di
