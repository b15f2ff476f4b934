#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/server.h"

// The bytes of an answer.
namespace di {

struct HeadFraming {
    bool keeps_alive = true;
    bool is_chunked = false;
    std::optional<int64_t> body_bytes{};  // content-length
};

[[nodiscard]] std::string_view status_phrase(int status);
// Whether answers of that status have a body at all.
[[nodiscard]] bool has_body(int status);

// Status line and headers with the empty line behind them. Control characters in a value become blanks: no value can end its line.
void append_head(int status, const HttpHeaders& headers, const HeadFraming& framing, std::string& out);
// `piece` is not empty: an empty chunk is the end.
void append_chunk(std::string_view piece, std::string& out);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace di
