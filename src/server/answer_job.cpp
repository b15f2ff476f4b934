#include "server/answer_job.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "api/chat_request.h"
#include "api/completions_request.h"
#include "api/envelope_fields.h"
#include "api/json_reader.h"
#include "api/known_fields.h"
#include "api/messages_request.h"
#include "api/responses_request.h"
#include "base/log.h"
#include "server/limits.h"
#include "server/service.h"
#include "text/data_url.h"
#include "text/image.h"

namespace di {
namespace {

using ApiStatus = tl::expected<void, ApiError>;

tl::unexpected<ApiError> refuse(ApiErrorKind kind, std::string message, std::string parameter = {}) {
    return tl::unexpected<ApiError>(ApiError{.kind = kind, .message = std::move(message), .parameter = std::move(parameter)});
}

ApiStatus api_status(const Status& status) {
    if (!status) {
        return tl::unexpected<ApiError>(api_error_of(status.error()));
    }
    return {};
}

Result<Request> parse_request(const Service& service, Dialect dialect, const JsonValue& body) {
    const ServerOptions& options = service.options();
    switch (dialect) {
        case Dialect::kChat: return parse_chat_request(body);
        case Dialect::kCompletions: return parse_completions_request(body, {.allows_suffix = options.has_fim});
        case Dialect::kResponses: return parse_responses_request(body);
        case Dialect::kMessages:
            return parse_messages_request(body, {.drops_server_tools = options.drops_server_tools,
                                                 .is_thinking_by_default = options.messages_think_by_default});
    }
    return fail(ErrorCode::kInternal, "a dialect without a parser");
}

ApiStatus check_against_service(Service& service, const AnswerJob& job) {
    const Request& request = job.request;
    if (!service.is_served(request.model)) {
        return refuse(
            ApiErrorKind::kModelNotFound,
            fmt::format("model {} is not served here, expected {}", short_quoted(request.model), service.model_name()),
            "model");
    }
    if (request.fault && !service.options().allows_faults) {
        return refuse(ApiErrorKind::kInvalidRequest,
                      "fault: the server does not run with --allow-faults, expected the field to be absent", "fault");
    }
    if (request.conversation) {
        std::vector<std::string> names;
        for (const Tool* tool : offered_tools(*request.conversation)) {
            names.push_back(tool->name);
        }
        const ApiKey* key = job.exchange->key.get();
        const auto refused = refused_tool(service.tool_permissions(), job.exchange->key_name(),
                                          key == nullptr ? std::nullopt : key->allowed_tools, names);
        if (refused) {
            return refuse(ApiErrorKind::kPermission, fmt::format("the tool {} may not be offered with this key", *refused),
                          "tools");
        }
    }
    if (request.is_background && (service.store() == nullptr || !request.is_stored)) {
        return refuse(ApiErrorKind::kInvalidRequest, "background: true needs the response to be stored, expected store: true",
                      "background");
    }
    return {};
}

// Earlier turns of the chain come before this request's.
ApiStatus put_chain_in_front(Service& service, AnswerJob& job) {
    Request& request = job.request;
    if (request.previous_response_id.empty()) {
        return {};
    }
    const auto not_found = [&request] {
        return refuse(ApiErrorKind::kPreviousResponse,
                      fmt::format("previous_response_id: no response {} is stored", short_quoted(request.previous_response_id)),
                      "previous_response_id");
    };
    if (service.store() == nullptr) {
        return not_found();
    }
    const auto chain = service.store()->chain(request.previous_response_id, job.exchange->key_name(), service.unix_s());
    if (!chain) {
        return chain.error().code == ErrorCode::kNotFound ? not_found() : tl::unexpected<ApiError>(api_error_of(chain.error()));
    }
    JsonValue::Array items;
    for (const StoredResponse& response : *chain) {
        for (const std::string* text : {&response.input_items, &response.output_items}) {
            const Result<JsonValue> stored = parse_json(*text);
            if (!stored || !stored->is_array()) {
                return refuse(ApiErrorKind::kInternal, fmt::format("the stored response {} cannot be read", response.id));
            }
            const JsonValue::Array& more = stored->as_array();
            items.insert(items.end(), more.begin(), more.end());
        }
    }
    Result<std::vector<Message>> earlier = parse_response_items(items, "previous_response_id");
    if (!earlier) {
        return tl::unexpected<ApiError>(api_error_of(earlier.error()));
    }
    std::vector<Message>& messages = request.conversation->messages;
    // Instructions stand at the very front; they are of this request alone.
    const auto place =
        messages.begin() +
        (!messages.empty() && messages.front().role == MessageRole::kSystem && messages.front().path == "instructions" ? 1 : 0);
    messages.insert(place, std::make_move_iterator(earlier->begin()), std::make_move_iterator(earlier->end()));
    return api_status(check_request(request));
}

// One line a request, however many tools it declares.
void warn_of_ignored_tools(const AnswerJob& job) {
    std::vector<std::string> types = job.request.ignored_tools;
    if (types.empty()) {
        return;
    }
    std::sort(types.begin(), types.end());
    types.erase(std::unique(types.begin(), types.end()), types.end());
    const bool has_more = types.size() > kLoggedToolTypesMax;
    types.resize(std::min(types.size(), kLoggedToolTypesMax));
    log_warning("request {}: {} tools are not run here and are left out of the prompt, of type {}{}", job.exchange->request_id,
                job.request.ignored_tools.size(), fmt::join(types, ", "), has_more ? ", ..." : "");
}

// Data URLs are decoded, addresses noted for the fetcher.
ApiStatus collect_images(Service& service, AnswerJob& job) {
    if (!job.request.conversation) {
        return {};
    }
    const ImageLimits& limits = service.options().images;
    int64_t total = 0;
    for (const Message& message : job.request.conversation->messages) {
        for (const ContentPart& part : message.parts) {
            if (part.kind != ContentPart::Kind::kImage) {
                continue;
            }
            if (!service.parts().preparer->config().vision.present()) {
                return refuse(ApiErrorKind::kInvalidRequest,
                              fmt::format("{}: an image, but this model has no vision tower, expected text only", part.path),
                              part.path);
            }
            std::string& image = job.images.emplace_back();
            if (part.image_url.starts_with("http://") || part.image_url.starts_with("https://")) {
                if (service.fetcher() == nullptr) {
                    return refuse(ApiErrorKind::kInvalidRequest,
                                  fmt::format("{}: this server fetches no images, expected a data URL", part.path), part.path);
                }
                job.fetched_images.push_back({.index = job.images.size() - 1, .url = part.image_url, .path = part.path});
                continue;
            }
            Result<std::string> decoded = decode_image_url(part.image_url);
            if (!decoded) {
                return refuse(ApiErrorKind::kInvalidRequest, fmt::format("{}: {}", part.path, decoded.error().text), part.path);
            }
            image = std::move(*decoded);
            total += static_cast<int64_t>(image.size());
            if (static_cast<int64_t>(image.size()) > limits.bytes_max || total > limits.total_bytes_max) {
                return refuse(ApiErrorKind::kInvalidRequest,
                              fmt::format("{}: an image of {} bytes, expected at most {}, and {} in all images", part.path,
                                          image.size(), limits.bytes_max, limits.total_bytes_max),
                              part.path);
            }
        }
    }
    return {};
}

// By the headers, before anything is decoded.
ApiStatus check_image_sizes(const ImageLimits& limits, const std::vector<std::string>& images) {
    for (const std::string& image : images) {
        const auto size = read_image_size({reinterpret_cast<const uint8_t*>(image.data()), image.size()});
        if (!size) {
            return refuse(ApiErrorKind::kInvalidRequest, size.error().text);
        }
        if (static_cast<int64_t>(size->width) * size->height > limits.pixels_max) {
            return refuse(ApiErrorKind::kInvalidRequest, fmt::format("an image of {} x {} pixels, expected at most {} in all",
                                                                     size->width, size->height, limits.pixels_max));
        }
    }
    return {};
}

// Drops the oldest turn: everything before the second user message that is no system text.
bool drop_oldest_turn(Conversation& conversation) {
    std::vector<Message>& messages = conversation.messages;
    const auto is_user = [](const Message& message) { return message.role == MessageRole::kUser; };
    const auto first = std::find_if(messages.begin(), messages.end(),
                                    [](const Message& message) { return message.role != MessageRole::kSystem; });
    if (first == messages.end()) {
        return false;
    }
    const auto next = std::find_if(first + 1, messages.end(), is_user);
    if (next == messages.end()) {
        return false;
    }
    messages.erase(std::remove_if(first, next, [](const Message& message) { return message.role != MessageRole::kSystem; }),
                   next);
    return true;
}

std::optional<double> deadline_ms(const Service& service, const Exchange& exchange) {
    double seconds = service.options().request_timeout_s;
    if (exchange.key != nullptr && exchange.key->deadline_s > 0.0) {
        seconds = seconds > 0.0 ? std::min(seconds, exchange.key->deadline_s) : exchange.key->deadline_s;
    }
    const std::string_view header = exchange.http.header("x-request-timeout");
    double asked = 0.0;
    const auto parsed = std::from_chars(header.data(), header.data() + header.size(), asked);
    if (parsed.ec == std::errc() && asked > 0.0) {
        seconds = seconds > 0.0 ? std::min(seconds, asked) : asked;  // can only shorten
    }
    return seconds > 0.0 ? std::optional<double>(seconds * 1000.0) : std::nullopt;
}

// Tells the client on the server's thread.
void post_error(Service& service, const AnswerJobPtr& job, ApiError error) {
    service.post([&service, job, error = std::move(error)] { service.refuse(*job->exchange, error); });
}

void plan_on_pool(Service& service, const AnswerJobPtr& job) {
    if (const ApiStatus planned = plan_job(service, *job); !planned) {
        post_error(service, job, planned.error());
        return;
    }
    service.post([&service, job] { start_answer(service, job); });
}

// Server's thread.
void fetch_images(Service& service, const AnswerJobPtr& job) {
    struct Fetching {
        size_t open = 0;
        int64_t bytes = 0;
        std::optional<ApiError> error;
    };
    const auto fetching = std::make_shared<Fetching>();
    fetching->open = job->fetched_images.size();
    for (const auto& [index, url, path] : job->fetched_images) {
        service.fetcher()->fetch(url, [&service, job, fetching, index = index, path = path](FetchResult result) {
            auto shared = std::make_shared<FetchResult>(std::move(result));
            service.post([&service, job, fetching, index, path, shared] {
                if (!*shared) {
                    fetching->error = ApiError{
                        .kind = shared->error().is_clients_fault ? ApiErrorKind::kInvalidRequest : ApiErrorKind::kInternal,
                        .message = fmt::format("{}: {}", path, shared->error().text),
                        .parameter = path};
                } else {
                    fetching->bytes += static_cast<int64_t>((*shared)->size());
                    job->images[index] = std::move(**shared);
                }
                if (fetching->bytes > service.options().images.total_bytes_max) {
                    fetching->error =
                        ApiError{.kind = ApiErrorKind::kInvalidRequest,
                                 .message = fmt::format("images of {} bytes, expected at most {} in all", fetching->bytes,
                                                        service.options().images.total_bytes_max)};
                }
                if (--fetching->open > 0) {
                    return;
                }
                if (fetching->error) {
                    post_error(service, job, *fetching->error);
                    return;
                }
                service.run_on_pool(job->exchange, [&service, job] { plan_on_pool(service, job); });
            });
        });
    }
}

}  // namespace

tl::expected<void, ApiError> read_job(Service& service, AnswerJob& job) {
    Result<JsonValue> body = parse_json(job.exchange->http.body);
    if (!body) {
        return tl::unexpected<ApiError>(api_error_of(body.error()));
    }
    job.body = std::move(*body);
    if (service.options().is_strict) {
        if (const Status known = check_known_fields(job.body, job.exchange->dialect); !known) {
            return tl::unexpected<ApiError>(api_error_of(known.error()));
        }
    }
    Result<Request> request = parse_request(service, job.exchange->dialect, job.body);
    if (!request) {
        return tl::unexpected<ApiError>(api_error_of(request.error()));
    }
    job.request = std::move(*request);
    if (const JsonValue* timings = job.body.find("timings"); timings != nullptr && timings->is_boolean()) {
        job.has_timings = timings->as_boolean();
    }
    if (auto status = api_status(apply_request_limits(service.options().request, job.request)); !status) {
        return status;
    }
    if (auto status = check_against_service(service, job); !status) {
        return status;
    }
    if (job.exchange->dialect == Dialect::kResponses) {
        job.input_items = input_items_text(job.body);
        if (auto status = put_chain_in_front(service, job); !status) {
            return status;
        }
    }
    warn_of_ignored_tools(job);
    return collect_images(service, job);
}

tl::expected<void, ApiError> plan_job(Service& service, AnswerJob& job) {
    if (auto status = check_image_sizes(service.options().images, job.images); !status) {
        return status;
    }
    const bool has_images = !job.images.empty();
    while (true) {
        Result<AnswerPlan> plan = plan_answer(job.request, std::exchange(job.images, {}), job.rules, *service.parts().preparer);
        if (plan) {
            job.plan = std::move(*plan);
            return {};
        }
        const bool is_too_long = plan.error().code == ErrorCode::kContextExceeded;
        if (!is_too_long || !job.request.truncates_input || has_images || !drop_oldest_turn(*job.request.conversation)) {
            return tl::unexpected<ApiError>(api_error_of(plan.error()));
        }
    }
}

void begin_answer(Service& service, ExchangePtr exchange) {
    auto admission = service.admit(*exchange);
    if (!admission) {
        service.refuse(*exchange, admission.error());
        return;
    }
    const auto job = std::make_shared<AnswerJob>();
    job->exchange = exchange;
    job->admission = std::move(*admission);
    job->rules = {.sampling_policy = service.options().sampling_policy,
                  .output_tokens_max = service.options().request.output_tokens_max,
                  .context_tokens = service.parts().context_tokens,
                  .enforces_reasoning_limit = service.options().enforces_thinking_budget,
                  .logprobs_mode = service.options().has_processed_logprobs ? LogprobsMode::kProcessed : LogprobsMode::kRaw,
                  .user = std::string(exchange->key_name()),
                  .cache_salt = service.options().isolates_cache_by_key ? std::string(exchange->key_name()) : "",
                  .priority = exchange->key == nullptr ? 0 : static_cast<int32_t>(exchange->key->priority),
                  .deadline_ms = deadline_ms(service, *exchange)};
    service.run_on_pool(exchange, [&service, job] {
        if (const ApiStatus read = read_job(service, *job); !read) {
            post_error(service, job, read.error());
        } else if (job->fetched_images.empty()) {
            plan_on_pool(service, job);
        } else {
            service.post([&service, job] { fetch_images(service, job); });
        }
    });
}

}  // namespace di
