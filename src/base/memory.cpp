#include "base/memory.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include <fmt/format.h>

namespace di {

namespace {

// Files of /proc and /sys have no size of their own; these are short.
std::string read_system_file(const char* path) {
    std::string text;
    std::FILE* file = std::fopen(path, "re");
    if (file == nullptr) {
        return text;
    }
    std::array<char, 4096> part{};
    size_t count = 0;
    while (text.size() < 1U << 20 && (count = std::fread(part.data(), 1, part.size(), file)) > 0) {
        text.append(part.data(), count);
    }
    std::fclose(file);
    return text;
}

// The number at the start of `text`; -1 when there is none ("max").
int64_t leading_number(std::string_view text) {
    int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end != text.data() ? value : -1;
}

// "anon 1234\n..." of memory.stat: memory that cannot be dropped. The cache of files can.
int64_t stat_value(const std::string& text, const std::string& key) {
    const size_t at = text.find(key + " ");
    return at == std::string::npos ? -1 : leading_number(std::string_view(text).substr(at + key.size() + 1));
}

int64_t container_left_bytes() {
    const int64_t limit = leading_number(read_system_file("/sys/fs/cgroup/memory.max"));
    if (limit < 0) {
        return -1;
    }
    const int64_t used = stat_value(read_system_file("/sys/fs/cgroup/memory.stat"), "anon");
    return std::max<int64_t>(0, limit - std::max<int64_t>(0, used));
}

}  // namespace

int64_t meminfo_bytes(const std::string& text, const std::string& key) {
    size_t at = text.rfind(key + ":", 0) == 0 ? 0 : text.find("\n" + key + ":");
    if (at == std::string::npos) {
        return -1;
    }
    at = text.find_first_of("0123456789\n", text.find(':', at));
    if (at == std::string::npos) {
        return -1;
    }
    const int64_t kibibytes = leading_number(std::string_view(text).substr(at));
    return kibibytes < 0 ? -1 : kibibytes * 1024;
}

int64_t available_memory_bytes() {
    const int64_t machine = meminfo_bytes(read_system_file("/proc/meminfo"), "MemAvailable");
    const int64_t container = container_left_bytes();
    if (machine < 0) {
        return std::max<int64_t>(0, container);
    }
    return container < 0 ? machine : std::min(machine, container);
}

std::string format_bytes(int64_t bytes) {
    constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024.0 && unit + 1 < kUnits.size()) {
        value /= 1024.0;
        ++unit;
    }
    return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

}  // namespace di
