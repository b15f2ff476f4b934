#pragma once

// All that the Jinja engine wants of ggml (see CMakeLists.txt).
#include <cstdlib>

#define GGML_ASSERT(condition) \
    do {                       \
        if (!(condition)) {    \
            std::abort();      \
        }                      \
    } while (false)
