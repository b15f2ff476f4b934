// The document of all routes at /openapi.json, made from the route table.
#include <map>

#include "server/openapi_schemas.h"
#include "server/routes.h"
#include "server/service.h"

namespace di {
namespace {

JsonValue text(std::string_view value) { return JsonValue::string(std::string(value)); }

// "/v1/models/{id*}" -> "/v1/models/{id}"
std::string documented_path(std::string_view path) {
    std::string result;
    for (const char c : path) {
        if (c != '*') {
            result += c;
        }
    }
    return result;
}

JsonValue::Array path_parameters(std::string_view path) {
    JsonValue::Array parameters;
    for (size_t open = path.find('{'); open != std::string_view::npos; open = path.find('{', open + 1)) {
        const size_t close = path.find('}', open);
        std::string name(path.substr(open + 1, close - open - 1));
        if (name.ends_with('*')) {
            name.pop_back();
        }
        parameters.push_back(JsonValue::object(
            {{"name", text(name)},
             {"in", text("path")},
             {"required", JsonValue::boolean(true)},
             {"schema", JsonValue::object({{"type", text("string")}, {"minLength", JsonValue::integer(1)}})}}));
    }
    return parameters;
}

JsonValue schema_named(std::string_view name) {
    return JsonValue::object({{"$ref", text(fmt::format("#/components/schemas/{}", name))}});
}

JsonValue json_content(JsonValue schema) {
    JsonValue media = JsonValue::object({{"schema", std::move(schema)}});
    return JsonValue::object({{"application/json", std::move(media)}});
}

// Bodies of a good answer by their types.
JsonValue answer_content(const Route& route) {
    if (route.path == "/metrics") {
        return JsonValue::object({{"text/plain", JsonValue::object()}});
    }
    if (route.path == "/" || route.path.starts_with("/page/")) {
        return JsonValue::object(
            {{"text/html", JsonValue::object()}, {"text/css", JsonValue::object()}, {"text/javascript", JsonValue::object()}});
    }
    const RouteBodies* bodies = route.method == "DELETE" ? nullptr : find_route_bodies(route.path);
    const bool is_named = bodies != nullptr && !bodies->answer.empty();
    JsonValue content = json_content(is_named ? schema_named(bodies->answer) : JsonValue::object({{"type", text("object")}}));
    if (bodies != nullptr && bodies->may_stream) {
        content.set("text/event-stream", JsonValue::object());
    }
    return content;
}

// What any route may answer; which body an error has depends on the protocol.
JsonValue responses(const Route& route) {
    JsonValue answers = JsonValue::object();
    answers.set("200", JsonValue::object({{"description", text("the answer")}, {"content", answer_content(route)}}));
    constexpr std::pair<std::string_view, std::string_view> kErrors[] = {
        {"400", "the request is wrong; the body names the field, the value and what was expected"},
        {"401", "no key, or an unknown one"},
        {"403", "the key may not do this"},
        {"404", "no such model, response or path"},
        {"405", "the path has other methods"},
        {"408", "the request took too long to arrive"},
        {"413", "the body is too large"},
        {"415", "the body is not JSON"},
        {"417", "an Expect header other than 100-continue"},
        {"429", "a limit of this moment; Retry-After says when to try again"},
        {"431", "the head of the request is too large"},
        {"500", "a fault of the server"},
        {"503", "loading or shutting down; Retry-After says when to try again"},
        {"504", "the deadline of the request has passed"},
        {"529", "Messages: overloaded"},
    };
    const bool is_messages = route.dialect == Dialect::kMessages;
    for (const auto& [status, description] : kErrors) {
        if (status == "529" && !is_messages) {
            continue;
        }
        answers.set(status,
                    JsonValue::object({{"description", text(description)},
                                       {"content", json_content(schema_named(is_messages ? "MessagesError" : "Error"))}}));
    }
    return answers;
}

JsonValue operation(const Route& route) {
    JsonValue result = JsonValue::object();
    result.set("operationId", text(fmt::format("{} {}", route.method, documented_path(route.path))));
    JsonValue::Array parameters = path_parameters(route.path);
    if (route.method != "DELETE") {
        for (const JsonValue& parameter : query_parameters(route.path)) {
            parameters.push_back(parameter);
        }
    }
    if (!parameters.empty()) {
        result.set("parameters", JsonValue::array(std::move(parameters)));
    }
    if (const RouteBodies* bodies = find_route_bodies(route.path); bodies != nullptr && !bodies->request.empty()) {
        result.set("requestBody", JsonValue::object({{"required", JsonValue::boolean(true)},
                                                     {"content", json_content(schema_named(bodies->request))}}));
    }
    result.set("responses", responses(route));
    if (route.access != Access::kOpen) {
        result.set("security", JsonValue::array({JsonValue::object({{"key", JsonValue::array({})}})}));
    }
    return result;
}

}  // namespace

void get_openapi(Service& service, ExchangePtr exchange) {
    JsonValue paths = JsonValue::object();
    std::map<std::string, JsonValue> by_path;
    for (const Route& route : routes()) {
        JsonValue& path = by_path.try_emplace(documented_path(route.path), JsonValue::object()).first->second;
        std::string method(route.method);
        for (char& c : method) {
            c = static_cast<char>(c - 'A' + 'a');
        }
        path.set(method, operation(route));
    }
    for (auto& [path, operations] : by_path) {
        paths.set(path, std::move(operations));
    }
    JsonValue scheme = JsonValue::object({{"type", text("http")}, {"scheme", text("bearer")}});
    JsonValue document = JsonValue::object({{"openapi", text("3.1.0")}});
    document.set("info", JsonValue::object({{"title", text("deepinfer")}, {"version", text(service.parts().version)}}));
    document.set("paths", std::move(paths));
    document.set("components",
                 JsonValue::object({{"schemas", openapi_schemas(service.parts().preparer->tokenizer().vocabulary_size())},
                                    {"securitySchemes", JsonValue::object({{"key", std::move(scheme)}})}}));
    send_json(*exchange, 200, json_text(document));
}

}  // namespace di
