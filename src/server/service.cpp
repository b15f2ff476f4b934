#include "server/service.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "api/ids.h"
#include "base/log.h"
#include "server/limits.h"
#include "server/routes.h"

namespace di {
namespace {

// "application/json; charset=utf-8" -> "application/json"
std::string media_type(std::string_view header) {
    std::string type;
    for (const char c : header.substr(0, header.find(';'))) {
        if (c != ' ' && c != '\t') {
            type += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        }
    }
    return type;
}

}  // namespace

// Counts tokens and ends for metrics, logs and quotas.
class Service::Observer : public GenerationObserver {
  public:
    explicit Observer(Service& service) : service_(service) {}

    void on_tokens(const Generation& /*generation*/, int64_t count, int64_t gap_us, bool is_first) override {
        service_.metrics_->count_tokens(count, gap_us, is_first);
    }

    void on_end(const Generation& generation) override {
        const int64_t now_us = service_.parts_.clock->now_us();
        service_.metrics_->count_end(generation, now_us);
        service_.log_->end(generation, now_us);
        const AnswerUsage& usage = generation.stream->usage();
        service_.quotas_.charge_tokens(generation.owner, generation.quota, usage.prompt_tokens + usage.completion_tokens,
                                       now_us);
    }

  private:
    Service& service_;
};

Service::Service(const ServerOptions& options, const ServiceParts& parts)
    : options_(options),
      parts_(parts),
      model_name_(options.served_model_name.empty() ? parts.model_name : options.served_model_name) {
    answer_context_.tokenizer = &parts.preparer->tokenizer();
    answer_context_.end_token_ids = parts.preparer->end_token_ids();
    answer_context_.writer.copies_reasoning_field = options.copies_reasoning_field;
    answer_context_.writer.has_events = false;
    answer_context_.unix_s = [this] { return unix_s(); };
    answer_context_.make_call_id = [this](int32_t index) { return new_call_id(index, *parts_.random); };
}

Result<std::unique_ptr<Service>> Service::start(const ServerOptions& options, const ServiceParts& parts) {
    std::unique_ptr<Service> service(new Service(options, parts));
    service->started_s_ = service->unix_s();
    DI_TRY_STATUS(service->open_files());
    DI_TRY_STATUS(service->listen());
    return service;
}

Service::~Service() {
    // First nobody calls us any more, then nothing of ours runs, then nobody hears us.
    parts_.backend->stop();
    pool_.reset();
    is_ending_.store(true);  // what still holds room lets go of it without a word
    http_.reset();
}

Status Service::open_files() {
    if (!options_.api_key_file.empty()) {
        DI_TRY(ApiKeys keys, ApiKeys::open(options_.api_key_file, options_.default_quota));
        keys_ = std::make_shared<const ApiKeys>(std::move(keys));
    }
    if (!options_.tools_allow_file.empty()) {
        DI_TRY(permissions_, ToolPermissions::open(options_.tools_allow_file));
    }
    if (options_.response_store.is_on) {
        DI_TRY(store_, ResponseStore::open(options_.response_store, unix_s()));
        DI_TRY_STATUS(end_unfinished_responses(*store_, unix_s()));
    }
    if (options_.allows_image_urls) {
        fetcher_ = Fetcher::create(options_.fetch);
    }
    metrics_ = std::make_unique<ServiceMetrics>(*parts_.backend);
    DI_TRY(log_, ServiceLog::open(options_, parts_.version));
    observer_ = std::make_unique<Observer>(*this);
    generations_ = std::make_unique<Generations>(*parts_.backend, *parts_.clock, *observer_);
    pool_ = std::make_unique<TaskPool>(kTextThreads, kTextTasksMax);
    return {};
}

Status Service::listen() {
    HttpHandler handler;
    handler.request = [this](HttpRequest request, std::shared_ptr<HttpReply> reply) {
        take_request(std::move(request), std::move(reply));
    };
    handler.fault = [this](const HttpFault& fault) { return fault_response(fault); };
    DI_TRY(http_, HttpServer::start(options_.http, std::move(handler)));
    parts_.backend->start([this](std::vector<StepOutput> outputs) {
        // One wake-up of the server's thread a step, for all streams.
        auto shared = std::make_shared<std::vector<StepOutput>>(std::move(outputs));
        http_->post([this, shared] {
            generations_->take(std::move(*shared));
            end_drain_if_done();
        });
    });
    http_->post_after(kTickSeconds, [this] { tick(); });
    return {};
}

void Service::tick() {
    generations_->keep_alive(static_cast<int64_t>(options_.sse_keepalive_s * 1e6));
    if (unix_s() - followed_s_ >= static_cast<int64_t>(options_.sse_keepalive_s)) {
        followed_s_ = unix_s();
        followers_.keep_alive();
    }
    http_->post_after(kTickSeconds, [this] { tick(); });
}

bool Service::is_served(std::string_view name) const {
    return name.empty() || name == model_name_ ||
           std::find(options_.aliases.begin(), options_.aliases.end(), name) != options_.aliases.end();
}

int64_t Service::unix_s() const {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void Service::take_request(HttpRequest request, std::shared_ptr<HttpReply> reply) {
    const auto exchange = std::make_shared<Exchange>();
    exchange->http = std::move(request);
    exchange->reply = std::move(reply);
    exchange->began_us = parts_.clock->now_us();
    const std::string_view named = exchange->http.header("x-request-id");
    exchange->request_id = is_request_id(named) ? std::string(named) : new_id(kRequestIdPrefix, *parts_.random);
    add_cors(*exchange);
    if (exchange->http.method == "OPTIONS" && !options_.allowed_origins.empty()) {
        answer_preflight(*exchange);
        return;
    }
    RouteMatch match = find_route(exchange->http.method, exchange->http.path);
    exchange->route = match.route;
    exchange->dialect = match.dialect;
    exchange->path_values = std::move(match.values);
    if (!authorise(*exchange)) {
        return;
    }
    if (match.route == nullptr) {
        if (match.allowed_methods.empty()) {
            refuse(*exchange,
                   {.kind = ApiErrorKind::kNotFound, .message = fmt::format("there is nothing at {}", exchange->http.path)});
        } else {
            refuse(*exchange,
                   {.kind = ApiErrorKind::kMethodNotAllowed,
                    .message =
                        fmt::format("{} {}, expected {}", exchange->http.method, exchange->http.path, match.allowed_methods)},
                   {{"allow", match.allowed_methods}});
        }
        return;
    }
    const std::string_view type = exchange->http.header("content-type");
    if (exchange->http.method == "POST" && !type.empty() && media_type(type) != "application/json") {
        refuse(*exchange, {.kind = ApiErrorKind::kUnsupportedMediaType,
                           .message = fmt::format("content-type {}, expected application/json", type)});
        return;
    }
    match.route->handle(*this, exchange);
}

HttpResponse Service::fault_response(const HttpFault& fault) {
    const Dialect dialect = fault.path.starts_with("/v1/messages") ? Dialect::kMessages : Dialect::kChat;
    const std::string request_id = new_id(kRequestIdPrefix, *parts_.random);
    ApiErrorKind kind = ApiErrorKind::kInvalidRequest;
    if (fault.status == 413) {
        kind = ApiErrorKind::kTooLarge;
    } else if (fault.status == 415) {
        kind = ApiErrorKind::kUnsupportedMediaType;
    } else if (fault.status == 503) {
        kind = ApiErrorKind::kOverloaded;
    }
    return {.status = fault.status,
            .headers = {{"content-type", "application/json"}, {"x-request-id", request_id}, {"request-id", request_id}},
            .body = error_body({.kind = kind, .message = fault.text}, dialect, request_id)};
}

bool Service::authorise(Exchange& exchange) {
    // Paths that do not exist are not for everybody to find out.
    const Access access = exchange.route == nullptr ? Access::kKey : exchange.route->access;
    const bool is_open_metrics = options_.is_metrics_open && exchange.route != nullptr && exchange.route->handle == get_metrics;
    if (access == Access::kOpen || is_open_metrics) {
        return true;
    }
    if (keys_ == nullptr) {
        if (access == Access::kAdmin && !exchange.http.is_loopback) {
            refuse(exchange, {.kind = ApiErrorKind::kPermission,
                              .message = "this route is for clients of this machine, since no keys are configured"});
            return false;
        }
        return true;
    }
    const std::string_view given = presented_key(exchange.http.header("authorization"), exchange.http.header("x-api-key"));
    exchange.key = ApiKeyPtr(keys_, keys_->find(given));
    if (exchange.key == nullptr) {
        refuse(exchange,
               {.kind = ApiErrorKind::kAuthentication,
                .message = given.empty() ? "no API key, expected the header \"Authorization: Bearer KEY\" or "
                                           "\"x-api-key: KEY\""
                                         : "this API key is not known"},
               {{"www-authenticate", "Bearer"}});
        return false;
    }
    if (access == Access::kAdmin && !exchange.key->is_admin) {
        refuse(exchange, {.kind = ApiErrorKind::kPermission, .message = "this route needs a key marked admin"});
        return false;
    }
    return true;
}

void Service::add_cors(Exchange& exchange) const {
    const std::string_view origin = exchange.http.header("origin");
    const auto allows = [origin](const std::string& allowed) { return allowed == "*" || allowed == origin; };
    if (!origin.empty() && std::any_of(options_.allowed_origins.begin(), options_.allowed_origins.end(), allows)) {
        exchange.extra_headers.emplace_back("access-control-allow-origin", std::string(origin));
        exchange.extra_headers.emplace_back("access-control-expose-headers", "x-request-id, request-id, retry-after");
        exchange.extra_headers.emplace_back("vary", "Origin");
    }
}

void Service::answer_preflight(Exchange& exchange) {
    if (!exchange.extra_headers.empty()) {
        exchange.extra_headers.emplace_back("access-control-allow-methods", "GET, POST, DELETE");
        exchange.extra_headers.emplace_back("access-control-allow-headers",
                                            "authorization, x-api-key, content-type, x-request-id, x-request-timeout, "
                                            "anthropic-version, anthropic-beta, openai-organization, openai-project");
        exchange.extra_headers.emplace_back("access-control-max-age", "600");
    }
    send_text(exchange, 204, "text/plain", "");
}

tl::expected<std::shared_ptr<void>, ApiError> Service::admit(const Exchange& exchange) {
    const auto refuse = [](ApiErrorKind kind, std::string text, int retry_after_s) {
        return tl::unexpected<ApiError>(ApiError{.kind = kind, .message = std::move(text), .retry_after_s = retry_after_s});
    };
    if (is_draining_) {
        return refuse(ApiErrorKind::kUnavailable, "the server is shutting down", kRetryAfterDrainS);
    }
    const BackendHealth health = parts_.backend->health();
    if (!health.is_ready) {
        return refuse(ApiErrorKind::kUnavailable, health.reason, kRetryAfterUnreadyS);
    }
    // Those on their way to the engine; behind it, the engine counts who waits.
    const int64_t preparing = admitted_ - static_cast<int64_t>(generations_->open().size());
    if (options_.waiting_max > 0 && preparing >= options_.waiting_max) {
        return refuse(ApiErrorKind::kRateLimit, fmt::format("{} requests wait already, expected fewer", preparing), 1);
    }
    const std::string key(exchange.key_name());
    const QuotaLimits& limits = exchange.key == nullptr ? options_.default_quota : exchange.key->quota;
    const Admission admission = quotas_.admit(key, limits, parts_.clock->now_us());
    if (!admission.is_admitted) {
        return refuse(ApiErrorKind::kRateLimit, admission.text, admission.retry_after_s);
    }
    ++admitted_;
    // Let go of on any thread; the books are the server's thread's.
    return std::shared_ptr<void>(this, [this, key](void*) {
        if (is_ending_.load()) {
            return;
        }
        http_->post([this, key] {
            quotas_.release(key);
            --admitted_;
            end_drain_if_done();
        });
    });
}

void Service::refuse(Exchange& exchange, const ApiError& error, HttpHeaders headers) {
    if (!exchange.reply->is_gone()) {
        send_error(exchange, error, std::move(headers));
    }
    metrics_->count_error(exchange, error.kind);
    log_->refused(exchange, error);
}

void Service::run_on_pool(const ExchangePtr& exchange, std::function<void()> work) {
    if (!pool_->submit(std::move(work))) {
        refuse(*exchange, {.kind = ApiErrorKind::kOverloaded,
                           .message = "too many requests are being read, try again later",
                           .retry_after_s = 1});
    }
}

void Service::drain(std::function<void()> done) {
    http_->post([this, done = std::move(done)] {
        is_draining_ = true;
        on_drained_ = done;  // it goes on listening, so that new requests hear of it
        http_->post_after(options_.drain_timeout_s, [this] {
            if (on_drained_) {
                log_warning("draining: {} answers did not end in {} s and are cancelled", generations_->open().size(),
                            options_.drain_timeout_s);
                generations_->cancel_all();
                std::exchange(on_drained_, {})();
            }
        });
        end_drain_if_done();
    });
}

void Service::end_drain_if_done() {
    if (is_draining_ && admitted_ == 0 && generations_->open().empty() && on_drained_) {
        std::exchange(on_drained_, {})();
    }
}

Status Service::reload() {
    http_->post([this] { log_->reopen(); });
    if (options_.api_key_file.empty()) {
        return {};
    }
    DI_TRY(ApiKeys keys, ApiKeys::open(options_.api_key_file, options_.default_quota));
    auto shared = std::make_shared<const ApiKeys>(std::move(keys));
    http_->post([this, shared] { keys_ = shared; });
    return {};
}

}  // namespace di
