#include "base/log.h"

#include <array>
#include <atomic>
#include <string>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/json_string.h"

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

constexpr const char* kTextPattern = "%Y-%m-%d %H:%M:%S.%e %^%l%$ %v";
// The message comes as a JSON string.
constexpr const char* kJsonPattern = R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%v})";

// Set once, before there are other threads; relaxed, as a line in the other form would do no harm.
std::atomic<bool> writes_json{false};

spdlog::logger& logger() {
    // Not spdlog's registry: programs that embed us may use spdlog themselves. Never destroyed, so that destructors of
    // other statics may still log.
    static spdlog::logger* const instance = [] {
        auto* made = new spdlog::logger("deepinfer", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
        made->set_pattern(kTextPattern);
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

void set_log_json(bool is_json) {
    writes_json.store(is_json, std::memory_order_relaxed);
    logger().set_pattern(is_json ? kJsonPattern : kTextPattern,
                         is_json ? spdlog::pattern_time_type::utc : spdlog::pattern_time_type::local);
}

bool is_logged(LogLevel level) { return logger().should_log(library_level(level)); }

void write_log(LogLevel level, std::string_view line) {
    std::string quoted;
    if (writes_json.load(std::memory_order_relaxed)) {
        append_json_string(quoted, line);
        line = quoted;
    }
    logger().log(library_level(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace di
