#include <algorithm>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/bench.h"
#include "apps/bench_load.h"
#include "apps/engine_setup.h"

namespace di {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kDefaultPromptsCount = 32;

void print_figures(const BenchLoad& load, const LoadFigures& figures) {
    const EngineStats& engine = figures.engine;
    const double steps = static_cast<double>(std::max<int64_t>(1, engine.steps));
    const auto requests = static_cast<double>(figures.requests);
    fmt::print("model    {} on {}, {} requests at once in steps of up to {} sequences, {:.0f} + {:.0f} tokens each (mean)\n",
               load.model, load.loaded->backend->name(), figures.requests, load.loaded->plan.limits.max_num_seqs,
               static_cast<double>(figures.prompt_tokens) / requests, static_cast<double>(figures.output_tokens) / requests);
    fmt::print("prompt   {:>10.1f} tokens/s, {} of {} tokens found in the cache\n",
               static_cast<double>(figures.prompt_tokens) / figures.wall_s, figures.cached_tokens, figures.prompt_tokens);
    fmt::print("output   {:>10.1f} tokens/s, {:.1f} for one user\n", figures.output_tokens_per_s(),
               figures.tokens_per_s_per_user());
    fmt::print("first    {:>10.1f} ms to the first token in the mean, {:.1f} ms p99\n", mean(figures.first_token_ms),
               percentile(figures.first_token_ms, 0.99));
    fmt::print("next     {:>10.2f} ms a token p50, {:.2f} ms p99; {:.2f} and {:.2f} ms between steps that give tokens\n",
               percentile(figures.inter_token_ms, 0.5), percentile(figures.inter_token_ms, 0.99),
               percentile(figures.inter_chunk_ms, 0.5), percentile(figures.inter_chunk_ms, 0.99));
    fmt::print("drafts   {:>10.2f} tokens a verified round ({} rounds), accepted by position: {}\n",
               figures.mean_accepted_length(), engine.draft_rounds, acceptance_text(figures));
    fmt::print("engine   {:>10} steps, {:.1f} us scheduler, {:.1f} us bubble and {:.2f} ms model a step, {} preemptions\n",
               engine.steps, engine.schedule_us_total / steps, engine.cpu_bubble_us_total / steps,
               engine.model_ms_total / steps, engine.preemptions);
}

Result<LoadFigures> measure(const BenchLoad& load, int64_t in_flight) {
    SystemClock clock;
    DI_TRY_STATUS(warm_up(*load.loaded->engine, load.requests, in_flight, "warm up", clock));
    return run_load(*load.loaded->engine, load.requests, in_flight, "throughput", clock);
}

}  // namespace

int bench_throughput(const Options& options) {
    const int64_t count = options.prompts_count.value_or(kDefaultPromptsCount);
    const Result<BenchLoad> load = open_bench_load(options, {.request_count = count, .sequences = 0});
    if (!load) {
        print_error(load.error());
        return exit_code_of(load.error());
    }
    const Result<LoadFigures> figures = measure(*load, count);
    if (!figures) {
        print_error(figures.error());
        return kExitRequestFailed;
    }
    if (options.json) {
        Json object = load_json("throughput", *load);
        object.update(figures_json(*figures));
        fmt::print("{}\n", object.dump(2, ' ', false, Json::error_handler_t::replace));
        return kExitOk;
    }
    print_figures(*load, *figures);
    return kExitOk;
}

}  // namespace di
