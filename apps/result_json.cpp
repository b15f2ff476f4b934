#include "apps/result_json.h"

#include <nlohmann/json.hpp>

namespace di {

std::string result_json(size_t index, const PromptResult& result) {
    using Json = nlohmann::ordered_json;
    const RequestUsage& usage = result.usage;
    const RequestTiming& timing = result.timing;
    const Json object = {
        {"index", index},
        {"prompt_token_ids", result.prompt_token_ids},
        {"token_ids", result.token_ids},
        {"text", result.text},
        {"finish_reason", finish_reason_name(result.finish)},
        {"error", result.error ? Json(result.error->text) : Json(nullptr)},
        {"usage",
         {{"prompt_tokens", usage.prompt_tokens},
          {"cached_tokens", usage.cached_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"drafted_tokens", usage.drafted_tokens},
          {"accepted_tokens", usage.accepted_tokens}}},
        {"timing",
         {{"queue_ms", timing.queue_ms},
          {"prefill_ms", timing.prefill_ms},
          {"first_token_ms", timing.first_token_ms},
          {"total_ms", timing.total_ms}}},
    };
    return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace di
