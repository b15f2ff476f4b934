#include "backend/cpu/isa.h"

#include <cstdlib>
#include <iterator>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <fmt/ranges.h>

namespace di::cpu {

namespace {

bool always() { return true; }

#if defined(__x86_64__)
// The compiler's check includes that the system saves the registers; clang 14 does not know f16c.
bool has_f16c() {
    unsigned int eax = 0;
    unsigned int ebx = 0;
    unsigned int ecx = 0;
    unsigned int edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }

bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
#endif

struct IsaEntry {
    std::string_view name;
    const Kernels* kernels;  // null: not built for this architecture
    bool (*is_available)();
};

// Every name that DEEPINFER_CPU_ISA knows, best first.
constexpr IsaEntry kIsas[] = {
#if defined(__x86_64__)
    {"avx512bf16", &kAvx512Bf16Kernels, has_avx512bf16},
    {"avx512", &kAvx512Kernels, has_avx512},
    {"avx2", &kAvx2Kernels, has_avx2},
    {"neon", nullptr, always},
#elif defined(__aarch64__)
    {"avx512bf16", nullptr, always},       {"avx512", nullptr, always}, {"avx2", nullptr, always},
    {"neon", &kNeonKernels, always},
#else
    {"avx512bf16", nullptr, always},       {"avx512", nullptr, always}, {"avx2", nullptr, always}, {"neon", nullptr, always},
#endif
    {"generic", &kGenericKernels, always},
};

bool is_usable(const IsaEntry& entry) { return entry.kernels != nullptr && entry.is_available(); }

}  // namespace

std::vector<std::string> available_isas() {
    std::vector<std::string> names;
    for (const IsaEntry& entry : kIsas) {
        if (is_usable(entry)) {
            names.emplace_back(entry.name);
        }
    }
    return names;
}

Result<const Kernels*> choose_kernels(std::string_view isa) {
    const char* forced = std::getenv("DEEPINFER_CPU_ISA");
    const std::string_view wanted = !isa.empty() ? isa : forced != nullptr ? std::string_view(forced) : std::string_view();
    for (const IsaEntry& entry : kIsas) {
        if (wanted.empty() ? is_usable(entry) : entry.name == wanted && is_usable(entry)) {
            return entry.kernels;
        }
    }
    bool is_known = false;
    for (const IsaEntry& entry : kIsas) {
        is_known = is_known || entry.name == wanted;
    }
    return fail(is_known ? ErrorCode::kUnsupported : ErrorCode::kInvalidArgument,
                "DEEPINFER_CPU_ISA: {} '{}', expected one of {}",
                is_known ? "this machine does not have" : "unknown instruction set", wanted, fmt::join(available_isas(), ", "));
}

}  // namespace di::cpu
