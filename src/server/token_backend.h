#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace di {

struct BackendHealth {
    bool is_ready = false;   // loaded, and steps when there is something to do
    std::string reason{};    // why not
    int64_t unfinished = 0;  // requests
};

// What the server sees of an engine: one in its own process, or whatever stands behind a network. Only token ids cross it.
class TokenBackend {
  public:
    // Told of all that happened in one step, for all requests at once. Runs on the backend's own thread.
    using Sink = std::function<void(std::vector<StepOutput> outputs)>;

    virtual ~TokenBackend() = default;

    // Once, before the first request.
    virtual void start(Sink sink) = 0;
    // Behind it the sink is not called any more, and what has not finished never ends. Once, by whoever started it.
    virtual void stop() = 0;
    // The id (of the caller's choice) is unique among unfinished requests. Exactly one last record of every sample comes to
    // the sink, whatever happens. Any thread.
    virtual void submit(TokenRequest request) = 0;
    // Ends every sample of a request with kAbort within one step; unknown ids are ignored. Any thread.
    virtual void cancel(uint64_t id) = 0;
    // Likewise one sample of which the sink was told a token; its fellows go on. Any thread.
    virtual void cancel_sample(uint64_t id, int32_t sample_index) = 0;
    // Forgets every cached prefix that no running request uses. Any thread.
    virtual void reset_prefix_cache() = 0;

    [[nodiscard]] virtual BackendHealth health() const = 0;  // any thread
    [[nodiscard]] virtual EngineStats stats() const = 0;     // of the last step; any thread
};

}  // namespace di
