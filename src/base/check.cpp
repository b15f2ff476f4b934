#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace di {

void check_failed(const char* condition, std::string_view text, const char* file, int line) {
    std::fprintf(stderr, "deepinfer: internal error: %.*s (%s) at %s:%d\n", static_cast<int>(text.size()), text.data(),
                 condition, file, line);
    std::abort();
}

}  // namespace di
