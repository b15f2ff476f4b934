#include "apps/machine.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/file_io.h"
#include "base/memory.h"
#include "base/pool.h"

namespace di {
namespace {

// A machine of a thousand cores repeats 1.5 KB for each.
constexpr int64_t kCpuInfoBytesMax = 16 << 20;
constexpr int64_t kMemInfoBytesMax = 1 << 20;

// The text behind "key : " of the first line that begins with the key.
std::string first_value(const std::string& text, std::string_view key) {
    size_t begin = 0;
    while (begin < text.size()) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line(text.data() + begin, end - begin);
        const size_t colon = line.find(':');
        if (line.starts_with(key) && colon != std::string_view::npos) {
            const size_t value = line.find_first_not_of(" \t", colon + 1);
            return value == std::string_view::npos ? std::string() : std::string(line.substr(value));
        }
        begin = end + 1;
    }
    return {};
}

std::vector<std::string> known_features(const std::string& flags) {
    // As /proc/cpuinfo spells them: x86 first, then Arm.
    static constexpr std::string_view kKnown[] = {"avx2",     "fma",      "f16c",        "avx512f",     "avx512bw",
                                                  "avx512dq", "avx512vl", "avx512_bf16", "avx512_vnni", "amx_bf16",
                                                  "asimd",    "asimddp",  "fphp",        "bf16",        "i8mm"};
    std::vector<std::string> features;
    const std::string padded = " " + flags + " ";
    for (const std::string_view name : kKnown) {
        if (padded.find(" " + std::string(name) + " ") != std::string::npos) {
            features.emplace_back(name);
        }
    }
    return features;
}

std::vector<std::string> gpu_nodes() {
    std::vector<std::string> nodes;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
        nodes.push_back(entry.path().filename().string());
    }
    std::sort(nodes.begin(), nodes.end());
    return nodes;
}

}  // namespace

Machine look_at_machine() {
    Machine machine;
    const std::string cpu = read_file("/proc/cpuinfo", kCpuInfoBytesMax).value_or("");
    const std::string memory = read_file("/proc/meminfo", kMemInfoBytesMax).value_or("");
    machine.cpu_model = first_value(cpu, "model name");
    if (machine.cpu_model.empty()) {
        machine.cpu_model = "unknown";
    }
    const std::string flags = first_value(cpu, "flags");
    machine.cpu_features = known_features(flags.empty() ? first_value(cpu, "Features") : flags);
    machine.cores_online = static_cast<int>(std::thread::hardware_concurrency());
    machine.cores_usable = usable_cpu_count();
    machine.memory_total_bytes = std::max<int64_t>(0, meminfo_bytes(memory, "MemTotal"));
    machine.memory_available_bytes = available_memory_bytes();
    machine.gpus = gpu_nodes();
    return machine;
}

}  // namespace di
