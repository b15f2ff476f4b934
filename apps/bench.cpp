#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/bench.h"
#include "apps/commands.h"
#include "apps/engine_setup.h"
#include "apps/progress.h"
#include "apps/work_count.h"
#include "backend/cpu/limits_probe.h"
#include "base/pool.h"

namespace di {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kDefaultPromptTokens = 512;
constexpr int64_t kDefaultOutputTokens = 64;
constexpr int64_t kDefaultRepeat = 5;
// A run before those that count: maps the weights in and wakes the threads.
constexpr int64_t kWarmUpRuns = 1;
// More than this is memory, not cache, on every machine.
constexpr int64_t kProbeBytesMax = int64_t{1} << 30;

struct Speed {
    double tokens_per_s = 0.0;        // median of the runs
    double bandwidth_floor_ms = 0.0;  // per token, every byte from memory
    double cached_floor_ms = 0.0;     // the same from whichever cache holds as many bytes: for models that fit one
    double arithmetic_floor_ms = 0.0;
    WorkCount work;  // per token

    // What the machine could do at best.
    [[nodiscard]] double floor_tokens_per_s() const { return 1e3 / std::max(bandwidth_floor_ms, arithmetic_floor_ms); }
    [[nodiscard]] double cached_floor_tokens_per_s() const { return 1e3 / std::max(cached_floor_ms, arithmetic_floor_ms); }
};

struct Latency {
    std::string model;
    std::string backend;
    int64_t prompt_tokens = 0;
    int64_t output_tokens = 0;
    int64_t runs = 0;
    cpu::MachineLimits limits;
    double cached_gb_s = 0.0;  // reading as many bytes as a token touches, again and again: in caches if they hold them
    Speed prefill;
    Speed decode;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

// Any ids do for the speed; these spread over vocabulary and experts and are the same on every machine.
std::vector<int32_t> made_up_prompt(int64_t count, int64_t vocab_size, uint64_t run) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    uint64_t state = 0x9E3779B97F4A7C15ULL * (run + 1);
    for (int32_t& id : ids) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        id = static_cast<int32_t>((state >> 33U) % static_cast<uint64_t>(vocab_size));
    }
    return ids;
}

// The last record of one request that runs alone.
Result<StepOutput> run_alone(Engine& engine, TokenRequest request) {
    engine.add_request(std::move(request));
    while (engine.has_unfinished()) {
        for (StepOutput& output : engine.step()) {
            if (output.finish == FinishReason::kNone) {
                continue;
            }
            if (output.error) {
                return tl::unexpected<Error>(*output.error);
            }
            return std::move(output);
        }
    }
    return fail(ErrorCode::kInternal, "the engine dropped a request");
}

Status measure(const Options& options, LoadedEngine& loaded, Latency& latency) {
    std::vector<double> prefill;
    std::vector<double> decode;
    ProgressBar bar(latency.runs + kWarmUpRuns, "runs");
    for (int64_t run = 0; run < latency.runs + kWarmUpRuns; ++run) {
        TokenRequest request;
        request.id = static_cast<uint64_t>(run) + 1;
        request.prompt_token_ids = made_up_prompt(latency.prompt_tokens, loaded.config.vocab_size, static_cast<uint64_t>(run));
        request.sampling.temperature = options.temperature.value_or(0.0);
        request.sampling.ignore_eos = true;
        request.sampling.max_tokens = static_cast<int32_t>(latency.output_tokens + 1);
        request.sampling.seed = options.seed.value_or(0);
        DI_TRY(const StepOutput last, run_alone(*loaded.engine, std::move(request)));
        bar.advance();
        if (run < kWarmUpRuns) {
            continue;
        }
        const double decode_ms = last.timing.total_ms - last.timing.first_token_ms;
        prefill.push_back(static_cast<double>(latency.prompt_tokens) * 1e3 / last.timing.prefill_ms);
        decode.push_back(static_cast<double>(last.usage.completion_tokens - 1) * 1e3 / decode_ms);
    }
    latency.prefill.tokens_per_s = median(std::move(prefill));
    latency.decode.tokens_per_s = median(std::move(decode));
    return {};
}

