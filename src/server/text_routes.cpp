// Requests that need no engine: models, tokens, prompts.
#include <chrono>
#include <functional>
#include <utility>

#include "api/chat_request.h"
#include "api/messages_request.h"
#include "api/tokenize_request.h"
#include "server/answer_job.h"
#include "server/routes.h"
#include "server/service.h"
#include "text/chat_encoding.h"

namespace di {
namespace {

JsonValue model_object(const Service& service, const std::string& id) {
    return JsonValue::object({{"id", JsonValue::string(id)},
                              {"object", JsonValue::string("model")},
                              {"created", JsonValue::integer(service.started_s())},
                              {"owned_by", JsonValue::string("deepinfer")},
                              {"root", JsonValue::string(service.model_name())},
                              {"max_model_len", JsonValue::integer(service.parts().context_tokens)}});
}

// "2026-11-30T12:00:00Z"
std::string rfc3339(int64_t unix_s) {
    const auto days = std::chrono::floor<std::chrono::days>(std::chrono::sys_seconds(std::chrono::seconds(unix_s)));
    const std::chrono::year_month_day date(days);
    const std::chrono::hh_mm_ss time(std::chrono::sys_seconds(std::chrono::seconds(unix_s)) - days);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), time.hours().count(),
                       time.minutes().count(), time.seconds().count());
}

// The shape that Anthropic's clients read.
JsonValue anthropic_model(const Service& service, const std::string& id) {
    return JsonValue::object({{"type", JsonValue::string("model")},
                              {"id", JsonValue::string(id)},
                              {"display_name", JsonValue::string(id)},
                              {"created_at", JsonValue::string(rfc3339(service.started_s()))},
                              {"lifecycle", JsonValue::string("active")}});
}

bool wants_anthropic(const Exchange& exchange) { return !exchange.http.header("anthropic-version").empty(); }

// Parses the body on the pool, makes the answer there and sends it from the server's thread.
void answer_on_pool(Service& service, const ExchangePtr& exchange,
                    std::function<Result<std::string>(const JsonValue& body)> make) {
    service.run_on_pool(exchange, [&service, exchange, make = std::move(make)] {
        Result<JsonValue> body = parse_json(exchange->http.body);
        auto made = std::make_shared<Result<std::string>>(body ? make(*body) : tl::unexpected<Error>(body.error()));
        service.post([exchange, made] {
            if (exchange->reply->is_gone()) {
                return;
            }
            if (*made) {
                send_json(*exchange, 200, std::move(**made));
            } else {
                send_error(*exchange, api_error_of(made->error()));
            }
        });
    });
}

// The ids that an answer to the request would begin from. Images are not read, so a request that has some is refused.
Result<std::vector<int32_t>> prompt_ids(const Request& request, const Preparer& preparer) {
    DI_TRY(const EncodedPrompt prompt, preparer.encode(*request.conversation));
    if (!prompt.images.empty()) {
        return fail(ErrorCode::kUnsupported,
                    "the conversation has images, whose tokens are counted by /v1/messages/count_tokens");
    }
    return tokenise_prompt(prompt, preparer.tokenizer());
}

}  // namespace

void list_models(Service& service, ExchangePtr exchange) {
    const bool is_anthropic = wants_anthropic(*exchange);
    JsonValue::Array models;
    std::vector<std::string> names = service.options().aliases;
    names.insert(names.begin(), service.model_name());
    for (const std::string& name : names) {
        models.push_back(is_anthropic ? anthropic_model(service, name) : model_object(service, name));
    }
    JsonValue list = JsonValue::object();
    if (is_anthropic) {
        list.set("data", JsonValue::array(std::move(models)));
        list.set("has_more", JsonValue::boolean(false));
        list.set("first_id", JsonValue::string(names.front()));
        list.set("last_id", JsonValue::string(names.back()));
    } else {
        list.set("object", JsonValue::string("list"));
        list.set("data", JsonValue::array(std::move(models)));
    }
    send_json(*exchange, 200, json_text(list));
}

