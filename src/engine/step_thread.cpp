#include "engine/step_thread.h"

#include <utility>

#include "base/check.h"

namespace di {

StepThread::StepThread() : thread_([this] { work(); }) {}

StepThread::~StepThread() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void StepThread::start(std::function<void()> job) {
    {
        const std::lock_guard lock(mutex_);
        DI_CHECK(!is_busy_, "a step was started while one runs");
        job_ = std::move(job);
        is_busy_ = true;
    }
    changed_.notify_all();
}

void StepThread::wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !is_busy_; });
}

void StepThread::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return is_busy_ || stop_; });
        if (!is_busy_) {
            return;
        }
        const std::function<void()> job = std::exchange(job_, {});
        lock.unlock();
        job();
        lock.lock();
        is_busy_ = false;
        changed_.notify_all();
    }
}

}  // namespace di
