#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "api/answer_writer.h"
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

class AnswerInSteps;  // of recipe.cpp

// An answer while a model writes it: ids in, events out. What the context points to must outlive it. One thread.
class RecipeAnswer {
  public:
    // {"request": ..., "id"?, "created"?}
    [[nodiscard]] static Result<RecipeAnswer> open(std::string_view input_json, Dialect dialect, const RecipeContext& context);
    RecipeAnswer(RecipeAnswer&& other) noexcept;
    RecipeAnswer& operator=(RecipeAnswer&& other) noexcept;
    ~RecipeAnswer();

    // What the model wrote next. Behind the end of the answer (a stop string, the last call) nothing comes of it.
    [[nodiscard]] Result<StreamEvents> push(std::span<const int32_t> token_ids);
    // The model wrote its last token, the end token or another: "stop", or "length" when it was cut.
    [[nodiscard]] Result<StreamEvents> finish(std::string_view reason);
    [[nodiscard]] bool is_over() const;
    // The whole answer. Fails before its end.
    [[nodiscard]] Result<std::string> body();

  private:
    explicit RecipeAnswer(std::unique_ptr<AnswerInSteps> steps);
    std::unique_ptr<AnswerInSteps> steps_;
};

}  // namespace di
