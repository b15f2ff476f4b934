// From a planned answer to one that runs: its ids, its client, the store, background responses.
#include <utility>

#include "api/ids.h"
#include "server/answer_job.h"
#include "server/background.h"
#include "server/service.h"
#include "text/chat_encoding.h"

namespace di {
namespace {

std::string_view id_prefix(Dialect dialect) {
    switch (dialect) {
        case Dialect::kChat: return kChatIdPrefix;
        case Dialect::kCompletions: return kCompletionIdPrefix;
        case Dialect::kResponses: return kResponseIdPrefix;
        case Dialect::kMessages: return kMessageIdPrefix;
    }
    return kChatIdPrefix;
}

void add_faults(const FaultFields& fields, std::vector<TokenRequest>& prompts) {
    for (TokenRequest& prompt : prompts) {
        prompt.fault.nan_logits_at = static_cast<int32_t>(fields.nan_logits_at.value_or(-1));
        prompt.fault.engine_error_at = static_cast<int32_t>(fields.engine_error_at.value_or(-1));
        prompt.fault.slow_prefill_ms = static_cast<int32_t>(fields.slow_prefill_ms.value_or(0));
    }
}

}  // namespace

void start_answer(Service& service, const AnswerJobPtr& job) {
    Exchange& exchange = *job->exchange;
    if (exchange.reply->is_gone()) {
        return;  // whoever asked has left meanwhile
    }
    if (service.is_draining() && job->request.is_background) {
        send_error(exchange, {.kind = ApiErrorKind::kUnavailable, .message = "the server is shutting down"});
        return;
    }
    AnswerHead head;
    head.id = new_id(id_prefix(exchange.dialect), *service.parts().random);
    head.model = job->request.model.empty() ? service.model_name() : job->request.model;
    head.created_s = service.unix_s();
    head.fingerprint = service.parts().fingerprint;
    if (exchange.dialect == Dialect::kResponses) {
        head.request_body = std::move(job->body);
    }
    if (job->request.fault) {
        add_faults(*job->request.fault, job->plan.prompts);
    }
    auto generation = std::make_shared<Generation>();
    if (job->request.request_id.empty()) {
        job->request.request_id = exchange.request_id;
    }
    generation->request_id = job->request.request_id;
    job->request.is_stored = job->request.is_stored && service.store() != nullptr;  // as the response says
    generation->is_streaming = job->request.stream.is_streaming;
    generation->has_timings = job->has_timings;
    generation->owner = std::string(exchange.key_name());
    generation->quota = exchange.key == nullptr ? service.options().default_quota : exchange.key->quota;
    generation->began_us = exchange.began_us;
    generation->admission = std::move(job->admission);
    const bool is_background = job->request.is_background;
    const bool is_stored = exchange.dialect == Dialect::kResponses && job->request.is_stored;
    generation->stream =
        std::make_unique<AnswerStream>(std::move(job->request), job->plan, std::move(head), service.answer_context());
    generation->exchange = job->exchange;
    if (is_stored) {
        const Status kept = keep_response(service, *generation, job->input_items);
        if (!kept) {
            send_error(exchange, api_error_of(kept.error()));
            return;
        }
    }
    if (is_background) {
        run_in_background(service, *generation);
    }
    service.generations().start(std::move(generation), std::move(job->plan.prompts));
}

}  // namespace di
