#pragma once

#include "api/json_reader.h"
#include "api/request.h"

namespace di {

// Sampling and length fields of a request body in the spelling of a dialect. Values outside of
// their range are errors; fields that ask for what we do not have (beam search, other samplers) are
// errors too, because leaving them out would change the answer in silence.
[[nodiscard]] Result<SamplingFields> parse_sampling_fields(const JsonReader& body, Dialect dialect);

// The ids that the fields name, checked against the vocabulary of the model. The error begins with
// the field.
[[nodiscard]] Status check_token_ids(const SamplingFields& fields, int64_t vocabulary_size);

// `stream` and `stream_options`.
[[nodiscard]] Result<StreamFields> parse_stream_fields(const JsonReader& body);

}  // namespace di
