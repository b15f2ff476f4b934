#include "backend/cpu/limits_probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "backend/cpu/isa.h"
#include "base/check.h"
#include "base/pool.h"

namespace di::cpu {

namespace {

// Larger than any last-level cache of today.
constexpr int64_t kMemoryBytes = int64_t{256} << 20;
constexpr int64_t kMemoryBytesMin = int64_t{16} << 20;
// Half of a common L2, so that it stays there.
constexpr int64_t kCacheBytes = 256 << 10;
constexpr int kRepeats = 5;
constexpr int64_t kMultiplyAddRounds = 4'000'000;
constexpr int64_t kAccumulators = 8;  // of Kernels::multiply_add_probe

struct Free {
    void operator()(float* memory) const { std::free(memory); }
};
using FloatBuffer = std::unique_ptr<float, Free>;

FloatBuffer make_buffer(int64_t& bytes) {
    for (; bytes >= kMemoryBytesMin; bytes /= 2) {
        auto* memory = static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(bytes)));
        if (memory != nullptr) {
            return FloatBuffer(memory);
        }
    }
    return nullptr;
}

// Shortest of several runs: whatever else the machine did can only have made it slower.
template <typename Body>
double best_seconds(Body&& body) {
    double best = 1e30;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
        const auto begin = std::chrono::steady_clock::now();
        body();
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
        best = std::min(best, passed.count());
    }
    return std::max(best, 1e-9);
}

}  // namespace

MachineLimits measure_limits(int threads) {
    DI_CHECK(threads >= 1, "limits are measured with at least one thread");
    const Kernels& kernels = **choose_kernels(choose_kernels("") ? "" : "generic");
    ThreadPool pool(threads);
    MachineLimits limits;
    limits.threads = threads;
    limits.isa = kernels.name;
    std::atomic<float> sink{0.0F};  // keeps the results alive; relaxed, nobody reads it

    int64_t bytes = kMemoryBytes;
    const FloatBuffer buffer = make_buffer(bytes);
    if (buffer != nullptr) {
        const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
        // Written by the threads that will read it, so that each part is near its reader.
        pool.parallel_for(count, 4096,
                          [&](int64_t begin, int64_t end, int) { std::fill(buffer.get() + begin, buffer.get() + end, 1.0F); });
        const double seconds = best_seconds([&] {
            pool.parallel_for(count, 4096, [&](int64_t begin, int64_t end, int) {
                sink.store(kernels.read_probe(buffer.get() + begin, end - begin), std::memory_order_relaxed);
            });
        });
        limits.memory_gb_s = static_cast<double>(bytes) / seconds * 1e-9;

        constexpr int64_t kRounds = 400;
        const int64_t part = std::min<int64_t>(kCacheBytes, bytes / threads / 64 * 64);
        const int64_t part_count = part / static_cast<int64_t>(sizeof(float));
        const double cache_seconds = best_seconds([&] {
            pool.parallel_for(threads, 1, [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin * kRounds; i < end * kRounds; ++i) {
                    sink.store(kernels.read_probe(buffer.get() + i / kRounds * part_count, part_count),
                               std::memory_order_relaxed);
                }
            });
        });
        limits.cache_gb_s = static_cast<double>(part * kRounds * threads) / cache_seconds * 1e-9;
    }
    const double seconds = best_seconds([&] {
        pool.parallel_for(threads, 1, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
                sink.store(kernels.multiply_add_probe(kMultiplyAddRounds), std::memory_order_relaxed);
            }
        });
    });
    const int64_t operations = 2 * kMultiplyAddRounds * kAccumulators * kernels.width * threads;
    limits.gflop_s = static_cast<double>(operations) / seconds * 1e-9;
    return limits;
}

double measure_read_gb_s(int threads, int64_t bytes) {
    DI_CHECK(threads >= 1 && bytes > 0, "a bandwidth is measured with at least one thread and one byte");
    const Kernels& kernels = **choose_kernels(choose_kernels("") ? "" : "generic");
    ThreadPool pool(threads);
    std::atomic<float> sink{0.0F};  // keeps the results alive; relaxed, nobody reads it
    const int64_t rounded = (bytes + 63) / 64 * 64;
    const FloatBuffer buffer(static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(rounded))));
    if (buffer == nullptr) {
        return 0.0;
    }
    const int64_t count = rounded / static_cast<int64_t>(sizeof(float));
    pool.parallel_for(count, 16,
                      [&](int64_t begin, int64_t end, int) { std::fill(buffer.get() + begin, buffer.get() + end, 1.0F); });
    // Enough rounds that a small buffer's time is not that of waking the threads.
    const int64_t rounds = std::max<int64_t>(1, kMemoryBytes / rounded);
    const double seconds = best_seconds([&] {
        pool.parallel_for(count, 16, [&](int64_t begin, int64_t end, int) {
            for (int64_t round = 0; round < rounds; ++round) {
                sink.store(kernels.read_probe(buffer.get() + begin, end - begin), std::memory_order_relaxed);
            }
        });
    });
    return static_cast<double>(rounded) * static_cast<double>(rounds) / seconds * 1e-9;
}

}  // namespace di::cpu
