#include "http/url.h"

#include <algorithm>
#include <charconv>

#include "http/limits.h"

namespace di {

namespace {

constexpr size_t kShownBytesMax = 200;  // of a URL in a message

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

std::string lower_text(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), lower);
    return out;
}

// "https" of "https://...", in lower case; empty if the text does not begin with a scheme.
std::string scheme_of(std::string_view text) {
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos || colon == 0 || !is_letter(text[0])) {
        return {};
    }
    const std::string_view scheme = text.substr(0, colon);
    const bool is_scheme = std::all_of(scheme.begin(), scheme.end(),
                                       [](char c) { return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.'; });
    return is_scheme ? lower_text(scheme) : std::string{};
}

Result<std::string> encoded_target(std::string_view target) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    std::string out;
    for (const char c : target.substr(0, target.find('#'))) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f) {
            return fail(ErrorCode::kInvalidArgument, "a control character in a URL, expected none");
        }
        if (byte == ' ' || byte > 0x7f) {
            out += '%';
            out += kHex[byte >> 4];
            out += kHex[byte & 15];
            continue;
        }
        out += c;
    }
    if (!out.starts_with('/')) {
        out.insert(out.begin(), '/');  // "http://host?x"
    }
    return out;
}

Status parse_authority(std::string_view authority, Url& url) {
    if (authority.find('@') != std::string_view::npos) {
        return fail(ErrorCode::kInvalidArgument, "a URL with a user name, expected one without");
    }
    std::string_view host = authority;
    std::string_view port;
    if (authority.starts_with('[')) {
        const size_t end = authority.find(']');
        host = authority.substr(1, end == std::string_view::npos ? end : end - 1);
        port = end == std::string_view::npos ? std::string_view{} : authority.substr(end + 1);
        const bool is_address = std::all_of(host.begin(), host.end(), [](char c) { return is_hex(c) || c == ':' || c == '.'; });
        if (end == std::string_view::npos || host.find(':') == std::string_view::npos || !is_address) {
            return fail(ErrorCode::kInvalidArgument, "malformed IPv6 address in a URL, expected [address]");
        }
    } else {
        const size_t colon = authority.find(':');
        host = authority.substr(0, colon);
        port = colon == std::string_view::npos ? std::string_view{} : authority.substr(colon);
        const bool is_name = std::all_of(
            host.begin(), host.end(), [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '_'; });
        if (host.empty() || host.size() > 255 || !is_name) {
            return fail(ErrorCode::kInvalidArgument, "malformed host in a URL, expected letters, digits, \"-\" and \".\"");
        }
    }
    if (!port.empty() && port != ":") {
        const auto [end, error] = std::from_chars(port.data() + 1, port.data() + port.size(), url.port);
        if (port[0] != ':' || error != std::errc{} || end != port.data() + port.size() || url.port == 0) {
            return fail(ErrorCode::kInvalidArgument, "malformed port in a URL, expected 1 to 65535");
        }
    }
    url.host = lower_text(host);
    return {};
}

}  // namespace

std::string Url::authority() const {
    const std::string name = host.find(':') != std::string::npos ? "[" + host + "]" : host;
    return port == (is_https ? 443 : 80) ? name : fmt::format("{}:{}", name, port);
}

std::string Url::text() const { return fmt::format("{}://{}{}", is_https ? "https" : "http", authority(), target); }

Result<Url> parse_url(std::string_view text) {
    if (text.size() > kUrlBytesMax) {
        return fail(ErrorCode::kInvalidArgument, "a URL of {} bytes, expected at most {}", text.size(), kUrlBytesMax);
    }
    const std::string scheme = scheme_of(text);
    if (scheme != "http" && scheme != "https") {
        return fail(ErrorCode::kInvalidArgument, "a URL \"{}\", expected http:// or https://", text.substr(0, kShownBytesMax));
    }
    std::string_view rest = text.substr(scheme.size() + 1);
    if (!rest.starts_with("//")) {
        return fail(ErrorCode::kInvalidArgument, "a URL \"{}\", expected http:// or https://", text.substr(0, kShownBytesMax));
    }
    rest.remove_prefix(2);
    Url url{.is_https = scheme == "https"};
    url.port = url.is_https ? 443 : 80;
    const size_t path = std::min(rest.find_first_of("/?#"), rest.size());
    DI_TRY_STATUS(parse_authority(rest.substr(0, path), url));
    DI_TRY(url.target, encoded_target(rest.substr(path)));
    return url;
}

Result<Url> follow_location(const Url& base, std::string_view location) {
    if (!scheme_of(location).empty()) {
        return parse_url(location);
    }
    if (location.starts_with("//")) {
        return parse_url((base.is_https ? "https:" : "http:") + std::string(location));
    }
    if (location.empty() || location.size() > kUrlBytesMax) {
        return fail(ErrorCode::kInvalidArgument, "a redirect to {} bytes, expected 1 to {}", location.size(), kUrlBytesMax);
    }
    std::string target(location);
    const std::string path = base.target.substr(0, base.target.find('?'));
    if (location.starts_with('?')) {
        target = path + target;
    } else if (!location.starts_with('/')) {
        target = path.substr(0, path.rfind('/') + 1) + target;
    }
    Url url = base;
    DI_TRY(url.target, encoded_target(target));
    return url;
}

}  // namespace di