// Time of the work on a machine that reads and computes at the same time and does nothing else.
void set_floor(const WorkCount& work, double tokens, const Latency& latency, Speed& speed) {
    speed.work = {.bytes = work.bytes / tokens, .flops = work.flops / tokens};
    speed.bandwidth_floor_ms = speed.work.bytes / (latency.limits.memory_gb_s * 1e6);
    speed.cached_floor_ms = speed.work.bytes / (latency.cached_gb_s * 1e6);
    speed.arithmetic_floor_ms = speed.work.flops / (latency.limits.gflop_s * 1e6);
}

Result<Latency> measure_latency(const Options& options) {
    DI_TRY(EngineOptions engine, engine_options(options));
    Latency latency;
    latency.model = engine.model_directory;
    latency.prompt_tokens = options.prompt_tokens.value_or(kDefaultPromptTokens);
    latency.output_tokens = options.output_tokens.value_or(kDefaultOutputTokens);
    latency.runs = options.repeat.value_or(kDefaultRepeat);
    if (engine.max_num_seqs == 0) {
        engine.max_num_seqs = 1;
    }
    DI_TRY(const std::unique_ptr<LoadedEngine> loaded, load_engine(engine, token_classes_of(engine)));
    latency.backend = loaded->backend->name();
    const int threads = engine.threads > 0 ? engine.threads : usable_cpu_count();
    latency.limits = cpu::measure_limits(threads);
    const int64_t context = latency.prompt_tokens + latency.output_tokens / 2;
    const WorkCount decode = decode_work(loaded->config, loaded->model->geometry(), context);
    latency.cached_gb_s = cpu::measure_read_gb_s(threads, std::min(static_cast<int64_t>(decode.bytes), kProbeBytesMax));
    set_floor(decode, 1.0, latency, latency.decode);
    set_floor(prefill_work(loaded->config, latency.prompt_tokens, loaded->plan.limits.max_num_batched_tokens),
              static_cast<double>(latency.prompt_tokens), latency, latency.prefill);
    DI_TRY_STATUS(measure(options, *loaded, latency));
    return latency;
}

Json limits_json(const cpu::MachineLimits& limits) {
    return {{"isa", limits.isa},
            {"threads", limits.threads},
            {"memory_gb_s", limits.memory_gb_s},
            {"cache_gb_s", limits.cache_gb_s},
            {"gflop_s", limits.gflop_s}};
}

Json speed_json(const Speed& speed) {
    return {{"tokens_per_s", speed.tokens_per_s},
            {"floor_tokens_per_s", speed.floor_tokens_per_s()},
            {"share_of_floor", speed.tokens_per_s / speed.floor_tokens_per_s()},
            {"cached_floor_tokens_per_s", speed.cached_floor_tokens_per_s()},
            {"share_of_cached_floor", speed.tokens_per_s / speed.cached_floor_tokens_per_s()},
            {"bytes_per_token", speed.work.bytes},
            {"flops_per_token", speed.work.flops},
            {"bandwidth_floor_ms_per_token", speed.bandwidth_floor_ms},
            {"cached_floor_ms_per_token", speed.cached_floor_ms},
            {"arithmetic_floor_ms_per_token", speed.arithmetic_floor_ms}};
}

void print_speed(std::string_view name, const Speed& speed) {
    fmt::print(
        "{:<8} {:>10.1f} tokens/s; floor {:.1f} ({:.3f} ms memory, {:.3f} ms arithmetic a token), {:.0f} % of it; {:.0f} % of "
        "the {:.1f} "
        "of a cache that holds all it reads\n",
        name, speed.tokens_per_s, speed.floor_tokens_per_s(), speed.bandwidth_floor_ms, speed.arithmetic_floor_ms,
        speed.tokens_per_s / speed.floor_tokens_per_s() * 100.0, speed.tokens_per_s / speed.cached_floor_tokens_per_s() * 100.0,
        speed.cached_floor_tokens_per_s());
}

void print_limits(const cpu::MachineLimits& limits) {
    fmt::print("limits   {} with {} threads: memory {:.1f} GB/s, cache {:.1f} GB/s, {:.1f} GFLOP/s\n", limits.isa,
               limits.threads, limits.memory_gb_s, limits.cache_gb_s, limits.gflop_s);
}

