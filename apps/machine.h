#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What the machine under us is, as far as it says.
namespace di {

struct Machine {
    std::string cpu_model;  // "AMD EPYC ..."; "unknown" where the system does not say
    int cores_online = 0;
    int cores_usable = 0;  // affinity and the container's quota
    int64_t memory_total_bytes = 0;
    int64_t memory_available_bytes = 0;
    std::vector<std::string> cpu_features;  // of those that a backend can use: "avx2", "avx512bf16", ...
    std::vector<std::string> gpus;          // device nodes of NVIDIA drivers; this build has no use for them
};

[[nodiscard]] Machine look_at_machine();

}  // namespace di
