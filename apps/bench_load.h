#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/options.h"
#include "base/clock.h"
#include "base/result.h"
#include "engine/load.h"

// What `bench throughput` and `bench sweep` share: an engine without text, requests for it, a closed loop that keeps some of
// them in flight, and the figures of what happened meanwhile.
namespace di {

// An engine and the requests that every measurement sends to it.
struct BenchLoad {
    std::string model;
    std::unique_ptr<LoadedEngine> loaded;
    EngineBehaviour behaviour;
    std::vector<TokenRequest> requests;
};

struct BenchSize {
    int64_t request_count = 0;
    int32_t sequences = 0;  // of a step, where --max-num-seqs does not say; 0: the engine's default
};

// Reads --prompts (or makes prompts up: random ids, lengths around the means, all from --seed) and loads the engine. A file
// with fewer lines than requests starts again from its first line.
[[nodiscard]] Result<BenchLoad> open_bench_load(const Options& options, const BenchSize& size);

// Figures of one closed loop. Times are of the caller's clock, from the first submission to the last record.
struct LoadFigures {
    int64_t requests = 0;
    double wall_s = 0.0;
    int64_t prompt_tokens = 0;  // of the requests, those found in the cache included
    int64_t cached_tokens = 0;
    int64_t output_tokens = 0;
    int64_t decode_records = 0;  // steps of one sequence that gave it tokens behind its first
    int64_t decode_tokens = 0;   // that they gave
    EngineStats engine;          // counters of the loop alone
    std::vector<double> first_token_ms{};
    // Time between two records of a request, spread evenly over the tokens of the second.
    std::vector<double> inter_token_ms{};
    // The same not spread: what a reader of the stream waits.
    std::vector<double> inter_chunk_ms{};
    std::vector<double> user_tokens_per_s{};  // of each request behind its first token

    [[nodiscard]] double output_tokens_per_s() const { return static_cast<double>(output_tokens) / wall_s; }
    // What one user sees: the median of the requests; 0 if none has a second token.
    [[nodiscard]] double tokens_per_s_per_user() const;
    // Output if every verified draft had been accepted, over the measured: a convention of published figures, not a measurement.
    [[nodiscard]] double all_accepted_ratio() const;
    // Tokens of a round that verified drafts; 0 without drafts.
    [[nodiscard]] double mean_accepted_length() const;
};

// Sends the requests, never more than `in_flight` of them at once, until all have ended. Fails on the first that fails.
// `salt` keeps cached prefixes of other loops out of this one: prefixes are shared within a loop only.
[[nodiscard]] Result<LoadFigures> run_load(Engine& engine, const std::vector<TokenRequest>& requests, int64_t in_flight,
                                           const std::string& salt, Clock& clock);

// Runs a few of the requests, uncounted: maps the weights in, wakes the threads, shows the engine what its steps cost.
[[nodiscard]] Status warm_up(Engine& engine, const std::vector<TokenRequest>& requests, int64_t in_flight,
                             const std::string& salt, Clock& clock);

// Keys that say what was measured, and on what.
[[nodiscard]] nlohmann::ordered_json load_json(const std::string& benchmark, const BenchLoad& load);
[[nodiscard]] nlohmann::ordered_json figures_json(const LoadFigures& figures);
// "0.71 0.52 0.40" for the positions of a round; "none" without drafts.
[[nodiscard]] std::string acceptance_text(const LoadFigures& figures);

// Smallest value that at least `share` of them do not exceed; 0 of none.
[[nodiscard]] double percentile(std::vector<double> values, double share);
[[nodiscard]] double mean(const std::vector<double>& values);

}  // namespace di
