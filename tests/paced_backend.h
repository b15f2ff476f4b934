#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pthread.h>

#include "server/token_backend.h"
#include "text/tokenizer.h"

// A token backend without a model: each request gets its tokens one by one, a fixed time apart, each at its own phase, in steps
// as an engine takes them. Which tokens follows from the request's seed, so that whoever reads a stream knows what must stand
// in it.
namespace di {

using SteadyTime = std::chrono::steady_clock::time_point;

// Tokens that are words of their own: a blank and letters.
class StreamWords {
  public:
    explicit StreamWords(const Tokenizer& tokenizer) {
        for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
            const std::string_view text = tokenizer.token_bytes(id);
            const bool is_word = !tokenizer.is_special(id) && text.size() > 2 && text.front() == ' ' &&
                                 std::all_of(text.begin() + 1, text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
            if (is_word) {
                ids_.push_back(id);
                texts_.emplace_back(text);
            }
        }
    }
    [[nodiscard]] int32_t id(uint64_t seed, int64_t index) const { return ids_[place(seed, index)]; }
    [[nodiscard]] const std::string& text(uint64_t seed, int64_t index) const { return texts_[place(seed, index)]; }

  private:
    [[nodiscard]] size_t place(uint64_t seed, int64_t index) const {
        return (seed * 131 + static_cast<uint64_t>(index) * 17) % ids_.size();
    }
    std::vector<int32_t> ids_;
    std::vector<std::string> texts_;
};

class PacedBackend : public TokenBackend {
  public:
    static constexpr const char* kThreadName = "paced backend";

    // Told when a token of a request leaves, on the backend's thread, before it does. May be empty.
    using Emitted = std::function<void(uint64_t seed, int64_t index, SteadyTime when)>;

    // `step`: at most one a step; 0: as soon as something is due.
    PacedBackend(const StreamWords& words, std::chrono::microseconds interval, std::chrono::microseconds step, Emitted emitted)
        : words_(words), interval_(interval), step_(step), emitted_(std::move(emitted)) {}
    ~PacedBackend() override { end(); }
    PacedBackend(const PacedBackend&) = delete;
    PacedBackend& operator=(const PacedBackend&) = delete;

    void start(Sink sink) override {
        sink_ = std::move(sink);
        thread_ = std::thread([this] { run(); });
    }
    void stop() override { end(); }

    void submit(TokenRequest request) override {
        const uint64_t seed = request.sampling.seed.value_or(0);
        const auto phase = interval_.count() == 0 ? interval_ : interval_ * static_cast<int64_t>(seed * 37 % 1000) / 1000;
        const std::lock_guard lock(mutex_);
        due_.push({.when = std::chrono::steady_clock::now() + phase, .id = request.id});
        running_[request.id] = {.seed = seed,
                                .token_count = request.sampling.max_tokens,
                                .prompt_tokens = static_cast<int64_t>(request.prompt_token_ids.size())};
        wake_.notify_one();
    }
    void cancel(uint64_t id) override {
        const std::lock_guard lock(mutex_);
        if (const auto found = running_.find(id); found != running_.end() && !found->second.is_cancelled) {
            found->second.is_cancelled = true;
            due_.push({.when = std::chrono::steady_clock::now(), .id = id});
            wake_.notify_one();
        }
    }
    void cancel_sample(uint64_t id, int32_t /*sample_index*/) override { cancel(id); }  // there is one
    void reset_prefix_cache() override {}
    [[nodiscard]] BackendHealth health() const override { return {.is_ready = true}; }
    [[nodiscard]] EngineStats stats() const override {
        const std::lock_guard lock(mutex_);
        EngineStats now;
        now.running = static_cast<int32_t>(running_.size());
        return now;
    }

  private:
    struct Running {
        uint64_t seed = 0;
        int64_t token_count = 0;
        int64_t prompt_tokens = 0;
        int64_t next = 0;
        bool is_cancelled = false;
    };
    struct Due {
        SteadyTime when;
        uint64_t id = 0;
        bool operator>(const Due& other) const { return when > other.when; }
    };

    void end() {
        {
            const std::lock_guard lock(mutex_);
            is_ending_ = true;
        }
        wake_.notify_all();
        if (thread_.joinable()) {
            thread_.join();
        }
    }

    void run() {
        (void)::pthread_setname_np(::pthread_self(), kThreadName);
        std::unique_lock lock(mutex_);
        while (!is_ending_) {
            if (due_.empty()) {
                wake_.wait(lock);
                continue;
            }
            const SteadyTime now = std::chrono::steady_clock::now();
            if (const SteadyTime next = due_.top().when; next > now) {  // a copy: what is due changes while it waits
                wake_.wait_until(lock, next);
                continue;
            }
            std::vector<StepOutput> outputs;
            while (!due_.empty() && due_.top().when <= now) {
                const Due due = due_.top();
                due_.pop();
                if (const auto found = running_.find(due.id); found != running_.end()) {
                    outputs.push_back(next_of(found->second, due, now));
                    if (outputs.back().finish != FinishReason::kNone) {
                        running_.erase(found);
                    }
                }
            }
            lock.unlock();
            if (!outputs.empty()) {
                sink_(std::move(outputs));
            }
            if (step_.count() > 0) {
                std::this_thread::sleep_until(now + step_);
            }
            lock.lock();
        }
    }

    StepOutput next_of(Running& request, const Due& due, SteadyTime now) {
        StepOutput output;
        output.request_id = due.id;
        output.usage.prompt_tokens = request.prompt_tokens;
        if (request.is_cancelled) {
            output.finish = FinishReason::kAbort;
        } else {
            output.token_ids.push_back(words_.id(request.seed, request.next));
            if (emitted_) {
                emitted_(request.seed, request.next, now);
            }
            ++request.next;
            output.finish = request.next == request.token_count ? FinishReason::kLength : FinishReason::kNone;
            due_.push({.when = due.when + interval_, .id = due.id});
        }
        output.usage.completion_tokens = request.next;
        return output;
    }

    const StreamWords& words_;
    const std::chrono::microseconds interval_;
    const std::chrono::microseconds step_;
    const Emitted emitted_;
    Sink sink_;
    mutable std::mutex mutex_;  // guards everything below but thread_
    std::condition_variable wake_;
    bool is_ending_ = false;
    std::unordered_map<uint64_t, Running> running_;
    std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
    std::thread thread_;
};

}  // namespace di
