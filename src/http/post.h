#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace di {

struct PostTarget {
    std::string host;
    uint16_t port = 80;
    std::string path = "/";
    double timeout_s = 5.0;  // of the whole exchange
};

// POSTs a JSON body over plain HTTP to a service of the operator's own (a collector of traces) and waits for the status.
// kUnavailable: no connection, no answer in time, or a status that is not 2xx; the text says which.
[[nodiscard]] Status post_json(const PostTarget& target, std::string_view body);

}  // namespace di
