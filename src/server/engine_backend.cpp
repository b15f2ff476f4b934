#include "server/engine_backend.h"

#include <utility>

#include "base/check.h"
#include "server/limits.h"

namespace di {

EngineBackend::EngineBackend(Engine& engine, Clock& clock) : engine_(engine), clock_(clock), stats_(engine.stats()) {}

void EngineBackend::stop() {
    {
        const std::lock_guard lock(commands_mutex_);
        is_ending_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) {
        thread_.join();
    }
}

void EngineBackend::start(Sink sink) {
    DI_CHECK(!thread_.joinable(), "a backend starts once");
    sink_ = std::move(sink);
    is_started_.store(true, std::memory_order_relaxed);
    thread_ = std::thread([this] { run(); });
}

void EngineBackend::submit(TokenRequest request) {
    {
        const std::lock_guard lock(commands_mutex_);
        commands_.submitted.push_back(std::move(request));
    }
    wake_.notify_one();
}

void EngineBackend::cancel(uint64_t id) {
    {
        const std::lock_guard lock(commands_mutex_);
        commands_.cancelled.push_back(id);
    }
    wake_.notify_one();
}

void EngineBackend::cancel_sample(uint64_t id, int32_t sample_index) {
    {
        const std::lock_guard lock(commands_mutex_);
        commands_.cancelled_samples.emplace_back(id, sample_index);
    }
    wake_.notify_one();
}

void EngineBackend::reset_prefix_cache() {
    {
        const std::lock_guard lock(commands_mutex_);
        commands_.resets_cache = true;
    }
    wake_.notify_one();
}

BackendHealth EngineBackend::health() const {
    const EngineStats now = stats();
    BackendHealth health{.is_ready = is_started_.load(std::memory_order_relaxed), .unfinished = now.running + now.waiting};
    const int64_t began_us = step_began_us_.load(std::memory_order_relaxed);
    if (!health.is_ready) {
        health.reason = "the engine has not started";
    } else if (began_us >= 0 && clock_.now_us() - began_us > kStepStuckUs) {
        health.is_ready = false;
        health.reason = fmt::format("a step of the engine has been running for {} s", (clock_.now_us() - began_us) / 1'000'000);
    }
    return health;
}

EngineStats EngineBackend::stats() const {
    const std::lock_guard lock(stats_mutex_);
    return stats_;
}

void EngineBackend::run() {
    while (take_commands()) {
        if (!engine_.has_unfinished()) {
            continue;
        }
        step_began_us_.store(clock_.now_us(), std::memory_order_relaxed);
        std::vector<StepOutput> outputs = engine_.step();
        step_began_us_.store(-1, std::memory_order_relaxed);
        publish();
        if (!outputs.empty()) {
            sink_(std::move(outputs));
        }
    }
}

bool EngineBackend::take_commands() {
    Commands commands;
    {
        std::unique_lock lock(commands_mutex_);
        wake_.wait(lock, [this] { return is_ending_ || commands_.any() || engine_.has_unfinished(); });
        if (is_ending_) {
            return false;
        }
        std::swap(commands, commands_);
    }
    for (TokenRequest& request : commands.submitted) {
        engine_.add_request(std::move(request));
    }
    for (const uint64_t id : commands.cancelled) {
        engine_.abort_request(id);
    }
    for (const auto& [id, sample_index] : commands.cancelled_samples) {
        engine_.abort_sample(id, sample_index);
    }
    if (commands.resets_cache) {
        std::vector<StepOutput> outputs = engine_.flush();
        engine_.reset_prefix_cache();
        if (!outputs.empty()) {
            sink_(std::move(outputs));
        }
    }
    publish();
    return true;
}

void EngineBackend::publish() {
    EngineStats now = engine_.stats();
    const std::lock_guard lock(stats_mutex_);
    stats_ = std::move(now);
}

}  // namespace di
