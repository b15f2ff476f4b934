#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/quant.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

// The contract between what is computed (model/) and how (ref/, cpu/, cuda/). Fused operations at
// the level of the model's steps; each takes one struct of views. `ref` is the definition; the others agree with it
// within the tolerances of contract_test.cpp.
//
// Row invariance: the bits of a row's result depend only on that row's inputs and its own context, never on
// the number or content of other rows, the thread count, or where a chunk was cut.
//
// Activations live in tensors of dtype activation_dtype(). With Activations::kBF16 every value marked "rounded"
// below is rounded to bf16 when stored; with kF32 nothing is rounded. Values marked f32 are never rounded.
namespace di {

enum class Activations : uint8_t { kF32, kBF16 };

struct BackendOptions {
    int threads = 1;
    Activations activations = Activations::kF32;
};

// --- arguments -------------------------------------------------------------

struct EmbedArgs {
    Tensor ids;      // [rows] i32, all in [0, table.rows)
    Weight table;    // [vocab, d] any format
    Tensor streams;  // out [rows, s, d]: s copies of the row
};

struct GatherRowsArgs {
    Weight table;   // [n, d] any format
    Tensor ids;     // [rows, k] i64 row numbers in [0, n)
    Tensor output;  // [rows, k * d] rounded
};

struct CopyRowsArgs {
    Tensor source;       // [n, d]
    Tensor source_rows;  // [rows] i32; empty = 0, 1, 2, ...
    Tensor target;       // [m, d]
    Tensor target_rows;  // [rows] i32; empty = 0, 1, 2, ...
};

struct LinearArgs {
    Tensor input;   // [rows, groups * k]
    Weight weight;  // [groups * n, k]; group g of the input meets rows [g n, (g + 1) n)
    Tensor bias;    // [n] bf16 or f32, or empty
    Tensor output;  // [rows, groups * n]
    int64_t groups = 1;
    bool quantise_input = false;  // Q8 along k (per 32) before the product
    bool round_output = true;     // false: f32 result
    bool accumulate = false;      // output += (f32 only)
};

struct RmsNormArgs {
    Tensor input;   // [rows, d]
    Tensor weight;  // [d] bf16 or f32
    Tensor output;  // [rows, d] rounded once, after the weight; may be the input
    float epsilon;
};

struct HyperMixesArgs {
    Tensor streams;  // [rows, s, d]
    Tensor fn;       // [s * s + 2 s, s * d] f32: rows pre, post, comb [i][j]
    Tensor base;     // [s * s + 2 s] f32
    Tensor scale;    // [3] f32: pre, post, comb
    Tensor pre;      // out [rows, s] f32
    Tensor post;     // out [rows, s] f32
    Tensor comb;     // out [rows, s, s] f32, from stream i to stream j
    int iterations;
    float hc_epsilon;
    float norm_epsilon;
};

struct HyperCollapseArgs {
    Tensor streams;    // [rows, s, d]
    Tensor pre;        // [rows, s] f32
    Tensor collapsed;  // out [rows, d] rounded: sum over s, ascending
};

struct HyperExpandArgs {
    Tensor streams;  // in and out [rows, s, d] rounded
    Tensor output;   // [rows, d] of the sub-block
    Tensor post;     // [rows, s] f32
    Tensor comb;     // [rows, s, s] f32
};

struct StreamMeanArgs {
    Tensor streams;  // [rows, s, d]
    Tensor output;   // [rows, d] rounded; often a column range of a wider tensor
};

struct RopeArgs {
    Tensor x;            // in and out [rows, heads, dim] rounded; the last `rotary` values of each head turn
    Tensor positions;    // [rows] i32
    Tensor frequencies;  // [rotary / 2] f32; angle = f32(position) * f32(frequency)
    bool inverse = false;
    bool splits_halves = false;  // pair i is (i, i + rotary / 2) of the values that turn; else (2 i, 2 i + 1)
};

// Where rows of one cache part stand: element (block, row) has its data at
// base + block * block_bytes + data_offset + row * data_stride, its scales likewise.
struct CacheView {
    uint8_t* base = nullptr;
    int64_t block_bytes = 0;
    int64_t data_offset = 0;
    int64_t data_stride = 0;
    int64_t scale_offset = 0;
    int64_t scale_stride = 0;
    int64_t rows_per_block = 0;
    int64_t dim = 0;
    RowFormat format = RowFormat::kF32;

