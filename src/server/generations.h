#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "server/exchange.h"
#include "server/token_backend.h"
#include "session/answer_stream.h"

namespace di {

// One answer on its way from the engine to its client. Server's thread.
struct Generation {
    std::unique_ptr<AnswerStream> stream;
    ExchangePtr exchange{};     // nullptr: nobody waits (background)
    bool is_streaming = false;  // to the exchange
    bool has_timings = false;   // in the body
    std::string owner{};        // name of the key, "" where there are none
    std::string request_id{};   // the client's name of it
    int64_t began_us = 0;
    QuotaLimits quota{};                // of the key
    std::shared_ptr<void> admission{};  // what it holds of its key's quota, let go at its end
    // Told of events as they become due, and of the end; both may be empty.
    std::function<void(const Generation&, const StreamEvents&)> on_events{};
    std::function<void(Generation&)> on_end{};

    // Filled by Generations.
    std::vector<uint64_t> engine_ids{};  // of its prompts
    std::vector<int32_t> owed{};         // samples of each prompt whose last record is still to come
    int64_t first_token_us = -1;
    int64_t last_token_us = -1;
    int64_t written_us = 0;  // when the client last got something
    bool is_cancelled = false;
};

// What the service counts while answers run.
struct GenerationObserver {
    virtual ~GenerationObserver() = default;
    // `gap_us`: since the token before, or since the arrival for the first ones.
    virtual void on_tokens(const Generation& generation, int64_t count, int64_t gap_us, bool is_first) = 0;
    virtual void on_end(const Generation& generation) = 0;
};

// All answers that run: takes the engine's records to their streams and their events to the clients. Server's thread.
class Generations {
  public:
    // All must outlive it.
    Generations(TokenBackend& backend, Clock& clock, GenerationObserver& observer);

    // Hands the prompts to the backend. The client's going away cancels.
    void start(std::shared_ptr<Generation> generation, std::vector<TokenRequest> prompts);
    // What the backend said.
    void take(std::vector<StepOutput> outputs);
    // Ends an answer; its client, if it still listens, gets what its dialect has for that.
    void cancel(Generation& generation);
    // Of that owner, or of any where `owner` is nullptr, by the client's name or the answer's id. How many there were.
    int64_t cancel_named(std::string_view name, const std::string* owner);
    void cancel_all();
    // To be called about once a second: clients that heard nothing for `keepalive_us` get a sign of life.
    void keep_alive(int64_t keepalive_us);

    // Answers that are not over, in the order of their beginning.
    using Open = std::map<uint64_t, std::shared_ptr<Generation>>;  // by the first engine id
    [[nodiscard]] const Open& open() const { return open_; }
    // nullptr: none of that id is open.
    [[nodiscard]] std::shared_ptr<Generation> find(std::string_view answer_id) const;

  private:
    struct Place {
        std::shared_ptr<Generation> generation;
        size_t prompt_index = 0;
    };

    void deliver(Generation& generation, const StreamEvents& events);
    void finish(const std::shared_ptr<Generation>& generation);
    void cancel_prompts(Generation& generation);
    void count_tokens(Generation& generation, const StepOutput& output);

    TokenBackend& backend_;
    Clock& clock_;
    GenerationObserver& observer_;
    uint64_t next_id_ = 1;
    Open open_;
    std::unordered_map<uint64_t, Place> places_;  // by engine id; looked up, never walked
};

}  // namespace di
