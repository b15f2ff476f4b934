#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "weights/limits.h"

namespace di {

// What a JSON text consists of, in its order. A handler returns false to stop, after it has kept why. Numbers come as
// integers where they are written as such and fit, else as `real`.
class JsonEvents {
  public:
    virtual ~JsonEvents() = default;
    virtual bool key(std::string& /*name*/) { return true; }
    virtual bool string(std::string& /*value*/) { return true; }
    virtual bool integer(int64_t /*value*/) { return true; }
    // Also integers above 2^63 - 1.
    virtual bool real(double /*value*/) { return true; }
    virtual bool boolean(bool /*value*/) { return true; }
    virtual bool null() { return true; }
    virtual bool start_object() { return true; }
    virtual bool end_object() { return true; }
    virtual bool start_array() { return true; }
    virtual bool end_array() { return true; }
};

// Reads foreign JSON strictly, without building a tree: bad syntax, bad UTF-8, nesting beyond the limit of limits.h and a key
// that occurs twice in one object are errors (a tree would silently keep the last). Returns ok also
// when a handler stopped; it knows why.
[[nodiscard]] Status read_json_events(std::string_view text, JsonEvents& events);

// `text` made fit for one line of an error message: cut to `bytes_max`, control and non-ASCII bytes shown as '?'.
[[nodiscard]] std::string quoted_for_message(std::string_view text, int64_t bytes_max = limits::kQuotedValueMax);

}  // namespace di
