#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace di {

struct TargetParts {
    std::string path;  // percent-decoded
    std::string query;
};

// "/v1/models?x=1", "http://host/v1/models" (a proxy's form) or "*". Nothing if it is none of them, a '%' is not followed by two
// digits, or the path holds a zero byte.
[[nodiscard]] std::optional<TargetParts> split_target(std::string_view target);

}  // namespace di
