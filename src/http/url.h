#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace di {

struct Url {
    bool is_https = false;
    std::string host{};  // lower case; an IPv6 address without its brackets
    uint16_t port = 80;
    std::string target{};  // path and query, at least "/"

    // "host", "host:8080", "[::1]:8080"
    [[nodiscard]] std::string authority() const;
    [[nodiscard]] std::string text() const;
};

// http and https alone, without user and password. Blanks and bytes beyond ASCII of path and query are percent-encoded, the fragment
// is left out.
[[nodiscard]] Result<Url> parse_url(std::string_view text);
// Where a Location header leads: a URL, or a part of one that `base` completes.
[[nodiscard]] Result<Url> follow_location(const Url& base, std::string_view location);

}  // namespace di
