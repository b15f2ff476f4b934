// Microseconds of a draw for the kinds of rows that requests make, on one thread. The floor of a row is one read of its
// logits: vocabulary * 4 bytes.
//   sampler_bench [--benchmark_filter=greedy]
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/random.h"
#include "engine/sampler.h"

namespace {

// Rows of a language model have a few likely tokens far above a wide bell; a flat row is what random weights give.
enum class Shape { kPeaked, kFlat };

std::vector<float> make_logits(int64_t vocab, Shape shape) {
    di::SeededRandom random(1);
    std::vector<float> logits;
    for (int64_t i = 0; i < vocab; ++i) {
        double bell = -6.0;
        for (int32_t term = 0; term < 12; ++term) {
            bell += static_cast<double>(random.below(1 << 20)) * 0x1p-20;
        }
        const double likely = shape == Shape::kPeaked && i % 4001 == 17 ? 18.0 : 0.0;
        logits.push_back(static_cast<float>(shape == Shape::kFlat ? 0.1 * bell : 2.0 * bell + likely));
    }
    return logits;
}

struct Case {
    const char* name;
    Shape shape = Shape::kPeaked;
    double temperature = 1.0;
    double top_p = 1.0;
    int32_t top_k = -1;
    double min_p = 0.0;
    double repetition_penalty = 1.0;
    bool has_mask = false;
    int32_t top_logprobs = -1;  // -1: none are computed
};

constexpr Case kCases[] = {
    {.name = "greedy", .temperature = 0.0},
    {.name = "greedy_logprob", .temperature = 0.0, .top_logprobs = 0},
    {.name = "greedy_top20", .temperature = 0.0, .top_logprobs = 20},
    {.name = "greedy_mask", .temperature = 0.0, .has_mask = true},
    {.name = "draw"},
    {.name = "draw_flat", .shape = Shape::kFlat},
    {.name = "top_p_0.9", .top_p = 0.9},
    {.name = "top_p_0.9_t0.6", .temperature = 0.6, .top_p = 0.9},
    {.name = "top_p_0.9_flat", .shape = Shape::kFlat, .top_p = 0.9},
    {.name = "top_k_50", .top_k = 50},
    {.name = "top_p_top_k_min_p", .temperature = 0.7, .top_p = 0.95, .top_k = 50, .min_p = 0.02},
    {.name = "penalty_top_p_0.9", .top_p = 0.9, .repetition_penalty = 1.1},
};

void bench_draw(benchmark::State& state, const Case& which) {
    const int64_t vocab = state.range(0);
    const std::vector<float> logits = make_logits(vocab, which.shape);
    di::SamplingParams params;
    params.temperature = which.temperature;
    params.top_p = which.top_p;
    params.top_k = which.top_k;
    params.min_p = which.min_p;
    params.repetition_penalty = which.repetition_penalty;
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < 2000; ++i) {
        prompt.push_back(static_cast<int32_t>(i * 61 % vocab));
    }
    const di::TokenHistory history(params, prompt, vocab);
    const std::vector<uint32_t> mask(which.has_mask ? static_cast<size_t>((vocab + 31) / 32) : 0, 0x0F0F0F0FU);
    di::Sampler sampler(vocab);
    di::SampleRow row{.logits = logits, .params = &params, .seed = 7, .history = &history, .mask = mask};
    for (auto _ : state) {
        const int32_t id = sampler.draw(row).value();
        benchmark::DoNotOptimize(id);
        if (which.top_logprobs >= 0) {
            benchmark::DoNotOptimize(sampler.logprobs(row, id, which.top_logprobs));
        }
        ++row.index;
    }
    using benchmark::Counter;
    state.counters["GB/s"] = Counter(static_cast<double>(vocab) * 4e-9, Counter::kIsIterationInvariantRate);
}

}  // namespace

int main(int argc, char** argv) {
    for (const Case& which : kCases) {
        benchmark::RegisterBenchmark(which.name, [&which](benchmark::State& state) { bench_draw(state, which); })
            ->Arg(129280)
            ->Arg(4224)
            ->Unit(benchmark::kMicrosecond);
    }
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
