#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"
#include "server/exchange.h"

namespace di {

class Service;

// Who may call a route.
enum class Access : uint8_t {
    kOpen,   // anybody
    kKey,    // whoever has a key, where keys are configured
    kAdmin,  // a key marked admin; without configured keys, clients of this machine
};

// One line of the table: a new endpoint is one line and one function.
struct Route {
    std::string_view method;
    std::string_view path;  // {id} stands for characters up to the next '/', {id*} for all that follow; at least one
    Access access = Access::kKey;
    Dialect dialect = Dialect::kChat;  // the shape of errors
    void (*handle)(Service& service, ExchangePtr exchange) = nullptr;
    std::string_view name{};  // of metrics and logs; "": the path
};

[[nodiscard]] std::span<const Route> routes();

struct RouteMatch {
    const Route* route = nullptr;  // nullptr: no route of this path and method
    std::vector<std::string> values{};
    std::string allowed_methods{};  // of this path: "GET, POST"; "": no such path
    Dialect dialect = Dialect::kChat;
};
[[nodiscard]] RouteMatch find_route(std::string_view method, std::string_view path);

// Those beside begin_answer() (answer_job.h), grouped by file.
void get_response(Service& service, ExchangePtr exchange);
void delete_response(Service& service, ExchangePtr exchange);
void cancel_response(Service& service, ExchangePtr exchange);
void list_input_items(Service& service, ExchangePtr exchange);

void list_models(Service& service, ExchangePtr exchange);
void get_model(Service& service, ExchangePtr exchange);
void count_message_tokens(Service& service, ExchangePtr exchange);
void tokenize(Service& service, ExchangePtr exchange);
void detokenize(Service& service, ExchangePtr exchange);
void apply_template(Service& service, ExchangePtr exchange);

void get_health(Service& service, ExchangePtr exchange);
void generate_health(Service& service, ExchangePtr exchange);
void get_version(Service& service, ExchangePtr exchange);
void get_server_info(Service& service, ExchangePtr exchange);
void get_load(Service& service, ExchangePtr exchange);
void get_metrics(Service& service, ExchangePtr exchange);
void get_debug_state(Service& service, ExchangePtr exchange);
void abort_request(Service& service, ExchangePtr exchange);
void reset_cache(Service& service, ExchangePtr exchange);
void get_openapi(Service& service, ExchangePtr exchange);
void get_page(Service& service, ExchangePtr exchange);

}  // namespace di
