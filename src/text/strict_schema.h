#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/json_text.h"

namespace di {

// Whether the value is a JSON Schema: keywords have values of their kinds and every `$ref` is a
// local pointer whose target exists. Nothing is fetched; a reference to another document is an error
// that names it. `path` is the place in the request, with which an error begins.
[[nodiscard]] Status check_schema(const JsonValue& schema, std::string_view path);

// The schema that a reference ("#" or "#/...") which check_schema() has passed leads to. An error, beginning with `path`,
// where no schema stands there (#/$defs is a list of them) or where it is none.
[[nodiscard]] Result<const JsonValue*> referenced_schema(const JsonValue& root, std::string_view reference,
                                                         std::string_view path);

// Whether the value can be the parameters of a tool: {} or a schema with "type": "object", and
// for a strict tool one that strict_schema() accepts.
[[nodiscard]] Status check_tool_schema(const JsonValue& schema, bool is_strict, std::string_view path);

// The schema that a prompt shows for a strict tool: every object closed and all of its properties
// required, known keys only, in a fixed order. {} stays {}. An error where the schema says something
// that strict mode cannot keep (an open object, a node without a type, ...). The schema must have
// passed check_schema().
[[nodiscard]] Result<JsonValue> strict_schema(const JsonValue& schema, std::string_view path);

// The schema that a strict tool's arguments are held to: as strict_schema() closes it, with every keyword kept. It must have
// passed check_tool_schema().
[[nodiscard]] JsonValue closed_schema(const JsonValue& schema);

}  // namespace di
