#pragma once

#include <string_view>

namespace di {

// Prints the condition and the text to stderr and ends the process.
[[noreturn]] void check_failed(const char* condition, std::string_view text, const char* file, int line);

}  // namespace di

// For our own bugs, never for the world's faults. Always on.
#define DI_CHECK(condition, text)                                       \
    do {                                                                \
        if (!(condition)) {                                             \
            ::di::check_failed(#condition, (text), __FILE__, __LINE__); \
        }                                                               \
    } while (false)
