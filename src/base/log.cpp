#include "base/log.h"

#include <array>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace di {

namespace {

struct LevelName {
    std::string_view name;
    spdlog::level::level_enum level;
};

constexpr std::array<LevelName, 4> kLevels{{{"debug", spdlog::level::debug},
                                            {"info", spdlog::level::info},
                                            {"warning", spdlog::level::warn},
                                            {"error", spdlog::level::err}}};

spdlog::logger& logger() {
    // Not spdlog's registry: programs that embed us may use spdlog themselves. Never destroyed, so that destructors of
    // other statics may still log.
    static spdlog::logger* const instance = [] {
        auto* made = new spdlog::logger("deepinfer", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
        made->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
        made->set_level(spdlog::level::info);
        return made;
    }();
    return *instance;
}

spdlog::level::level_enum library_level(LogLevel level) { return kLevels[static_cast<size_t>(level)].level; }

}  // namespace

Status set_log_level(std::string_view name) {
    for (const LevelName& entry : kLevels) {
        if (entry.name == name) {
            logger().set_level(entry.level);
            return {};
        }
    }
    return fail(ErrorCode::kInvalidArgument, "log level is '{}', expected debug, info, warning or error", name);
}

bool is_logged(LogLevel level) { return logger().should_log(library_level(level)); }

void write_log(LogLevel level, std::string_view line) {
    logger().log(library_level(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace di
