#include "server/exchange.h"

#include <utility>

#include "base/check.h"
#include "base/hex.h"

namespace di {
namespace {

std::string decoded(std::string_view text) {
    std::string result;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0) {
            result += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
            i += 2;
        } else {
            result += text[i] == '+' ? ' ' : text[i];
        }
    }
    return result;
}

// The OpenAI clients read one of the two names, Anthropic's the other.
void add_common_headers(const Exchange& exchange, HttpHeaders& headers) {
    headers.emplace_back("x-request-id", exchange.request_id);
    headers.emplace_back("request-id", exchange.request_id);
    headers.insert(headers.end(), exchange.extra_headers.begin(), exchange.extra_headers.end());
}

void send(Exchange& exchange, HttpResponse response) {
    DI_CHECK(!exchange.is_answered, "a request is answered once");
    exchange.is_answered = true;
    add_common_headers(exchange, response.headers);
    exchange.reply->send(std::move(response));
}

}  // namespace

void send_json(Exchange& exchange, int status, std::string body, HttpHeaders headers) {
    headers.emplace_back("content-type", "application/json");
    send(exchange, {.status = status, .headers = std::move(headers), .body = std::move(body)});
}

void send_text(Exchange& exchange, int status, std::string_view content_type, std::string body) {
    send(exchange, {.status = status, .headers = {{"content-type", std::string(content_type)}}, .body = std::move(body)});
}

void send_error(Exchange& exchange, const ApiError& error, HttpHeaders headers) {
    if (error.retry_after_s) {
        headers.emplace_back("retry-after", std::to_string(*error.retry_after_s));
    }
    send_json(exchange, http_status(error.kind, exchange.dialect), error_body(error, exchange.dialect, exchange.request_id),
              std::move(headers));
}

void begin_event_stream(Exchange& exchange) {
    DI_CHECK(!exchange.is_answered, "a request is answered once");
    exchange.is_answered = true;
    HttpHeaders headers{
        {"content-type", "text/event-stream; charset=utf-8"}, {"cache-control", "no-cache"}, {"x-accel-buffering", "no"}};
    add_common_headers(exchange, headers);
    exchange.reply->begin_stream(200, std::move(headers));
}

std::string query_value(std::string_view query, std::string_view name) {
    while (!query.empty()) {
        const std::string_view pair = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(query.size(), pair.size() + 1));
        const size_t equals = pair.find('=');
        if (decoded(pair.substr(0, equals)) == name) {
            return equals == std::string_view::npos ? "" : decoded(pair.substr(equals + 1));
        }
    }
    return "";
}

}  // namespace di
