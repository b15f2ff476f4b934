#include "base/task_pool.h"

#include <algorithm>
#include <utility>

namespace di {

TaskPool::TaskPool(int thread_count, size_t waiting_max) : waiting_max_(waiting_max) {
    for (int i = 0; i < std::max(1, thread_count); ++i) {
        threads_.emplace_back([this] { work(); });
    }
}

TaskPool::~TaskPool() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

bool TaskPool::submit(std::function<void()> task) {
    {
        const std::lock_guard lock(mutex_);
        if (tasks_.size() >= waiting_max_) {
            return false;
        }
        tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
    return true;
}

void TaskPool::work() {
    while (true) {
        std::function<void()> task;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [this] { return is_ending_ || !tasks_.empty(); });
            if (tasks_.empty()) {
                return;
            }
            task = std::move(tasks_.front());
            tasks_.pop_front();
        }
        task();
    }
}

}  // namespace di
