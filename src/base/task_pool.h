#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace di {

// Threads that run tasks in the order in which they came, for work that would hold up a loop: parsing, rendering, tokenising.
class TaskPool {
  public:
    // At least one thread. More than `waiting_max` tasks that nobody has begun are refused.
    TaskPool(int thread_count, size_t waiting_max);
    // Runs what was taken, then ends.
    ~TaskPool();
    TaskPool(const TaskPool&) = delete;
    TaskPool& operator=(const TaskPool&) = delete;

    // False: too many wait; the task is not taken. Any thread.
    [[nodiscard]] bool submit(std::function<void()> task);

  private:
    void work();

    size_t waiting_max_;
    std::mutex mutex_;  // guards tasks_ and is_ending_
    std::condition_variable wake_;
    std::deque<std::function<void()>> tasks_;
    bool is_ending_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace di
