#include "server/service_metrics.h"

#include <vector>

#include "api/answer_json.h"
#include "server/routes.h"

namespace di {
namespace {

const std::vector<double> kSeconds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,  0.25,
                                   0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0, 300.0};
const std::vector<double> kTokens{1, 8, 32, 128, 512, 2048, 8192, 32768, 131072, 524288, 1048576};

std::vector<std::string> route_names() {
    std::vector<std::string> names;
    for (const Route& route : routes()) {
        names.emplace_back(route.path);
    }
    return names;
}

std::string_view end_name(const Generation& generation) {
    if (generation.is_cancelled) {
        return "abort";
    }
    if (generation.stream->error()) {
        return "error";
    }
    return finish_reason_text(generation.stream->end_of_first());
}

std::string_view endpoint_of(Dialect dialect) {
    switch (dialect) {
        case Dialect::kChat: return "/v1/chat/completions";
        case Dialect::kCompletions: return "/v1/completions";
        case Dialect::kResponses: return "/v1/responses";
        case Dialect::kMessages: return "/v1/messages";
    }
    return "other";
}

double seconds(int64_t microseconds) { return static_cast<double>(microseconds) * 1e-6; }

}  // namespace

ServiceMetrics::ServiceMetrics(TokenBackend& backend)
    : backend_(backend),
      requests_(metrics_.counter(
          {.name = "deepinfer_requests_total",
           .help = "answers that have ended",
           .labels = {{.name = "endpoint", .known = route_names()},
                      {.name = "finish", .known = {"stop", "length", "tool_calls", "content_filter", "abort", "error"}}}})),
      errors_(metrics_.counter(
          {.name = "deepinfer_errors_total",
           .help = "requests that were answered with an error",
           .labels = {{.name = "endpoint", .known = route_names()},
                      {.name = "code",
                       .known = {"400", "401", "403", "404", "405", "413", "415", "429", "500", "503", "504"}}}})),
      prompt_tokens_(
          metrics_.counter({.name = "deepinfer_prompt_tokens_total", .help = "tokens of prompts of ended answers"}).with()),
      cached_tokens_(
          metrics_.counter({.name = "deepinfer_cached_tokens_total", .help = "of them, found in the prefix cache"}).with()),
      generation_tokens_(metrics_.counter({.name = "deepinfer_generation_tokens_total", .help = "tokens drawn"}).with()),
      reasoning_tokens_(
          metrics_.counter({.name = "deepinfer_reasoning_tokens_total", .help = "of ended answers, tokens of reasoning"})
              .with()),
      aborted_(metrics_.counter({.name = "deepinfer_aborted_total", .help = "answers that were given up"}).with()),
      preemptions_(metrics_.counter({.name = "deepinfer_preemptions_total", .help = "sequences that lost their room"}).with()),
      drafted_(metrics_.counter({.name = "deepinfer_drafted_tokens_total", .help = "draft tokens verified"}).with()),
      accepted_(metrics_.counter({.name = "deepinfer_accepted_tokens_total", .help = "draft tokens accepted"}).with()),
      running_(metrics_.gauge({.name = "deepinfer_running", .help = "sequences that run"}).with()),
      waiting_(metrics_.gauge({.name = "deepinfer_waiting", .help = "requests that wait in the engine"}).with()),
      open_(metrics_.gauge({.name = "deepinfer_open_answers", .help = "answers that have not ended"}).with()),
      cache_use_(
          metrics_.gauge({.name = "deepinfer_cache_use_ratio", .help = "used share of cache blocks, cached prefixes included"})
              .with()),
      queue_time_(
          metrics_.histogram({.name = "deepinfer_queue_seconds", .help = "arrival to first computed row"}, kSeconds).with()),
      first_token_(
          metrics_.histogram({.name = "deepinfer_first_token_seconds", .help = "arrival to first token"}, kSeconds).with()),
      inter_token_(
          metrics_.histogram({.name = "deepinfer_inter_token_seconds", .help = "between tokens of one answer"}, kSeconds)
              .with()),
      end_to_end_(metrics_.histogram({.name = "deepinfer_answer_seconds", .help = "arrival to end"}, kSeconds).with()),
      prompt_length_(
          metrics_.histogram({.name = "deepinfer_prompt_length_tokens", .help = "tokens of a prompt"}, kTokens).with()),
      output_length_(
          metrics_.histogram({.name = "deepinfer_output_length_tokens", .help = "tokens of an answer"}, kTokens).with()) {}

void ServiceMetrics::count_tokens(int64_t count, int64_t gap_us, bool is_first) {
    generation_tokens_.add(static_cast<double>(count));
    if (is_first) {
        first_token_.observe(seconds(gap_us));
    } else {
        inter_token_.observe(seconds(gap_us) / static_cast<double>(count));
    }
}

void ServiceMetrics::count_end(const Generation& generation, int64_t now_us) {
    const AnswerUsage& usage = generation.stream->usage();
    requests_.with({endpoint_of(generation.stream->request().dialect), end_name(generation)}).add();
    if (generation.is_cancelled) {
        aborted_.add();
    }
    prompt_tokens_.add(static_cast<double>(usage.prompt_tokens));
    cached_tokens_.add(static_cast<double>(usage.cached_tokens));
    reasoning_tokens_.add(static_cast<double>(usage.reasoning_tokens));
    queue_time_.observe(generation.stream->timing().queue_ms * 1e-3);
    end_to_end_.observe(seconds(now_us - generation.began_us));
    prompt_length_.observe(static_cast<double>(usage.prompt_tokens));
    output_length_.observe(static_cast<double>(usage.completion_tokens));
}

void ServiceMetrics::count_error(const Exchange& exchange, ApiErrorKind kind) {
    const std::string status = std::to_string(http_status(kind, Dialect::kChat));
    errors_.with({exchange.route == nullptr ? std::string_view("other") : exchange.route->path, status}).add();
}

std::string ServiceMetrics::text(int64_t open) {
    take_engine_totals();
    open_.set(static_cast<double>(open));
    return metrics_.text();
}

// The engine counts by itself; what it has counted since the last time is added.
void ServiceMetrics::take_engine_totals() {
    EngineStats now = backend_.stats();
    preemptions_.add(static_cast<double>(now.preemptions - seen_.preemptions));
    drafted_.add(static_cast<double>(now.drafted_tokens - seen_.drafted_tokens));
    accepted_.add(static_cast<double>(now.accepted_tokens - seen_.accepted_tokens));
    running_.set(now.running);
    waiting_.set(now.waiting);
    const double total = now.blocks_total > 0 ? static_cast<double>(now.blocks_total) : 1.0;
    cache_use_.set(static_cast<double>(now.blocks_used) / total);
    seen_ = std::move(now);
}

}  // namespace di
