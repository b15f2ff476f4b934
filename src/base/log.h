#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/result.h"

// One log of the process, to stderr, one line a message. Any thread may write.
namespace di {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

// "debug", "info" (the default), "warning" or "error": messages below it are dropped.
[[nodiscard]] Status set_log_level(std::string_view name);
// Lines as text (the default), or each a JSON object {"time","level","message"}. Before other threads write.
void set_log_json(bool is_json);
[[nodiscard]] bool is_logged(LogLevel level);
void write_log(LogLevel level, std::string_view line);

// log_info("context lowered to {} tokens", count); the arguments are formatted only if the line is written.
template <typename... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) {
    if (is_logged(LogLevel::kDebug)) {
        write_log(LogLevel::kDebug, fmt::format(text, std::forward<Args>(args)...));
    }
}
template <typename... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
    if (is_logged(LogLevel::kInfo)) {
        write_log(LogLevel::kInfo, fmt::format(text, std::forward<Args>(args)...));
    }
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
    if (is_logged(LogLevel::kWarning)) {
        write_log(LogLevel::kWarning, fmt::format(text, std::forward<Args>(args)...));
    }
}
template <typename... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) {
    if (is_logged(LogLevel::kError)) {
        write_log(LogLevel::kError, fmt::format(text, std::forward<Args>(args)...));
    }
}

}  // namespace di
