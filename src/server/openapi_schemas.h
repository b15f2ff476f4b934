#pragma once

#include <cstdint>
#include <string_view>

#include "text/json_text.h"

// What bodies of requests and answers look like, for /openapi.json. A guide for people and for tools that make clients:
// what a request may be is said by the parsers of src/api, which also take spellings of other servers.
namespace di {

// components/schemas of the document.
[[nodiscard]] JsonValue openapi_schemas(int64_t vocabulary_size);

struct RouteBodies {
    std::string_view path;     // as in the route table
    std::string_view request;  // name of a schema; "": the route reads no body
    std::string_view answer;   // of the whole answer; "": an object
    bool may_stream = false;   // as events, when the request says so
};
// nullptr: a route without a body, whose answer is an object.
[[nodiscard]] const RouteBodies* find_route_bodies(std::string_view path);

// Of a route, as the document writes them.
[[nodiscard]] JsonValue::Array query_parameters(std::string_view path);

}  // namespace di
