#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/exchange.h"
#include "session/answer_plan.h"
#include "text/json_text.h"

namespace di {

class Service;

// A request for an answer on its way from the body to the engine: read and rendered on the pool, images fetched between, started
// on the server's thread. Owned by whichever of them works on it.
struct AnswerJob {
    ExchangePtr exchange;
    std::shared_ptr<void> admission;
    AnswerRules rules;
    JsonValue body;
    Request request;
    std::vector<std::string> images;  // encoded; a place for each image part
    struct FetchedImage {
        size_t index = 0;  // in `images`
        std::string url;
        std::string path;  // of its part in the request
    };
    std::vector<FetchedImage> fetched_images;  // those that an address names
    std::string input_items = "[]";            // Responses: JSON of this request's items, for the store
    bool has_timings = false;
    AnswerPlan plan;
};
using AnswerJobPtr = std::shared_ptr<AnswerJob>;

// Admits, reads, plans and starts the answer to an exchange of its route's dialect; the client is told whatever fails.
void begin_answer(Service& service, ExchangePtr exchange);

// Reads and checks the body: everything but images by address and the plan. Any thread; what it needs of the service does not
// change.
[[nodiscard]] tl::expected<void, ApiError> read_job(Service& service, AnswerJob& job);
// Any thread.
[[nodiscard]] tl::expected<void, ApiError> plan_job(Service& service, AnswerJob& job);

// Starts what has been planned. Server's thread.
void start_answer(Service& service, const AnswerJobPtr& job);

}  // namespace di
