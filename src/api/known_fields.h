#pragma once

#include "api/request.h"
#include "text/json_text.h"

namespace di {

// For a server that is strict: fails on the first member of a body that the dialect does not know. Members that are known and
// have no effect are fine, and so is everything inside of known members.
[[nodiscard]] Status check_known_fields(const JsonValue& body, Dialect dialect);

}  // namespace di
