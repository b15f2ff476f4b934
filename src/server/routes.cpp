#include "server/routes.h"

#include <array>

#include "server/answer_job.h"

namespace di {
namespace {

constexpr auto kRoutes = std::to_array<Route>({
    {"POST", "/v1/chat/completions", Access::kKey, Dialect::kChat, begin_answer},
    {"POST", "/v1/completions", Access::kKey, Dialect::kCompletions, begin_answer},
    {"POST", "/v1/responses", Access::kKey, Dialect::kResponses, begin_answer},
    {"GET", "/v1/responses/{id}", Access::kKey, Dialect::kResponses, get_response},
    {"DELETE", "/v1/responses/{id}", Access::kKey, Dialect::kResponses, delete_response},
    {"POST", "/v1/responses/{id}/cancel", Access::kKey, Dialect::kResponses, cancel_response},
    {"GET", "/v1/responses/{id}/input_items", Access::kKey, Dialect::kResponses, list_input_items},
    {"POST", "/v1/messages", Access::kKey, Dialect::kMessages, begin_answer},
    {"POST", "/v1/messages/count_tokens", Access::kKey, Dialect::kMessages, count_message_tokens},
    {"GET", "/v1/models", Access::kKey, Dialect::kChat, list_models},
    {"GET", "/v1/models/{id*}", Access::kKey, Dialect::kChat, get_model},
    {"POST", "/tokenize", Access::kKey, Dialect::kChat, tokenize},
    {"POST", "/v1/tokenize", Access::kKey, Dialect::kChat, tokenize},
    {"POST", "/detokenize", Access::kKey, Dialect::kChat, detokenize},
    {"POST", "/v1/detokenize", Access::kKey, Dialect::kChat, detokenize},
    {"POST", "/apply-template", Access::kKey, Dialect::kChat, apply_template},
    {"GET", "/health", Access::kOpen, Dialect::kChat, get_health},
    {"GET", "/ping", Access::kOpen, Dialect::kChat, get_health},
    {"GET", "/ready", Access::kOpen, Dialect::kChat, get_health},
    {"GET", "/readyz", Access::kOpen, Dialect::kChat, get_health},
    {"GET", "/health_generate", Access::kKey, Dialect::kChat, generate_health},
    {"GET", "/version", Access::kOpen, Dialect::kChat, get_version},
    {"GET", "/server_info", Access::kKey, Dialect::kChat, get_server_info},
    {"GET", "/get_model_info", Access::kKey, Dialect::kChat, get_server_info},
    {"GET", "/load", Access::kKey, Dialect::kChat, get_load},
    {"GET", "/v1/loads", Access::kKey, Dialect::kChat, get_load},
    {"GET", "/metrics", Access::kKey, Dialect::kChat, get_metrics},
    {"GET", "/debug/state", Access::kAdmin, Dialect::kChat, get_debug_state},
    {"POST", "/abort_request", Access::kKey, Dialect::kChat, abort_request},
    {"POST", "/reset_prefix_cache", Access::kAdmin, Dialect::kChat, reset_cache},
    {"POST", "/flush_cache", Access::kAdmin, Dialect::kChat, reset_cache},
    {"GET", "/openapi.json", Access::kKey, Dialect::kChat, get_openapi},
    {"GET", "/", Access::kOpen, Dialect::kChat, get_page},
    {"GET", "/page/{file}", Access::kOpen, Dialect::kChat, get_page},
});

// Whether `path` has the form of `pattern`; what stands in the places of {..} is appended to `values`.
bool matches(std::string_view pattern, std::string_view path, std::vector<std::string>& values) {
    while (true) {
        const size_t open = pattern.find('{');
        const std::string_view fixed = pattern.substr(0, open);
        if (open == std::string_view::npos) {
            return path == fixed;
        }
        if (!path.starts_with(fixed)) {
            return false;
        }
        const size_t close = pattern.find('}');
        const bool takes_rest = pattern[close - 1] == '*';
        pattern.remove_prefix(close + 1);
        path.remove_prefix(fixed.size());
        const size_t end = takes_rest ? path.size() : std::min(path.find('/'), path.size());
        if (end == 0) {
            return false;
        }
        values.emplace_back(path.substr(0, end));
        path.remove_prefix(end);
    }
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

RouteMatch find_route(std::string_view method, std::string_view path) {
    RouteMatch match;
    match.dialect = path.starts_with("/v1/messages") ? Dialect::kMessages : Dialect::kChat;
    for (const Route& route : kRoutes) {
        std::vector<std::string> values;
        if (!matches(route.path, path, values)) {
            continue;
        }
        match.dialect = route.dialect;
        // HEAD is GET without the body, which the connection leaves out.
        if (route.method == method || (method == "HEAD" && route.method == "GET")) {
            match.route = &route;
            match.values = std::move(values);
            return match;
        }
        if (!match.allowed_methods.empty()) {
            match.allowed_methods += ", ";
        }
        match.allowed_methods += route.method;
    }
    return match;
}

}  // namespace di
