#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "session/settings.h"

// A di::Session as Python sees it: long calls release the interpreter, errors become exceptions.
namespace di::python {

// MemoryError, ValueError, FileNotFoundError or RuntimeError, as the code says. Only this module throws: that is how an error
// reaches Python.
[[noreturn]] void raise(const Error& error);

// (index, sample_index, token_id or None, logprob or None, text, is_finished): called with the interpreter held, for every token and once
// for the end of each sample.
using OnEvent = std::function<void(size_t, int32_t, std::optional<int32_t>, std::optional<float>, const std::string&, bool)>;

// What became of a prompt that was handed over: its ids, or why it is none.
struct Submitted {
    uint64_t id = 0;
    std::vector<int32_t> prompt_token_ids;
    std::optional<Error> error;
};

// Any thread; calls that run the model wait for each other.
class NativeSession {
  public:
    NativeSession(const SettingPairs& pairs, const SettingPairs& defaults);

    std::vector<PromptResult> generate(std::vector<PromptRequest> prompts, const std::optional<OnEvent>& on_event);
    Submitted submit(const PromptRequest& prompt);
    std::vector<PromptOutput> step();
    std::vector<PromptOutput> flush();
    // Waits for nothing: a running call takes it up at its next step.
    void abort(uint64_t id);
    bool has_unfinished();
    int64_t unfinished_count();
    uint64_t next_id();
    EngineStats stats();

    // A session that is not closed, else ValueError.
    Session& open_session();
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
    // Frees model and caches; a call under way in another thread is waited for.
    void close();

  private:
    // Runs `call` on the session with the interpreter released and nobody else in the model.
    template <typename Call>
    auto alone(Call call);

    std::mutex mutex_;                  // guards what runs inside session_; taken only while the interpreter is released
    std::unique_ptr<Session> session_;  // set and reset with the interpreter held
    std::vector<std::string> warnings_;
};

}  // namespace di::python
