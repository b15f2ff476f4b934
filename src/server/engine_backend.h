#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "server/token_backend.h"

namespace di {

// An engine of this process, on a thread of its own. That thread alone touches the engine: requests and cancellations wait in a
// list until the step under way has ended.
class EngineBackend : public TokenBackend {
  public:
    // `engine` and `clock` must outlive it, and nobody else uses the engine meanwhile.
    EngineBackend(Engine& engine, Clock& clock);
    ~EngineBackend() override { stop(); }
    EngineBackend(const EngineBackend&) = delete;
    EngineBackend& operator=(const EngineBackend&) = delete;

    void start(Sink sink) override;
    void stop() override;
    void submit(TokenRequest request) override;
    void cancel(uint64_t id) override;
    void cancel_sample(uint64_t id, int32_t sample_index) override;
    void reset_prefix_cache() override;
    [[nodiscard]] BackendHealth health() const override;
    [[nodiscard]] EngineStats stats() const override;

  private:
    struct Commands {
        std::vector<TokenRequest> submitted;
        std::vector<uint64_t> cancelled;
        std::vector<std::pair<uint64_t, int32_t>> cancelled_samples;
        bool resets_cache = false;
        [[nodiscard]] bool any() const {
            return !submitted.empty() || !cancelled.empty() || !cancelled_samples.empty() || resets_cache;
        }
    };

    void run();
    // False when the thread is to end.
    [[nodiscard]] bool take_commands();
    void publish();

    Engine& engine_;
    Clock& clock_;
    Sink sink_;
    std::mutex commands_mutex_;  // guards commands_ and is_ending_
    std::condition_variable wake_;
    Commands commands_;
    bool is_ending_ = false;
    mutable std::mutex stats_mutex_;  // guards stats_
    EngineStats stats_;
    std::atomic<int64_t> step_began_us_{-1};  // relaxed: a number for health(); -1: no step runs
    std::atomic<bool> is_started_{false};     // relaxed: likewise
    std::thread thread_;
};

}  // namespace di
