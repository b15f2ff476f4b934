#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"
#include "http/server.h"
#include "server/api_keys.h"

namespace di {

struct Route;

// Owns the table that the key is a row of: a file of keys that is read again does not take it away.
using ApiKeyPtr = std::shared_ptr<const ApiKey>;

// One HTTP request and the way back to its client. Lives as long as whoever answers holds it; server's thread.
struct Exchange {
    HttpRequest http;
    std::shared_ptr<HttpReply> reply;
    std::string request_id;                  // the client's X-Request-Id, or a new one
    Dialect dialect = Dialect::kChat;        // the shape of errors
    const Route* route = nullptr;            // nullptr: no such path
    std::vector<std::string> path_values{};  // what stands in the places of {..} in the route's path
    ApiKeyPtr key{};                         // nullptr: no keys are configured, or the route is open
    HttpHeaders extra_headers{};             // of every answer: CORS
    int64_t began_us = 0;
    bool is_answered = false;

    [[nodiscard]] std::string_view key_name() const { return key == nullptr ? std::string_view{} : key->name; }
};
using ExchangePtr = std::shared_ptr<Exchange>;

// Whole answers, with the headers that every answer has.
void send_json(Exchange& exchange, int status, std::string body, HttpHeaders headers = {});
void send_text(Exchange& exchange, int status, std::string_view content_type, std::string body);
void send_error(Exchange& exchange, const ApiError& error, HttpHeaders headers = {});
// The head of a stream of events.
void begin_event_stream(Exchange& exchange);

// A value of the query ("a=1&b=2"), percent-decoded; "" when absent.
[[nodiscard]] std::string query_value(std::string_view query, std::string_view name);

}  // namespace di