void get_model(Service& service, ExchangePtr exchange) {
    const std::string& name = exchange->path_values.front();
    if (!service.is_served(name)) {
        send_error(*exchange, {.kind = ApiErrorKind::kModelNotFound,
                               .message = fmt::format("model {} is not served here, expected {}", short_quoted(name),
                                                      service.model_name()),
                               .parameter = "model"});
        return;
    }
    send_json(*exchange, 200,
              json_text(wants_anthropic(*exchange) ? anthropic_model(service, name) : model_object(service, name)));
}

void count_message_tokens(Service& service, ExchangePtr exchange) {
    const auto job = std::make_shared<AnswerJob>();
    job->exchange = exchange;
    job->rules.context_tokens = service.parts().context_tokens;
    service.run_on_pool(exchange, [&service, job] {
        auto counted = std::make_shared<tl::expected<std::string, ApiError>>([&]() -> tl::expected<std::string, ApiError> {
            if (auto read = read_job(service, *job); !read) {
                return tl::unexpected<ApiError>(read.error());
            }
            if (!job->fetched_images.empty()) {
                return tl::unexpected<ApiError>(ApiError{.kind = ApiErrorKind::kUnsupportedParameter,
                                                         .message = "images by address are not fetched to be counted, "
                                                                    "expected data URLs"});
            }
            job->request.sampling.output_tokens_max = 1;
            if (auto planned = plan_job(service, *job); !planned) {
                return tl::unexpected<ApiError>(planned.error());
            }
            return count_tokens_body(job->plan.prompt_tokens());
        }());
        service.post([job, counted] {
            if (job->exchange->reply->is_gone()) {
                return;
            }
            if (*counted) {
                send_json(*job->exchange, 200, std::move(**counted));
            } else {
                send_error(*job->exchange, counted->error());
            }
        });
    });
}

void tokenize(Service& service, ExchangePtr exchange) {
    answer_on_pool(service, exchange, [&service](const JsonValue& body) -> Result<std::string> {
        DI_TRY(const TokenizeRequest request, parse_tokenize_request(body));
        const Tokenizer& tokenizer = service.parts().preparer->tokenizer();
        std::vector<int32_t> ids;
        if (const auto* text = std::get_if<TextToTokenise>(&request.subject)) {
            DI_TRY(ids, tokenizer.encode_special(text->text));
            const ModelConfig& config = service.parts().preparer->config();
            const int32_t bos = tokenizer.bos_id().value_or(config.bos_token_id);
            if (text->adds_special_tokens && config.adds_bos && (ids.empty() || ids.front() != bos)) {
                ids.insert(ids.begin(), bos);
            }
        } else {
            DI_TRY(ids, prompt_ids(std::get<Request>(request.subject), *service.parts().preparer));
        }
        std::optional<std::vector<std::string>> pieces;
        if (request.returns_token_strings) {
            pieces.emplace();
            for (const int32_t id : ids) {
                pieces->emplace_back(tokenizer.piece(id));
            }
        }
        return tokenize_body(ids, service.parts().context_tokens, pieces);
    });
}

void detokenize(Service& service, ExchangePtr exchange) {
    answer_on_pool(service, exchange, [&service](const JsonValue& body) -> Result<std::string> {
        const Tokenizer& tokenizer = service.parts().preparer->tokenizer();
        DI_TRY(const DetokenizeRequest request, parse_detokenize_request(body, tokenizer.vocabulary_size()));
        return detokenize_body(tokenizer.decode(request.token_ids, request.skips_special_tokens));
    });
}

void apply_template(Service& service, ExchangePtr exchange) {
    answer_on_pool(service, exchange, [&service](const JsonValue& body) -> Result<std::string> {
        DI_TRY(const Request request, parse_chat_request(body));
        DI_TRY(const EncodedPrompt prompt, service.parts().preparer->encode(*request.conversation));
        return template_body(prompt.text);
    });
}

}  // namespace di