int bench_latency(const Options& options) {
    const Result<Latency> latency = measure_latency(options);
    if (!latency) {
        print_error(latency.error());
        return exit_code_of(latency.error());
    }
    if (options.json) {
        const Json object = {{"benchmark", "latency"},
                             {"model", latency->model},
                             {"backend", latency->backend},
                             {"prompt_tokens", latency->prompt_tokens},
                             {"output_tokens", latency->output_tokens},
                             {"runs", latency->runs},
                             {"limits", limits_json(latency->limits)},
                             {"cached_gb_s", latency->cached_gb_s},
                             {"prefill", speed_json(latency->prefill)},
                             {"decode", speed_json(latency->decode)}};
        fmt::print("{}\n", object.dump(2, ' ', false, Json::error_handler_t::replace));
        return kExitOk;
    }
    fmt::print("model    {} on {}, prompt {} tokens, output {} tokens, median of {} runs\n", latency->model, latency->backend,
               latency->prompt_tokens, latency->output_tokens, latency->runs);
    print_limits(latency->limits);
    print_speed("prefill", latency->prefill);
    print_speed("decode", latency->decode);
    return kExitOk;
}

int bench_limits(const Options& options) {
    const cpu::MachineLimits limits = cpu::measure_limits(static_cast<int>(options.threads.value_or(usable_cpu_count())));
    if (options.json) {
        Json object = {{"benchmark", "limits"}};
        object.update(limits_json(limits));
        fmt::print("{}\n", object.dump(2, ' ', false, Json::error_handler_t::replace));
        return kExitOk;
    }
    print_limits(limits);
    return kExitOk;
}

struct Benchmark {
    std::string_view name;
    int (*run)(const Options& options);
};

// Flags that only some benchmarks know: none is ignored in silence.
Status check_flags(const Options& options) {
    struct Flag {
        std::string_view name;
        bool is_given = false;
        std::string_view benchmarks;
    };
    const Flag flags[] = {
        {"--prompt-tokens", options.prompt_tokens.has_value(), "latency"},
        {"--output-tokens", options.output_tokens.has_value(), "latency"},
        {"--repeat", options.repeat.has_value(), "latency"},
        {"--prompts", options.prompts.has_value(), "throughput or sweep"},
        {"--prompts-count", options.prompts_count.has_value(), "throughput or sweep"},
        {"--input-len", options.input_len.has_value(), "throughput or sweep"},
        {"--output-len", options.output_len.has_value(), "throughput or sweep"},
        {"--length-spread", options.length_spread.has_value(), "throughput or sweep"},
        {"--concurrency", options.concurrency.has_value(), "sweep"},
    };
    for (const Flag& flag : flags) {
        if (flag.is_given && flag.benchmarks.find(options.subject) == std::string_view::npos) {
            return fail(ErrorCode::kInvalidArgument, "{} with bench {}, expected bench {}", flag.name, options.subject,
                        flag.benchmarks);
        }
    }
    if (options.plot) {
        return fail(
            ErrorCode::kInvalidArgument,
            "--plot {}: this program draws no pictures, expected examples/sweep/plot.py with the output of bench sweep --json",
            *options.plot);
    }
    return {};
}

}  // namespace

int bench_command(const Options& options) {
    const Result<EngineOptions> flags = engine_flags(options);
    if (!flags) {
        print_error(flags.error());
        return kExitUsage;
    }
    static constexpr Benchmark kBenchmarks[] = {
        {"latency", bench_latency}, {"throughput", bench_throughput}, {"sweep", bench_sweep}, {"limits", bench_limits}};
    const auto* const found = std::find_if(std::begin(kBenchmarks), std::end(kBenchmarks),
                                           [&](const Benchmark& benchmark) { return benchmark.name == options.subject; });
    if (found == std::end(kBenchmarks)) {
        static constexpr std::string_view kLater[] = {"serve", "kernels", "rank"};
        const bool is_later = std::find(std::begin(kLater), std::end(kLater), options.subject) != std::end(kLater);
        print_error(fmt::format("{} \"{}\", expected latency, throughput, sweep or limits",
                                is_later ? "not in this version: bench" : "unknown benchmark", options.subject));
        return kExitUsage;
    }
    if (const Status status = check_flags(options); !status) {
        print_error(status.error());
        return kExitUsage;
    }
    return found->run(options);
}

}  // namespace di
