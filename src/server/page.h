#pragma once

#include <string_view>

namespace di {

// A file of the static page (src/server/page/), which the program carries inside.
struct PageFile {
    std::string_view name;  // "index.html"
    std::string_view content_type;
    std::string_view text;
};

// nullptr: there is none of that name.
[[nodiscard]] const PageFile* find_page_file(std::string_view name);

}  // namespace di
