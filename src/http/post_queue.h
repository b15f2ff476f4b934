#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

// Work for a loop's thread, from any thread, in the order of the calls. It outlives the loop: what comes later is dropped.
namespace di {

class PostQueue {
  public:
    // `wake` makes the loop call run() soon. It is called from any thread, never after close() returned.
    explicit PostQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

    void push(std::function<void()> work) {
        const std::lock_guard lock(mutex_);
        if (is_closed_) {
            return;
        }
        waiting_.push_back(std::move(work));
        if (waiting_.size() == 1) {
            wake_();
        }
    }

    // On the loop's thread. Work that is pushed meanwhile runs in the next turn.
    void run() {
        {
            const std::lock_guard lock(mutex_);
            running_.swap(waiting_);
        }
        for (auto& work : running_) {
            work();
        }
        running_.clear();
    }

    // Work that has not begun is let go of without running. The loop's thread has ended.
    void close() {
        std::vector<std::function<void()>> dropped;
        {
            const std::lock_guard lock(mutex_);
            is_closed_ = true;
            dropped.swap(waiting_);
        }
        // What the work holds may come back here with push(): it goes outside the lock.
        dropped.clear();
        running_.clear();
    }

  private:
    std::function<void()> wake_;
    std::mutex mutex_;  // guards waiting_ and is_closed_
    std::vector<std::function<void()>> waiting_;
    bool is_closed_ = false;
    std::vector<std::function<void()>> running_;  // the loop's thread alone
};

}  // namespace di
