// Speed of the CPU backend's operations, with the machine's limits in front. Bytes are those of the weights (or cache
// rows) as they lie in memory, so GB/s compares with the read bandwidth; GFLOP/s with the multiply-add rate.
//   kernels_bench [--benchmark_filter=linear] ; DEEPINFER_CPU_ISA and DEEPINFER_BENCH_THREADS choose set and threads
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/limits_probe.h"
#include "base/pool.h"

namespace {

using di::DType;
using di::RowFormat;
using di::ScaleLayout;
using di::Tensor;

int thread_count() {
    const char* text = std::getenv("DEEPINFER_BENCH_THREADS");
    return text != nullptr ? std::max(1, std::atoi(text)) : di::usable_cpu_count();
}

di::Backend& backend() {
    static const std::unique_ptr<di::Backend> instance = [] {
        auto made = di::cpu::create({.threads = thread_count()});
        if (!made) {
            fmt::print(stderr, "{}\n", made.error().text);
            std::exit(2);
        }
        return std::move(*made);
    }();
    return *instance;
}

struct BenchWeight {
    std::vector<uint8_t> data;
    std::vector<uint8_t> scale;
    di::Weight weight;

    BenchWeight(DType dtype, int64_t rows, int64_t cols) {
        weight = {.dtype = dtype, .rows = rows, .cols = cols};
        weight.scale_layout = dtype == DType::kF8E4M3   ? ScaleLayout::kBlock32x32
                              : dtype == DType::kF4E2M1 ? ScaleLayout::kRow32
                                                        : ScaleLayout::kNone;
        // 0x3c3c... is a small number in every format.
        data.assign(static_cast<size_t>(weight.data_bytes()), 0x3c);
        scale.assign(static_cast<size_t>(weight.scale_bytes()), 120);
        weight.data = data.data();
        weight.scale = scale.empty() ? nullptr : scale.data();
    }
};

Tensor floats(std::vector<float>& values, std::initializer_list<int64_t> dims) { return {values.data(), DType::kF32, dims}; }

void set_rates(benchmark::State& state, double bytes, double operations) {
    using benchmark::Counter;
    state.counters["GB/s"] = Counter(bytes * 1e-9, Counter::kIsIterationInvariantRate);
    state.counters["GFLOP/s"] = Counter(operations * 1e-9, Counter::kIsIterationInvariantRate);
}

// Enough copies of the weight that they are not all in a small cache, as in a model.
void bench_linear(benchmark::State& state, DType dtype) {
    const int64_t rows = state.range(0);
    const int64_t k = state.range(1);
    const int64_t n = state.range(2);
    std::vector<std::unique_ptr<BenchWeight>> copies;
    int64_t bytes = 0;
    do {
        copies.push_back(std::make_unique<BenchWeight>(dtype, n, k));
        bytes += copies.back()->weight.data_bytes();
    } while (bytes < (4 << 20));
    std::vector<float> x(static_cast<size_t>(rows * k), 0.5F);
    std::vector<float> y(static_cast<size_t>(rows * n));
    size_t next = 0;
    for (auto _ : state) {
        backend().linear(
            {.input = floats(x, {rows, k}), .weight = copies[next]->weight, .bias = {}, .output = floats(y, {rows, n})});
        next = (next + 1) % copies.size();
    }
    const auto size = static_cast<double>(copies[0]->weight.data_bytes() + copies[0]->weight.scale_bytes());
    set_rates(state, size, 2.0 * static_cast<double>(rows * k * n));
}

void bench_moe(benchmark::State& state) {
    const int64_t rows = state.range(0);
    const int64_t dim = state.range(1);
    const int64_t width = state.range(2);
    constexpr int64_t kExperts = 8;
    constexpr int64_t kTopk = 2;
    std::vector<std::unique_ptr<BenchWeight>> owned;
    const auto make = [&](DType dtype) {
        di::ExpertWeights expert;
        owned.push_back(std::make_unique<BenchWeight>(dtype, width, dim));
        expert.gate = owned.back()->weight;
        owned.push_back(std::make_unique<BenchWeight>(dtype, width, dim));
        expert.up = owned.back()->weight;
        owned.push_back(std::make_unique<BenchWeight>(dtype, dim, width));
        expert.down = owned.back()->weight;
        return expert;
    };
    std::vector<di::ExpertWeights> routed;
    for (int64_t i = 0; i < kExperts; ++i) {
        routed.push_back(make(DType::kF4E2M1));
    }
    const di::ExpertWeights shared = make(DType::kF8E4M3);
    std::vector<float> x(static_cast<size_t>(rows * dim), 0.5F);
    std::vector<float> y(x.size());
    std::vector<float> weights(static_cast<size_t>(rows * kTopk), 0.5F);
    std::vector<int32_t> experts(weights.size());
    for (size_t i = 0; i < experts.size(); ++i) {
        experts[i] = static_cast<int32_t>((i * 5 + i / 2) % kExperts);
    }
    for (auto _ : state) {
        backend().moe({.input = floats(x, {rows, dim}),
                       .experts = {experts.data(), DType::kI32, {rows, kTopk}},
                       .weights = floats(weights, {rows, kTopk}),
                       .routed = routed,
                       .shared = shared,
                       .output = floats(y, {rows, dim}),
                       .limit = 10.0F});
    }
    const auto used = static_cast<double>(std::min(rows * kTopk, kExperts));
    const double matrix = static_cast<double>(dim * width);
    set_rates(state, 3.0 * matrix * (used * 0.53 + 1.0), 6.0 * matrix * static_cast<double>(rows * (kTopk + 1)));
}

// One decode row, or a prefill of rows of one sequence: a window of 64 and 64 selected rows each.
void bench_attention(benchmark::State& state) {
    const int64_t rows = state.range(0);
    const int64_t heads = state.range(1);
    const int64_t dim = state.range(2);
    constexpr int64_t kWindow = 64;
    constexpr int64_t kSelected = 64;
    const auto cache = [&](RowFormat format, int64_t count, std::vector<uint8_t>& memory) {
        di::CacheView view;
        view.format = format;
        view.dim = dim;
        view.rows_per_block = count;
        view.data_stride = di::row_data_bytes(format, dim);
        view.scale_offset = view.data_stride * count;
        view.scale_stride = di::row_scale_bytes(format, dim);
        view.block_bytes = view.scale_offset + view.scale_stride * count;
        memory.assign(static_cast<size_t>(view.block_bytes), 0x38);
        view.base = memory.data();
        return view;
    };
    std::vector<uint8_t> local_memory;
    std::vector<uint8_t> ring_memory;
    std::vector<uint8_t> compressed_memory;
    std::vector<float> query(static_cast<size_t>(rows * heads * dim), 0.1F);
    std::vector<float> output(query.size());
    std::vector<float> sink(static_cast<size_t>(heads), 0.0F);
    std::vector<int32_t> zeros(static_cast<size_t>(rows), 0);
    std::vector<int32_t> first;
    std::vector<int32_t> last;
    std::vector<int32_t> selected;
    for (int32_t row = 0; row < rows; ++row) {
        last.push_back(1000 + row);
        first.push_back(last.back() - static_cast<int32_t>(kWindow) + 1);
        for (int32_t i = 0; i < kSelected; ++i) {
            selected.push_back(i * 4);
        }
    }
    std::vector<int32_t> start{1000};
    const auto ints = [](std::vector<int32_t>& values, std::initializer_list<int64_t> dims) {
        return Tensor(values.data(), DType::kI32, dims);
    };
    const di::SparseAttentionArgs args{.query = floats(query, {rows, heads, dim}),
                                       .local = cache(RowFormat::kFp8, rows, local_memory),
                                       .ring = cache(RowFormat::kFp8, kWindow + 6, ring_memory),
                                       .sequence = ints(zeros, {rows}),
                                       .window_first = ints(first, {rows}),
                                       .window_last = ints(last, {rows}),
                                       .state_slots = ints(zeros, {1}),
                                       .local_position = ints(start, {1}),
                                       .local_row = ints(zeros, {1}),
                                       .compressed = cache(RowFormat::kNvfp4, 4 * kSelected, compressed_memory),
                                       .block_tables = ints(zeros, {1, 1}),
                                       .selected = ints(selected, {rows, kSelected}),
                                       .sink = floats(sink, {heads}),
                                       .output = floats(output, {rows, heads, dim}),
                                       .scale = 0.1F};
    for (auto _ : state) {
        backend().sparse_attention(args);
    }
    const auto keys = static_cast<double>(rows * (kWindow + kSelected));
    set_rates(state, keys * static_cast<double>(dim) * 0.8, 4.0 * keys * static_cast<double>(heads * dim));
}

void linear_shapes(benchmark::internal::Benchmark* bench) {
    for (const int64_t rows : {1, 2, 4, 8, 64}) {
        bench->Args({rows, 256, 512});
        bench->Args({rows, 2048, 2048});
    }
}

BENCHMARK_CAPTURE(bench_linear, f32, DType::kF32)->Apply(linear_shapes)->UseRealTime();
BENCHMARK_CAPTURE(bench_linear, bf16, DType::kBF16)->Apply(linear_shapes)->UseRealTime();
BENCHMARK_CAPTURE(bench_linear, fp8, DType::kF8E4M3)->Apply(linear_shapes)->UseRealTime();
BENCHMARK_CAPTURE(bench_linear, fp4, DType::kF4E2M1)->Apply(linear_shapes)->UseRealTime();
BENCHMARK(bench_moe)->Args({1, 256, 128})->Args({64, 256, 128})->Args({1, 1024, 512})->Args({64, 1024, 512})->UseRealTime();
BENCHMARK(bench_attention)->Args({1, 8, 64})->Args({64, 8, 64})->Args({1, 64, 512})->Args({16, 64, 512})->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    const di::cpu::MachineLimits limits = di::cpu::measure_limits(thread_count());
    fmt::print("{} threads, {}: memory {:.1f} GB/s, cache {:.1f} GB/s, {:.1f} GFLOP/s\n", limits.threads, limits.isa,
               limits.memory_gb_s, limits.cache_gb_s, limits.gflop_s);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
