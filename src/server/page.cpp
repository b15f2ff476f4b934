#include "server/page.h"

namespace di {
namespace {

// kPageFiles: made by cmake/page.cmake in the build folder.
#include "server/page_files.inc"

}  // namespace

const PageFile* find_page_file(std::string_view name) {
    for (const PageFile& file : kPageFiles) {
        if (file.name == name) {
            return &file;
        }
    }
    return nullptr;
}

}  // namespace di
