#include "http/response_text.h"

#include <array>
#include <ctime>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace di {

namespace {

constexpr std::array<std::pair<int, std::string_view>, 31> kPhrases{{
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
}};

// "Sun, 06 Nov 1994 08:49:37 GMT"; strftime would take the names of the days from the locale.
void append_date(std::string& out) {
    constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    fmt::format_to(std::back_inserter(out), "date: {}, {:02} {} {} {:02}:{:02}:{:02} GMT\r\n", kDays.at(parts.tm_wday),
                   parts.tm_mday, kMonths.at(parts.tm_mon), parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace

std::string_view status_phrase(int status) {
    for (const auto& [code, phrase] : kPhrases) {
        if (code == status) {
            return phrase;
        }
    }
    return "Status";  // clients read the number
}

bool has_body(int status) { return status >= 200 && status != 204 && status != 304; }

void append_head(int status, const HttpHeaders& headers, const HeadFraming& framing, std::string& out) {
    fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", status, status_phrase(status));
    append_date(out);
    for (const auto& [name, value] : headers) {
        out += name;
        out += ": ";
        for (const char c : value) {
            const auto byte = static_cast<unsigned char>(c);
            out += (byte < 0x20 && c != '\t') || byte == 0x7f ? ' ' : c;
        }
        out += "\r\n";
    }
    if (framing.body_bytes) {
        fmt::format_to(std::back_inserter(out), "content-length: {}\r\n", *framing.body_bytes);
    }
    if (framing.is_chunked) {
        out += "transfer-encoding: chunked\r\n";
    }
    out += framing.keeps_alive ? "connection: keep-alive\r\n\r\n" : "connection: close\r\n\r\n";
}

void append_chunk(std::string_view piece, std::string& out) {
    DI_CHECK(!piece.empty(), "an empty chunk would end the answer");
    fmt::format_to(std::back_inserter(out), "{:x}\r\n", piece.size());
    out += piece;
    out += "\r\n";
}

}  // namespace di
