#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace di {

// One thread that runs one job at a time: the device's side of asynchronous stepping.
class StepThread {
  public:
    StepThread();
    ~StepThread();  // waits for the job under way
    StepThread(const StepThread&) = delete;
    StepThread& operator=(const StepThread&) = delete;

    // Nothing may run. What the caller wrote before is seen by the job.
    void start(std::function<void()> job);
    // Until the job has ended; what it wrote is seen by the caller. At once when none was started.
    void wait();

  private:
    void work();

    std::mutex mutex_;  // guards job_, is_busy_, stop_
    std::condition_variable changed_;
    std::function<void()> job_;
    bool is_busy_ = false;
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace di
