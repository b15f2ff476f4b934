// For whoever operates the service: health, metrics, what runs, what to end.
#include <utility>

#include "server/answer_job.h"
#include "server/page.h"
#include "server/routes.h"
#include "server/service.h"

namespace di {
namespace {

JsonValue number(double value) { return JsonValue::number({.spelling = python_float_text(value)}); }

JsonValue integers(const std::vector<int64_t>& values) {
    JsonValue::Array items;
    for (const int64_t value : values) {
        items.push_back(JsonValue::integer(value));
    }
    return JsonValue::array(std::move(items));
}

JsonValue engine_object(const EngineStats& stats) {
    return JsonValue::object({{"steps", JsonValue::integer(stats.steps)},
                              {"running", JsonValue::integer(stats.running)},
                              {"waiting", JsonValue::integer(stats.waiting)},
                              {"prompt_tokens", JsonValue::integer(stats.prompt_tokens)},
                              {"cached_tokens", JsonValue::integer(stats.cached_tokens)},
                              {"output_tokens", JsonValue::integer(stats.output_tokens)},
                              {"drafted_tokens", JsonValue::integer(stats.drafted_tokens)},
                              {"accepted_tokens", JsonValue::integer(stats.accepted_tokens)},
                              {"verified_by_position", integers(stats.verified_by_position)},
                              {"accepted_by_position", integers(stats.accepted_by_position)},
                              {"preemptions", JsonValue::integer(stats.preemptions)},
                              {"blocks_used", JsonValue::integer(stats.blocks_used)},
                              {"blocks_cached", JsonValue::integer(stats.blocks_cached)},
                              {"blocks_total", JsonValue::integer(stats.blocks_total)},
                              {"model_ms_total", number(stats.model_ms_total)}});
}

// Whom a request names: {"rid"} or {"request_id"}.
Result<std::string> named_request(const std::string& body_text) {
    DI_TRY(const JsonValue body, parse_json(body_text));
    for (const std::string_view field : {"rid", "request_id"}) {
        if (const JsonValue* name = body.find(field); name != nullptr && name->is_string() && !name->as_string().empty()) {
            return name->as_string();
        }
    }
    return fail(ErrorCode::kInvalidArgument, "rid: absent, expected the id of a request");
}

}  // namespace

void get_health(Service& service, ExchangePtr exchange) {
    const BackendHealth health = service.parts().backend->health();
    if (service.is_draining() || !health.is_ready) {
        send_error(*exchange, {.kind = ApiErrorKind::kUnavailable,
                               .message = service.is_draining() ? "the server is shutting down" : health.reason,
                               .retry_after_s = 1});
        return;
    }
    send_json(*exchange, 200, R"({"status": "ok"})");
}

// Really draws one token.
void generate_health(Service& service, ExchangePtr exchange) {
    exchange->dialect = Dialect::kCompletions;
    exchange->http.body = R"({"prompt": "a", "max_tokens": 1, "temperature": 0})";
    begin_answer(service, std::move(exchange));
}

void get_version(Service& service, ExchangePtr exchange) {
    send_json(*exchange, 200,
              json_text(JsonValue::object(
                  {{"name", JsonValue::string("deepinfer")}, {"version", JsonValue::string(service.parts().version)}})));
}

void get_server_info(Service& service, ExchangePtr exchange) {
    const ServerOptions& options = service.options();
    const JsonValue info = JsonValue::object(
        {{"version", JsonValue::string(service.parts().version)},
         {"model", JsonValue::string(service.model_name())},
         {"max_model_len", JsonValue::integer(service.parts().context_tokens)},
         {"max_output", JsonValue::integer(options.request.output_tokens_max)},
         {"vision", JsonValue::boolean(service.parts().preparer->config().vision.present())},
         {"image_urls", JsonValue::boolean(options.allows_image_urls)},
         {"response_store", JsonValue::boolean(service.store() != nullptr)},
         {"sampling_policy", JsonValue::string(options.sampling_policy == SamplingPolicy::kDeepseek ? "deepseek" : "client")},
         {"fim", JsonValue::boolean(options.has_fim)},
         {"thinking_budget", JsonValue::boolean(options.enforces_thinking_budget)}});
    send_json(*exchange, 200, json_text(info));
}

void get_load(Service& service, ExchangePtr exchange) {
    const auto load = static_cast<int64_t>(service.generations().open().size());
    send_json(*exchange, 200, json_text(JsonValue::object({{"server_load", JsonValue::integer(load)}})));
}

void get_metrics(Service& service, ExchangePtr exchange) {
    send_text(*exchange, 200, "text/plain; version=0.0.4; charset=utf-8",
              service.metrics().text(static_cast<int64_t>(service.generations().open().size())));
}

void get_debug_state(Service& service, ExchangePtr exchange) {
    const int64_t now_us = service.parts().clock->now_us();
    JsonValue::Array requests;
    for (const auto& [id, generation] : service.generations().open()) {
        const AnswerUsage& usage = generation->stream->usage();
        requests.push_back(
            JsonValue::object({{"id", JsonValue::string(generation->stream->head().id)},
                               {"request_id", JsonValue::string(generation->request_id)},
                               {"key", JsonValue::string(generation->owner)},
                               {"phase", JsonValue::string(generation->first_token_us < 0 ? "waiting" : "running")},
                               {"age_ms", JsonValue::integer((now_us - generation->began_us) / 1000)},
                               {"prompt_tokens", JsonValue::integer(usage.prompt_tokens)},
                               {"cached_tokens", JsonValue::integer(usage.cached_tokens)},
                               {"choices", JsonValue::integer(generation->stream->head().choice_count)},
                               {"streaming", JsonValue::boolean(generation->is_streaming)}}));
    }
    JsonValue state = JsonValue::object();
    state.set("engine", engine_object(service.parts().backend->stats()));
    state.set("connections", JsonValue::integer(service.http().counts().connections));
    state.set("uptime_s", JsonValue::integer(service.unix_s() - service.started_s()));
    state.set("requests", JsonValue::array(std::move(requests)));
    send_json(*exchange, 200, json_text(state));
}

void abort_request(Service& service, ExchangePtr exchange) {
    const Result<std::string> name = named_request(exchange->http.body);
    if (!name) {
        send_error(*exchange, api_error_of(name.error()));
        return;
    }
    const std::string owner(exchange->key_name());
    const bool is_admin = exchange->key != nullptr && exchange->key->is_admin;
    const int64_t count = service.generations().cancel_named(*name, is_admin ? nullptr : &owner);
    if (count == 0) {
        send_error(*exchange, {.kind = ApiErrorKind::kNotFound,
                               .message = fmt::format("no request {} runs", short_quoted(*name)),
                               .parameter = "rid"});
        return;
    }
    send_json(*exchange, 200, json_text(JsonValue::object({{"aborted", JsonValue::integer(count)}})));
}

void reset_cache(Service& service, ExchangePtr exchange) {
    const bool is_forced = query_value(exchange->http.query, "force") == "true";
    const size_t open = service.generations().open().size();
    if (open > 0 && !is_forced) {
        send_error(*exchange, {.kind = ApiErrorKind::kInvalidRequest,
                               .message = fmt::format("{} requests run, expected none (or ?force=true)", open)});
        return;
    }
    service.parts().backend->reset_prefix_cache();
    send_json(*exchange, 200, R"({"status": "ok"})");
}

void get_page(Service& /*service*/, ExchangePtr exchange) {
    const std::string name = exchange->path_values.empty() ? "index.html" : exchange->path_values.front();
    const PageFile* file = find_page_file(name);
    if (file == nullptr) {
        send_error(*exchange,
                   {.kind = ApiErrorKind::kNotFound, .message = fmt::format("the page has no file {}", short_quoted(name))});
        return;
    }
    send_text(*exchange, 200, file->content_type, std::string(file->text));
}

}  // namespace di
