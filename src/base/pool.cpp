#include "base/pool.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include <sched.h>

#include "base/check.h"

namespace di {

namespace {

// About 100 us of spinning: longer than the gap between two loops of a decode
// step, short enough that an idle engine costs nothing.
constexpr int kSpinRounds = 12000;

// The caller waits for parts under way; when they take this long (about 2 ms, several times what a part of a decode
// step takes) their thread may have no core: let it have ours. Sooner would cost a system call in many loops.
constexpr int kWaitRounds = 200'000;

constexpr uint64_t pack(uint32_t epoch, uint32_t parts, uint32_t next) {
    return static_cast<uint64_t>(epoch) << 32 | static_cast<uint64_t>(parts) << 16 | next;
}
constexpr uint32_t epoch_of(uint64_t loop) { return static_cast<uint32_t>(loop >> 32); }
constexpr uint32_t parts_of(uint64_t loop) { return static_cast<uint32_t>(loop >> 16) & 0xffffU; }
constexpr uint32_t next_of(uint64_t loop) { return static_cast<uint32_t>(loop) & 0xffffU; }

// Some 8 ns between two looks at a shared word, by multiplications that wait for each other: they use one slot in many, so
// a sibling hyper-thread runs on. Not `pause`: a hypervisor counts many of them in a row as a wait for
// somebody without a core and takes ours away (pause-loop exits); decode on a virtual machine lost a sixth by it.
void relax() {
    uint64_t value = 1;
    for (int step = 0; step < 8; ++step) {
        value *= 3;
        asm volatile("" : "+r"(value));  // keeps each multiplication
    }
}

}  // namespace

ThreadPool::ThreadPool(int thread_count) {
    DI_CHECK(thread_count >= 1 && thread_count < 0xffff, "a thread pool has 1 to 65534 threads");
    workers_.reserve(static_cast<size_t>(thread_count - 1));
    for (int index = 1; index < thread_count; ++index) {
        workers_.emplace_back([this, index] { work(index); });
    }
}

ThreadPool::~ThreadPool() {
    stop_.store(true);
    {
        const std::lock_guard lock(mutex_);
        loop_.store(pack(epoch_of(loop_.load()) + 1, 0, 0));
    }
    wake_.notify_all();
    for (auto& worker : workers_) {
        worker.join();
    }
}

void ThreadPool::parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t, int)>& body) {
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
    const auto parts = static_cast<uint32_t>((count + part_ - 1) / part_);
    unfinished_.store(static_cast<int32_t>(parts), std::memory_order_relaxed);
    const uint32_t epoch = epoch_of(loop_.load(std::memory_order_relaxed)) + 1;
    loop_.store(pack(epoch, parts, 0));  // seq_cst: ordered against sleepers_ below
    if (sleepers_.load() > 0) {
        { const std::lock_guard lock(mutex_); }
        wake_.notify_all();
    }
    run_parts(epoch, 0);
    for (int round = 0; unfinished_.load(std::memory_order_acquire) != 0; ++round) {
        if (round > kWaitRounds) {
            std::this_thread::yield();
        }
        relax();
    }
}

void ThreadPool::run_parts(uint32_t epoch, int thread_index) {
    uint64_t loop = loop_.load(std::memory_order_acquire);
    while (epoch_of(loop) == epoch && next_of(loop) < parts_of(loop)) {
        if (!loop_.compare_exchange_weak(loop, loop + 1, std::memory_order_acq_rel)) {
            continue;
        }
        // The loop cannot end before this part is done, so its fields stand still.
        const int64_t begin = part_ * next_of(loop);
        (*body_)(begin, std::min(count_, begin + part_), thread_index);
        unfinished_.fetch_sub(1, std::memory_order_release);
        loop = loop_.load(std::memory_order_acquire);
    }
}

void ThreadPool::work(int thread_index) {
    uint32_t seen = 0;
    const auto is_old = [&] { return epoch_of(loop_.load(std::memory_order_acquire)) == seen; };
    while (true) {
        for (int round = 0; is_old() && round < kSpinRounds; ++round) {
            relax();
        }
        if (is_old()) {
            std::unique_lock lock(mutex_);
            sleepers_.fetch_add(1);
            wake_.wait(lock, [&] { return epoch_of(loop_.load()) != seen; });
            sleepers_.fetch_sub(1);
        }
        seen = epoch_of(loop_.load(std::memory_order_acquire));
        if (stop_.load()) {
            return;
        }
        run_parts(seen, thread_index);
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
