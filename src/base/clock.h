#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace di {

// Time is passed in, so that tests and simulations own it. Used from any thread.
class Clock {
  public:
    virtual ~Clock() = default;
    // Microseconds since some fixed moment; never goes back.
    [[nodiscard]] virtual int64_t now_us() = 0;
    // Lets time pass.
    virtual void wait_us(int64_t microseconds) = 0;
};

class SystemClock : public Clock {
  public:
    [[nodiscard]] int64_t now_us() override {
        const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
        return std::chrono::duration_cast<std::chrono::microseconds>(since_start).count();
    }
    void wait_us(int64_t microseconds) override { std::this_thread::sleep_for(std::chrono::microseconds(microseconds)); }
};

// Stands still until it is moved.
class ManualClock : public Clock {
  public:
    [[nodiscard]] int64_t now_us() override { return now_us_.load(std::memory_order_relaxed); }
    void wait_us(int64_t microseconds) override { advance_us(microseconds); }
    void advance_us(int64_t microseconds) { now_us_.fetch_add(microseconds, std::memory_order_relaxed); }

  private:
    std::atomic<int64_t> now_us_{0};  // relaxed: a number, it publishes nothing
};

}  // namespace di
