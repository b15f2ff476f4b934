#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"

// The definition of every operation: plain loops over one row at a time, sums in double, so that a value is the exact one
// rounded once. One thread. Fast backends are compared with it.
namespace di::ref {

class RefBackend : public Backend {
  public:
    explicit RefBackend(const BackendOptions& options) : options_(options) {}

    [[nodiscard]] std::string name() const override { return "ref"; }
    // Values that the contract rounds are rounded, and kept in f32.
    [[nodiscard]] DType activation_dtype() const override { return DType::kF32; }

    [[nodiscard]] void* allocate(int64_t bytes) override;
    void release(void* memory) override;
    [[nodiscard]] Tensor upload(const Tensor& host) override;
    void download(const Tensor& source, void* host) override;
    void synchronize() override {}

    void embed(const EmbedArgs& args) override;
    void gather_rows(const GatherRowsArgs& args) override;
    void copy_bytes(void* to, const void* from, int64_t bytes) override;
    void copy_rows(const CopyRowsArgs& args) override;
    void linear(const LinearArgs& args) override;
    void rms_norm(const RmsNormArgs& args) override;
    void hyper_mixes(const HyperMixesArgs& args) override;
    void hyper_collapse(const HyperCollapseArgs& args) override;
    void hyper_expand(const HyperExpandArgs& args) override;
    void stream_mean(const StreamMeanArgs& args) override;
    void rope(const RopeArgs& args) override;
    void store_rows(const StoreRowsArgs& args) override;
    void copy_cache_rows(const CopyCacheRowsArgs& args) override;
    void fake_quantise(const FakeQuantiseArgs& args) override;
    void sparse_attention(const SparseAttentionArgs& args) override;
    void causal_attention(const CausalAttentionArgs& args) override;
    void compress(const CompressArgs& args) override;
    void index_select(const IndexSelectArgs& args) override;
    void router(const RouterArgs& args) override;
    void moe(const MoeArgs& args) override;
    void engram_mix(const EngramMixArgs& args) override;
    void sigmoid(const SigmoidArgs& args) override;

    void add(const AddArgs& args) override;
    void vision_rope(const VisionRopeArgs& args) override;
    void full_attention(const FullAttentionArgs& args) override;
    void gated_silu(const GatedSiluArgs& args) override;
    void gelu(const GeluArgs& args) override;
    void unfold(const UnfoldArgs& args) override;

  protected:
    // A value marked "rounded" in the contract, as it is stored.
    [[nodiscard]] float stored(float value) const {
        return options_.activations == Activations::kBF16 ? round_bf16(value) : value;
    }

    BackendOptions options_;
};

[[nodiscard]] std::unique_ptr<Backend> create(const BackendOptions& options);

// Element `index` of a bf16 or f32 vector.
[[nodiscard]] float vector_element(const Tensor& vector, int64_t index);
// sum of x[i] * y[i], in double.
[[nodiscard]] double dot(std::span<const float> x, std::span<const float> y);

}  // namespace di::ref
