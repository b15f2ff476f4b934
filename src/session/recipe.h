#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/request.h"
#include "base/random.h"
#include "base/result.h"
#include "text/tokenizer.h"

// The service without an engine: what a request becomes, and what becomes of a model's output. For tools, tests and whoever
// runs the model elsewhere.
namespace di {

struct RecipeContext {
    const Tokenizer* tokenizer = nullptr;
    Random* random = nullptr;  // of ids
    int64_t now_s = 0;         // when the answer was made
};

// "chat", "responses", "messages".
[[nodiscard]] Result<Dialect> parse_recipe_dialect(std::string_view name);

// A request's JSON to a JSON object of what the model is given: `prompt`, `token_ids`, `special_ranges` (bytes of the prompt),
// `images` (each with the index of its one token, which a model's side expands), `is_thinking`, `may_call_tools`,
// `must_call_tools`, `answer_start`. Errors are the client's fault and begin with the field.
[[nodiscard]] Result<std::string> recipe_encode(std::string_view request_json, Dialect dialect, const RecipeContext& context);

// {"request": ..., "token_ids": [...] or "text": "...", "finish_reason"?: "stop" | "length" | "content_filter", "id"?, "created"?}
// to the answer's body, or with `is_stream` to the text of its events. Ids need not hold the end token; in a text the
// spelling of `</think>` and of tool calls is what it says.
[[nodiscard]] Result<std::string> recipe_decode(std::string_view input_json, Dialect dialect, bool is_stream,
                                                const RecipeContext& context);

}  // namespace di
