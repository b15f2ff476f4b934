// Planning and bookkeeping of a step with 256 running sequences: everything that the engine's thread does but the model. The
// model here answers at once; what is measured is EngineStats::schedule_us_total by steps.
#include <cstring>
#include <memory>

#include <benchmark/benchmark.h>

#include "backend/ref/ref_backend.h"
#include "base/check.h"
#include "engine/continuous_engine.h"

namespace {

using namespace di;

// Logits that make one token win; no cache is written.
class InstantModel : public Model {
  public:
    InstantModel() {
        geometry_.block_tokens = 128;
        geometry_.block_bytes = 8;
        geometry_.state_bytes = 64;
        geometry_.history_tokens = 3;
        geometry_.backtrack_tokens = 6;
    }
    [[nodiscard]] const CacheGeometry& geometry() const override { return geometry_; }
    [[nodiscard]] int64_t vocab_size() const override { return kVocab; }
    [[nodiscard]] int32_t logit_rows_max() const override { return 4096; }
    [[nodiscard]] int64_t workspace_bytes() const override { return 0; }
    Tensor forward(const Batch& batch) override {
        logits_.assign(batch.logit_rows.size() * kVocab, 0.0F);
        for (size_t i = 0; i < batch.logit_rows.size(); ++i) {
            logits_[i * kVocab + 5] = 9.0F;
        }
        return {logits_.data(), DType::kF32, {static_cast<int64_t>(batch.logit_rows.size()), kVocab}};
    }
    [[nodiscard]] int32_t draft_depth_max() const override { return 5; }
    void draft_begin(const DraftBatch& batch) override {
        const size_t count = batch.sequences.size();
        draft_logits_.assign(count * kVocab, 0.0F);
        for (size_t i = 0; i < count; ++i) {
            draft_logits_[i * kVocab + 5] = 9.0F;
        }
        confidences_.assign(count, 0.8F);
    }
    DraftStep draft_step(int32_t /*depth*/, std::span<const int32_t> ids) override {
        const auto count = static_cast<int64_t>(ids.size());
        return {.logits = {draft_logits_.data(), DType::kF32, {count, kVocab}},
                .confidence = {confidences_.data(), DType::kF32, {count}}};
    }
    [[nodiscard]] bool has_vision() const override { return false; }
    [[nodiscard]] int64_t embedding_size() const override { return 0; }
    [[nodiscard]] int64_t patch_values() const override { return 0; }
    void encode_image(const ImageInput& /*image*/, const Tensor& /*output*/) override {}
    [[nodiscard]] int64_t image_token_count(int64_t /*height*/, int64_t /*width*/) const override { return 0; }
    void set_probe(Probe /*probe*/) override {}

  private:
    static constexpr int64_t kVocab = 32;
    CacheGeometry geometry_;
    std::vector<float> logits_, draft_logits_, confidences_;
};

void schedule_step(benchmark::State& state) {
    const auto sequences = static_cast<int32_t>(state.range(0));
    InstantModel model;
    ref::RefBackend backend{BackendOptions{}};
    SystemClock clock;
    SystemRandom random;
    const EngineLimits limits{.max_model_len = 1 << 20,
                              .max_num_seqs = sequences,
                              .max_num_batched_tokens = 8192,
                              .kv_memory_bytes = int64_t{8} * 200000,
                              .snapshot_slots = 4096};
    auto engine = ContinuousEngine::create(
        model, backend, limits, {.asynchronous = false, .drafts = static_cast<int32_t>(state.range(1))}, {}, clock, random);
    DI_CHECK(engine.has_value(), "the benchmark's engine cannot be made");
    for (int32_t i = 0; i < sequences; ++i) {
        TokenRequest request;
        request.id = static_cast<uint64_t>(i) + 1;
        request.prompt_token_ids.assign(static_cast<size_t>(200 + i), i % 31);
        request.sampling.max_tokens = 1 << 19;
        request.sampling.ignore_eos = true;
        (*engine)->add_request(std::move(request));
    }
    for (int i = 0; i < 50; ++i) {
        benchmark::DoNotOptimize((*engine)->step());
    }
    const EngineStats before = (*engine)->stats();
    for (auto _ : state) {
        benchmark::DoNotOptimize((*engine)->step());
    }
    const EngineStats after = (*engine)->stats();
    const auto steps = static_cast<double>(after.steps - before.steps);
    state.counters["schedule_us"] = (after.schedule_us_total - before.schedule_us_total) / steps;
    state.counters["bubble_us"] = (after.cpu_bubble_us_total - before.cpu_bubble_us_total) / steps;
}
BENCHMARK(schedule_step)->Args({1, 0})->Args({32, 5})->Args({256, 0})->Args({256, 5})->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
