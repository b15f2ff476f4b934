#pragma once

#include <string>
#include <string_view>

namespace di {

// Appends `text` as a JSON string, quotes included, on one line: quote, backslash and controls are escaped; bytes that are no UTF-8
// become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace di
