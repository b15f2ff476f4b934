#pragma once

#include <cstdint>
#include <string>

#include "api/api_error.h"
#include "base/metrics.h"
#include "server/exchange.h"
#include "server/generations.h"
#include "server/token_backend.h"

namespace di {

// What /metrics says (docs/serving.md). Names of clients never become labels: the number of series is fixed by the route table, the
// error kinds and the ends of answers. Server's thread.
class ServiceMetrics {
  public:
    // `backend` must outlive it.
    explicit ServiceMetrics(TokenBackend& backend);

    void count_tokens(int64_t count, int64_t gap_us, bool is_first);
    void count_end(const Generation& generation, int64_t now_us);
    void count_error(const Exchange& exchange, ApiErrorKind kind);

    // The exposition; `open`: answers that are not over.
    [[nodiscard]] std::string text(int64_t open);

  private:
    void take_engine_totals();

    TokenBackend& backend_;
    Metrics metrics_;
    CounterFamily requests_;
    CounterFamily errors_;
    Counter prompt_tokens_;
    Counter cached_tokens_;
    Counter generation_tokens_;
    Counter reasoning_tokens_;
    Counter aborted_;
    Counter preemptions_;
    Counter drafted_;
    Counter accepted_;
    Gauge running_;
    Gauge waiting_;
    Gauge open_;
    Gauge cache_use_;
    Histogram queue_time_;
    Histogram first_token_;
    Histogram inter_token_;
    Histogram end_to_end_;
    Histogram prompt_length_;
    Histogram output_length_;
    EngineStats seen_{};  // totals that the counters already hold
};

}  // namespace di
