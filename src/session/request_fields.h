#pragma once

#include "api/request.h"
#include "base/result.h"
#include "session/prompt.h"

namespace di {

// Puts what a client asked for over the defaults that `prompt` already has (sampling, stop strings, priority). What needs
// more than the engine is left to the caller: include_stop_str_in_output, skip_special_tokens, bad_words and the limit on
// reasoning tokens.
void apply_sampling_fields(const SamplingFields& fields, PromptRequest& prompt);

// For callers who print one text a prompt: fields that they could not honour are an error that names the field, since
// leaving it out would change the answer in silence.
[[nodiscard]] Status refuse_service_fields(const SamplingFields& fields);

}  // namespace di
