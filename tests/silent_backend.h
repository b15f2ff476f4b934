#pragma once

#include "server/token_backend.h"

namespace di {

// A token backend that is ready, and of which nothing ever comes.
class SilentBackend : public TokenBackend {
  public:
    void start(Sink /*sink*/) override {}
    void stop() override {}
    void submit(TokenRequest /*request*/) override {}
    void cancel(uint64_t /*id*/) override {}
    void cancel_sample(uint64_t /*id*/, int32_t /*sample_index*/) override {}
    void reset_prefix_cache() override {}
    [[nodiscard]] BackendHealth health() const override { return {.is_ready = true}; }
    [[nodiscard]] EngineStats stats() const override { return now; }

    EngineStats now{};
};

}  // namespace di
