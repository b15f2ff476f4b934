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

    // Calls body(begin, end, thread_index) for disjoint ranges that cover [0, count), at most
    // one per thread, split in equal parts of multiples of `grain`. Returns when all
    // are done. Which thread computes an index must never change its result.
    void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end, int thread_index)>& body);

  private:
    void work(int thread_index);
    void run_part(int thread_index) const;

    std::vector<std::thread> workers_;
    const std::function<void(int64_t, int64_t, int)>* body_ = nullptr;  // of the loop under way
    int64_t count_ = 0;
    int64_t part_ = 0;  // indices per thread
    std::atomic<uint64_t> epoch_{0};    // release: publishes body_, count_, part_
    std::atomic<int> pending_{0};       // acquire/release: workers still busy with this epoch
    std::atomic<int> sleepers_{0};      // seq_cst with epoch_: a sleeper either sees the new epoch or is woken
    std::atomic<bool> stop_{false};
    std::mutex mutex_;                  // guards only the sleep of workers
    std::condition_variable wake_;
};

// Threads this process may really use: the affinity mask, and the container's CPU quota where there is one.
[[nodiscard]] int usable_cpu_count();

}  // namespace di
