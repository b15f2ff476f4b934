#include "http/request_target.h"

#include "base/hex.h"
#include "http/server.h"

namespace di {

namespace {

std::optional<std::string> percent_decoded(std::string_view text) {
    std::string decoded;
    decoded.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            decoded += text[i];
            continue;
        }
        if (i + 2 >= text.size()) {
            return std::nullopt;
        }
        const int high = hex_value(text[i + 1]);
        const int low = hex_value(text[i + 2]);
        // A zero byte would end a file's name early for whoever opens one by this path.
        if (high < 0 || low < 0 || (high == 0 && low == 0)) {
            return std::nullopt;
        }
        decoded += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return decoded;
}

}  // namespace

std::optional<TargetParts> split_target(std::string_view target) {
    if (target == "*") {
        return TargetParts{.path = "*", .query = {}};
    }
    if (!target.starts_with('/')) {
        const size_t authority = target.find("://");
        if (authority == std::string_view::npos) {
            return std::nullopt;
        }
        const size_t path = target.find_first_of("/?", authority + 3);
        target = path == std::string_view::npos ? "/" : target.substr(path);
    }
    const size_t mark = target.find('?');
    auto path = percent_decoded(target.substr(0, mark));
    if (!path) {
        return std::nullopt;
    }
    if (path->empty()) {
        path->push_back('/');  // "http://host?x=1"
    }
    return TargetParts{.path = std::move(*path),
                       .query = mark == std::string_view::npos ? std::string{} : std::string(target.substr(mark + 1))};
}

std::string_view HttpRequest::header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
        if (key == name) {
            return value;
        }
    }
    return {};
}

}  // namespace di
