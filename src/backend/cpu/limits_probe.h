#pragma once

#include <cstdint>
#include <string>

namespace di::cpu {

// What this machine can do at most, measured: the floor that speeds are compared with.
struct MachineLimits {
    double memory_gb_s = 0;  // reading a buffer larger than the last cache, all threads together
    double cache_gb_s = 0;   // reading 256 KiB a thread again and again
    double gflop_s = 0;      // independent f32 multiply-adds (two operations each), all threads together
    int threads = 0;
    std::string isa;
};

// Takes about a second and 256 MiB (less where the machine has less to give: then memory_gb_s is that of the
// buffer it got). `threads` >= 1. Uses the instruction set that the backend would; with a bad DEEPINFER_CPU_ISA
// the generic one.
[[nodiscard]] MachineLimits measure_limits(int threads);

// GB/s of reading the same `bytes` again and again with all threads: memory, or the caches where they hold that much. 0 when there
// is no memory for it.
[[nodiscard]] double measure_read_gb_s(int threads, int64_t bytes);

}  // namespace di::cpu