    [[nodiscard]] uint8_t* data(int64_t block, int64_t row) const {
        return base + block * block_bytes + data_offset + row * data_stride;
    }
    [[nodiscard]] uint8_t* scale(int64_t block, int64_t row) const {
        return base + block * block_bytes + scale_offset + row * scale_stride;
    }
};

struct StoreRowsArgs {
    Tensor input;     // [n, dim]
    CacheView cache;  // quantised rows go here
    Tensor blocks;    // [n] i32: block of each row; -1 = do not store
    Tensor rows;      // [n] i32: row inside the block
};

struct CopyCacheRowsArgs {
    CacheView source;
    Tensor source_blocks;  // [n] i32
    Tensor source_rows;    // [n] i32
    CacheView target;      // same format and dim
    Tensor target_blocks;  // [n] i32; -1 = skip
    Tensor target_rows;    // [n] i32
};

struct FakeQuantiseArgs {
    Tensor x;  // in and out [rows, heads, dim]
    RowFormat format;
};

// Keys of one attention row: window positions [window_first, window_last], those before the
// step from the ring (slot = position mod ring rows), the others from this step's own rows, then the selected compressed rows
// in ascending order.
struct SparseAttentionArgs {
    Tensor query;           // [rows, heads, dim]
    CacheView local;        // window rows of this step: block 0, one row per row of the step
    CacheView ring;         // block = state slot, rows_per_block = ring length
    Tensor sequence;        // [rows] i32: sequence of the row
    Tensor window_first;    // [rows] i32, position; window_first > window_last = no window keys
    Tensor window_last;     // [rows] i32, position, inclusive
    Tensor state_slots;     // [sequences] i32
    Tensor local_position;  // [sequences] i32: position of the sequence's first local row
    Tensor local_row;       // [sequences] i32: its row number in `local`
    CacheView compressed;   // base == nullptr: window only
    Tensor block_tables;    // [sequences, blocks] i32
    Tensor selected;        // [rows, topk] i32: compressed rows ascending, then -1
    Tensor sink;            // [heads] f32: logit without value
    Tensor output;          // [rows, heads, dim] rounded
    float scale;
};

// Dense causal attention, heads in groups: head h reads key and value head h / (heads / kv heads). A row at position p sees keys
// 0 .. p of its sequence, ascending; those of this step are stored before. Probabilities are not rounded.
struct CausalAttentionArgs {
    Tensor query;         // [rows, heads, dim]; rows of a sequence stand together
    CacheView key;        // one row a token: [kv heads * dim]
    CacheView value;      // the same shape
    Tensor sequence;      // [rows] i32
    Tensor positions;     // [rows] i32
    Tensor block_tables;  // [sequences, blocks] i32
    Tensor output;        // [rows, heads, dim] rounded
    float scale;
};

struct CompressArgs {
    Tensor value_score;     // [rows, 2, dim] f32: v then s of this step's tokens
    CacheView partial;      // block = state slot, one ring row = [2 * dim] f32 of an earlier token
    Tensor group_sequence;  // [groups] i32
    Tensor group_position;  // [groups] i32: position of the group's first token
    Tensor state_slots;     // [sequences] i32
    Tensor local_position;  // [sequences] i32
    Tensor local_row;       // [sequences] i32
    Tensor output;          // [groups, dim] rounded: sum over tokens of softmax(s) v, per channel
    int64_t ratio;
};

struct IndexSelectArgs {
    Tensor query;    // [rows, heads, dim], quantised values
    Tensor weights;  // [rows, heads]
    CacheView keys;
    Tensor block_tables;      // [sequences, blocks] i32
    Tensor sequence;          // [rows] i32
    Tensor visible;           // [rows] i32: keys 0 .. visible - 1 count
    Tensor candidates;        // [rows, candidate blocks] i32 ascending then -1, or empty: all keys
    Tensor selected;          // out [rows, topk] i32 ascending then -1; ties take the lower row
    Tensor candidates_out;    // out [rows, candidate blocks] i32 ascending then -1, or empty
    Tensor scores_out;        // out [rows, keys] f32 for inspection (-inf where not visible or no candidate), or empty
    int64_t candidate_block;  // rows in a candidate block
    float scale;
};

enum class RouterScore : uint8_t { kSqrtSoftplus, kSoftmax };

struct RouterArgs {
    Tensor input;       // [rows, d]
    Weight weight;      // [experts, d]
    Tensor bias;        // [experts] f32, for the choice only; empty: none
    Tensor bias_image;  // [experts] f32
    Tensor is_image;    // [rows] u8, or empty
    Tensor experts;     // out [rows, topk] i32, by falling corrected score, ties take the lower id
    Tensor weights;     // out [rows, topk] f32
    float scaling;
    RouterScore score = RouterScore::kSqrtSoftplus;  // of an expert's logit; the softmax is over all experts
    bool normalises = true;                          // weights of a row sum to `scaling`
};

struct ExpertWeights {
    Weight gate;  // w1 [f, d]
    Weight up;    // w3 [f, d]
    Weight down;  // w2 [d, f]
};

struct MoeArgs {
    Tensor input;    // [rows, d]
    Tensor experts;  // [rows, topk] i32
    Tensor weights;  // [rows, topk] f32, applied before `down`
    std::span<const ExpertWeights> routed;
    ExpertWeights shared;         // weight 1; empty: none
    Tensor output;                // [rows, d] rounded: routed in slot order, then shared
    float limit;                  // gate clamped above, up on both sides; infinity: not at all
    bool quantise_input = false;  // Q8 of the inputs of all three products
};

struct EngramMixArgs {
    Tensor streams;    // in and out [rows, s, d] rounded
    Tensor key_value;  // [rows, (s + 1) * d]: s keys, then the value
    Tensor q_weight;   // [s, d] bf16
    Tensor k_weight;   // [s, d] bf16
    Tensor is_image;   // [rows] u8, or empty: rows that pass through unchanged
    float epsilon;
};

struct SigmoidArgs {
    Tensor x;                  // in and out, f32, any shape
    float limit;               // the argument is clamped to +-limit first
    float temperature = 1.0F;  // before that it is divided by this; > 0
};

// --- vision tower ----------------------------------------------------------------

struct AddArgs {
    Tensor x;  // in and out [rows, d] rounded
    Tensor y;  // [rows, d]
};

struct VisionRopeArgs {
    Tensor x;            // in and out [n, heads, dim] rounded; a column range of qkv
    int64_t grid_width;  // row i of x stands at (i / grid_width, i mod grid_width)
    float theta;         // split-half rotation: the first dim/4 angles by the row, the next by the column
};

struct FullAttentionArgs {
    Tensor query, key, value;  // [n, heads, dim]
    Tensor output;             // [n, heads, dim] rounded
    float scale;
};

struct GatedSiluArgs {
    Tensor gate_up;  // [rows, 2 f]: gate then up
    Tensor output;   // [rows, f] rounded: silu(gate) * up
};

struct GeluArgs {
    Tensor x;  // in and out [rows, d] rounded, exact (erf)
};

struct UnfoldArgs {
    Tensor input;   // [height * width, d]
    Tensor output;  // [ceil(height / cell) * ceil(width / cell), d * cell * cell], zero padded right and below
    int64_t height;
    int64_t width;
    int64_t cell;  // feature of channel c at (y, x) in the cell: c * cell^2 + y * cell + x
};

// --- the interface -------------------------------------------------------------------

class Backend {
  public:
    virtual ~Backend() = default;

