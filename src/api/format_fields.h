#pragma once

#include "api/json_reader.h"
#include "api/request.h"

namespace di {

// What the answer must look like, from every spelling that clients use: `response_format`
// (OpenAI, DeepSeek), `text.format` (Responses), `output_config.format` (Messages),
// `structured_outputs` and `guided_*` (vLLM), `regex` and `ebnf` (sglang), `grammar` and
// `json_schema` (llama.cpp). At most one constraint in a request.
[[nodiscard]] Result<ResponseFormat> parse_format_fields(const JsonReader& body, Dialect dialect);

}  // namespace di
