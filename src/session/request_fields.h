#pragma once

#include "api/request.h"
#include "base/result.h"
#include "session/prompt.h"

namespace di {

// Puts what a client asked for over the defaults that `prompt` already has (sampling and stop strings). A field that
// this version cannot honour is an error that names it: leaving it out would change the answer in silence.
[[nodiscard]] Status apply_sampling_fields(const SamplingFields& fields, PromptRequest& prompt);

}  // namespace di