    // "ref", "cpu/avx2", ...
    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] virtual DType activation_dtype() const = 0;

    // Memory of the device, 64-byte aligned, zeroed. Null when there is none left.
    [[nodiscard]] virtual void* allocate(int64_t bytes) = 0;
    virtual void release(void* memory) = 0;
    // A device copy of a dense host tensor, good until the next synchronize(); the host's memory must last as long.
    [[nodiscard]] virtual Tensor upload(const Tensor& host) = 0;
    // Copies a dense device tensor into host memory (after what was issued before).
    virtual void download(const Tensor& source, void* host) = 0;
    virtual void synchronize() = 0;
    // Copies device memory; the two stretches do not overlap.
    virtual void copy_bytes(void* to, const void* from, int64_t bytes) = 0;

    virtual void embed(const EmbedArgs& args) = 0;
    virtual void gather_rows(const GatherRowsArgs& args) = 0;
    virtual void copy_rows(const CopyRowsArgs& args) = 0;
    virtual void linear(const LinearArgs& args) = 0;
    virtual void rms_norm(const RmsNormArgs& args) = 0;
    virtual void hyper_mixes(const HyperMixesArgs& args) = 0;
    virtual void hyper_collapse(const HyperCollapseArgs& args) = 0;
    virtual void hyper_expand(const HyperExpandArgs& args) = 0;
    virtual void stream_mean(const StreamMeanArgs& args) = 0;
    virtual void rope(const RopeArgs& args) = 0;
    virtual void store_rows(const StoreRowsArgs& args) = 0;
    virtual void copy_cache_rows(const CopyCacheRowsArgs& args) = 0;
    virtual void fake_quantise(const FakeQuantiseArgs& args) = 0;
    virtual void sparse_attention(const SparseAttentionArgs& args) = 0;
    virtual void causal_attention(const CausalAttentionArgs& args) = 0;
    virtual void compress(const CompressArgs& args) = 0;
    virtual void index_select(const IndexSelectArgs& args) = 0;
    virtual void router(const RouterArgs& args) = 0;
    virtual void moe(const MoeArgs& args) = 0;
    virtual void engram_mix(const EngramMixArgs& args) = 0;
    virtual void sigmoid(const SigmoidArgs& args) = 0;

    virtual void add(const AddArgs& args) = 0;
    virtual void vision_rope(const VisionRopeArgs& args) = 0;
    virtual void full_attention(const FullAttentionArgs& args) = 0;
    virtual void gated_silu(const GatedSiluArgs& args) = 0;
    virtual void gelu(const GeluArgs& args) = 0;
    virtual void unfold(const UnfoldArgs& args) = 0;
};

// Backends by name: "ref", "cpu", "auto" (the fastest of this machine). The table is backends.cpp.
[[nodiscard]] Result<std::unique_ptr<Backend>> create_backend(std::string_view name, const BackendOptions& options);
[[nodiscard]] std::vector<std::string> backend_names();

}  // namespace di
