#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/limits.h"
#include "backend/cpu/moe_plan.h"
#include "backend/cpu/scratch.h"
#include "backend/ref/ref_backend.h"
#include "base/pool.h"

// The fast CPU backend: kernels of the machine's best instruction set on a team of threads. Weights are read in
// the file's formats where they lie. Operations that are rare or already bound by memory come from `ref`.
//
// Which thread computes what is decided while it runs; the bits of a result never depend on it: every work item
// computes its results alone, in the fixed order of kernels.h.
namespace di::cpu {

class CpuBackend : public ref::RefBackend {
  public:
    CpuBackend(const BackendOptions& options, const Kernels& kernels);

    [[nodiscard]] std::string name() const override;
    [[nodiscard]] const Kernels& kernels() const { return kernels_; }
    [[nodiscard]] int thread_count() const { return pool_.thread_count(); }

    void embed(const EmbedArgs& args) override;
    void gather_rows(const GatherRowsArgs& args) override;
    void linear(const LinearArgs& args) override;
    void rms_norm(const RmsNormArgs& args) override;
    void hyper_mixes(const HyperMixesArgs& args) override;
    void hyper_collapse(const HyperCollapseArgs& args) override;
    void hyper_expand(const HyperExpandArgs& args) override;
    void stream_mean(const StreamMeanArgs& args) override;
    void rope(const RopeArgs& args) override;
    void store_rows(const StoreRowsArgs& args) override;
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
    void full_attention(const FullAttentionArgs& args) override;
    void gated_silu(const GatedSiluArgs& args) override;
    void gelu(const GeluArgs& args) override;

  private:
    // Cosines and sines of one list of positions under one set of frequencies.
    struct RopeTable {
        std::vector<int32_t> positions;
        std::vector<float> frequencies;
        bool splits_halves = false;  // then one entry a pair, and as much room behind them
        std::vector<float> cosines;  // [positions, 2 * pairs]: each twice
        std::vector<float> sines;    // [positions, 2 * pairs]: -sin, sin
        std::vector<float> inverse_sines;
        uint64_t last_use = 0;
    };

    [[nodiscard]] bool rounds() const { return options_.activations == Activations::kBF16; }
    [[nodiscard]] ThreadScratch& scratch(int thread) { return threads_[static_cast<size_t>(thread)]; }

    // Calls body(item, thread) for every item in [0, count). `work` is about the number of multiply-adds of
    // all of them: a little of it stays on this thread. Each thread gets a contiguous stretch of items, as
    // neighbours read neighbouring weights; the pool deals stretches out, so that an absent thread delays nobody.
    template <typename Body>
    void for_items(int64_t count, int64_t work, Body&& body) {
        const auto loop = [&](int64_t begin, int64_t end, int thread) {
            for (int64_t item = begin; item < end; ++item) {
                body(item, thread);
            }
        };
        if (count <= 1 || work < kParallelWorkMin || pool_.thread_count() == 1) {
            loop(0, count, 0);
            return;
        }
        // A reference wrapper fits into std::function itself: no allocation.
        pool_.parallel_for(count, 1, std::cref(loop));
    }

    // Rows of `input` after Q8, dense, in `into`.
    const float* quantised_rows(const Tensor& input, Buffer& into);
    // inputs[r] . weight for outputs [0, weight.rows) in parallel; bf16 pairs where kernels and values allow.
    struct ProductArgs {
        const float* const* inputs;
        float* const* outputs;
        int64_t rows;
        const Weight& weight;
        int64_t groups = 1;
        const Tensor* bias = nullptr;
        bool accumulate = false;
        bool round = false;
    };
    void product(const ProductArgs& args);
    [[nodiscard]] int64_t output_block(int64_t outputs, int64_t rows, int64_t row_blocks) const;
    void product_items(const ProductArgs& args, const uint16_t* const* inputs_bf16);
    // One work item with the strip that it may need.
    void run_linear(LinearWork work, ThreadScratch& own);

    const RopeTable& rope_table(const Tensor& positions, const Tensor& frequencies, bool splits_halves);

    struct AttentionRowKeys {
        const float* const* keys;
        int64_t count;
    };
    AttentionRowKeys attention_keys(const SparseAttentionArgs& args, int64_t row, const float* local_rows, ThreadScratch& own);
    void attend_row(const SparseAttentionArgs& args, int64_t row, int64_t first_head, const float* local_rows,
                    ThreadScratch& own);

    // Query rows [first, end) of one sequence over the keys of one key head (cpu_causal.cpp).
    struct CausalItem {
        int64_t first = 0;
        int64_t end = 0;
        int64_t kv_head = 0;
    };
    void causal_item(const CausalAttentionArgs& args, const CausalItem& item, ThreadScratch& own);

    void index_scores(const IndexSelectArgs& args, int64_t row, int64_t first, int64_t last, float* scores, ThreadScratch& own);
    void index_choose(const IndexSelectArgs& args, int64_t row, const float* scores, ThreadScratch& own);

    void moe_rows(const MoeArgs& args);
    void moe_hidden_item(const MoeArgs& args, const ExpertGroup& group, int64_t first, ThreadScratch& own);

    const Kernels& kernels_;
    ThreadPool pool_;
    std::vector<ThreadScratch> threads_;
    Buffer inputs_;      // pointers to input rows
    Buffer outputs_;     // pointers to output rows
    Buffer quantised_;   // inputs after Q8
    Buffer narrow_;      // inputs as bf16
    Buffer local_rows_;  // window rows of the step, decoded
    Buffer index_scores_;
    Buffer hidden_;      // experts: what `down` reads
    Buffer expert_out_;  // experts: results of every (row, slot)
    MoePlan moe_plan_;
    std::vector<CausalItem> causal_items_;
    std::vector<RopeTable> rope_tables_;
    uint64_t rope_uses_ = 0;
};

// The backend of the best instruction set, or of DEEPINFER_CPU_ISA.
[[nodiscard]] Result<std::unique_ptr<Backend>> create(const BackendOptions& options, std::string_view isa = {});

// The weight as kernels read it.
[[nodiscard]] WeightRows weight_rows(const Weight& weight);
[[nodiscard]] CacheFormat cache_format(RowFormat format);

}  // namespace di::cpu
