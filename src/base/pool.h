#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace di {

// A fixed team of threads for data-parallel loops; the caller is one of them.
// A decode step has hundreds of short loops, so workers spin for some
// microseconds before they sleep. One loop at a time: run() is called by one thread only
// and does not nest.
class ThreadPool {
  public:
    // thread_count >= 1 includes the calling thread.
    explicit ThreadPool(int thread_count);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    [[nodiscard]] int thread_count() const { return static_cast<int>(workers_.size()) + 1; }

    // Calls body(begin, end, thread_index) for disjoint ranges that cover [0, count): equal parts of multiples of `grain`, as many as
    // there are threads. Whoever is awake takes the next part, so that a thread without a core delays nobody. Returns when all
    // are done. Which thread computes an index must never change its result.
    void parallel_for(int64_t count, int64_t grain,
                      const std::function<void(int64_t begin, int64_t end, int thread_index)>& body);

  private:
    void work(int thread_index);
    // Takes parts of the loop `epoch` until none is left.
    void run_parts(uint32_t epoch, int thread_index);

    std::vector<std::thread> workers_;
    const std::function<void(int64_t, int64_t, int)>* body_ = nullptr;  // of the loop under way
    int64_t count_ = 0;
    int64_t part_ = 0;  // indices of a part
    // Epoch (32 bits), parts of the loop (16), next part to take (16) in one word: a part taken by compare-and-swap belongs to
    // the loop that the fields above describe. Release publishes them.
    std::atomic<uint64_t> loop_{0};
    std::atomic<int32_t> unfinished_{0};  // parts; acquire/release: results of finished parts are seen
    std::atomic<int> sleepers_{0};        // seq_cst with loop_: a sleeper either sees the new loop or is woken
    std::atomic<bool> stop_{false};
    std::mutex mutex_;  // guards only the sleep of workers
    std::condition_variable wake_;
};

// Threads this process may really use: the affinity mask, and the container's CPU quota where there is one.
[[nodiscard]] int usable_cpu_count();

}  // namespace di
