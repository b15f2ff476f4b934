#include "base/pool.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include <sched.h>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace di {

namespace {

// About 100 us of spinning: longer than the gap between two loops of a decode
// step, short enough that an idle engine costs nothing.
constexpr int kSpinRounds = 20000;

void relax() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int thread_count) {
    DI_CHECK(thread_count >= 1, "a thread pool needs at least one thread");
    workers_.reserve(static_cast<size_t>(thread_count - 1));
    for (int index = 1; index < thread_count; ++index) {
        workers_.emplace_back([this, index] { work(index); });
    }
}

ThreadPool::~ThreadPool() {
    stop_.store(true);
    {
        const std::lock_guard lock(mutex_);
        epoch_.fetch_add(1);
    }
    wake_.notify_all();
    for (auto& worker : workers_) {
        worker.join();
    }
}

void ThreadPool::parallel_for(int64_t count, int64_t grain,
                              const std::function<void(int64_t, int64_t, int)>& body) {
    if (count <= 0) {
        return;
    }
    grain = std::max<int64_t>(grain, 1);
    const int64_t grains = (count + grain - 1) / grain;
    const int64_t threads = thread_count();
    if (threads == 1 || grains == 1) {
        body(0, count, 0);
        return;
    }
    body_ = &body;
    count_ = count;
    part_ = (grains + threads - 1) / threads * grain;
    pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    epoch_.fetch_add(1);  // seq_cst: ordered against sleepers_ below
    if (sleepers_.load() > 0) {
        { const std::lock_guard lock(mutex_); }
        wake_.notify_all();
    }
    run_part(0);
    for (int round = 0; pending_.load(std::memory_order_acquire) != 0; ++round) {
        // On a machine with more work than cores the worker may not be running: let it.
        if (round > kSpinRounds) {
            std::this_thread::yield();
        }
        relax();
    }
}

void ThreadPool::run_part(int thread_index) const {
    const int64_t begin = part_ * thread_index;
    const int64_t end = std::min(count_, begin + part_);
    if (begin < end) {
        (*body_)(begin, end, thread_index);
    }
}

void ThreadPool::work(int thread_index) {
    uint64_t seen = 0;
    while (true) {
        for (int round = 0; epoch_.load(std::memory_order_acquire) == seen && round < kSpinRounds; ++round) {
            relax();
        }
        if (epoch_.load(std::memory_order_acquire) == seen) {
            std::unique_lock lock(mutex_);
            sleepers_.fetch_add(1);
            wake_.wait(lock, [&] { return epoch_.load() != seen; });
            sleepers_.fetch_sub(1);
        }
        seen = epoch_.load(std::memory_order_acquire);
        if (stop_.load()) {
            return;
        }
        run_part(thread_index);
        pending_.fetch_sub(1, std::memory_order_release);
    }
}

int usable_cpu_count() {
    cpu_set_t set;
    CPU_ZERO(&set);
    int count = static_cast<int>(std::thread::hardware_concurrency());
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        count = CPU_COUNT(&set);
    }
    // cgroup v2: "max 100000" or "200000 100000" (quota, period in microseconds).
    std::ifstream file("/sys/fs/cgroup/cpu.max");
    std::string quota;
    double period = 0;
    if (file >> quota >> period && quota != "max" && period > 0) {
        char* end = nullptr;
        const double value = std::strtod(quota.c_str(), &end);
        if (end != quota.c_str() && value > 0) {
            count = std::min(count, std::max(1, static_cast<int>(std::ceil(value / period))));
        }
    }
    return std::max(1, count);
}

}  // namespace di
