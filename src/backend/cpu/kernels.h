#pragma once

#include <cstdint>

// The inner loops of the CPU backend, one table of functions per instruction set. All are single-threaded and
// work on plain pointers: every load is unaligned.
//
// Files that are compiled for an instruction set include only this header and the *_body.h templates: no inline
// function of another header may be compiled with flags that the machine might not have, because the
// linker keeps only one copy of it for the whole program.
//
// Order of summation, the same for every tile shape and row count: one vector accumulator per result walks k
// upwards, then one fixed tree over its lanes. The width of the vector is that of the instruction set.
namespace di::cpu {

// kDecoded: rows that only a function of the backend can read.
enum class WeightFormat : uint8_t { kF32, kBF16, kF16, kFp8, kFp4, kDecoded };

// Mirrors di::RowFormat (tensor/quant.h), which these files cannot include.
enum class CacheFormat : uint8_t { kF32, kFp8, kNvfp4, kMxfp4, kF16 };

// Rows of a weight matrix as they lie in the file.
struct WeightRows {
    WeightFormat format = WeightFormat::kF32;
    const uint8_t* data = nullptr;
    int64_t row_bytes = 0;
    const uint8_t* scale = nullptr;  // UE8M0 codes, one per 32 columns
    int64_t scale_row_codes = 0;     // codes from one scale row to the next
    int64_t scale_row_shift = 0;     // 2^shift weight rows share a scale row: 5 or 0
    uint8_t type = 0;                // only kDecoded: for decode()
    void (*decode)(uint8_t type, const uint8_t* row, int64_t cols, float* out) = nullptr;
};

// outputs[r][first + j] = inputs[r] . weight row (first + j), for j < count.
struct LinearWork {
    const float* const* inputs = nullptr;          // [rows], each k values
    const uint16_t* const* inputs_bf16 = nullptr;  // [rows], each k values; only linear_bf16
    float* const* outputs = nullptr;               // [rows]
    int64_t rows = 0;
    int64_t k = 0;  // a multiple of 32 for kFp8 and kFp4
    WeightRows weight;
    int64_t first = 0;
    int64_t count = 0;
    const uint8_t* bias = nullptr;  // [outputs] or null
    bool is_bias_bf16 = false;
    bool accumulate = false;  // add to what stands in the output
    bool round = false;       // to bf16, after everything
    float* strip = nullptr;   // strip_rows x k floats, used for more than four rows, and for kDecoded
    int64_t strip_rows = 0;
};

struct AttentionWork {
    const float* const* queries = nullptr;  // [heads]
    int64_t heads = 0;
    const float* const* keys = nullptr;    // [count], also the values unless `values` is given
    const float* const* values = nullptr;  // [count] or null
    int64_t count = 0;
    int64_t dim = 0;
    float scale = 1.0F;
    const float* sinks = nullptr;     // [heads] logits without value, or null
    bool round = false;               // bf16: probabilities before the weighted sum, and the result
    float* scores = nullptr;          // [heads, count] scratch
    float* const* outputs = nullptr;  // [heads]
};

// sums[r] += over ascending t: weights[r][t] * values[t].
struct ValuesWork {
    const float* const* weights = nullptr;  // [rows], each `count` values
    float* const* sums = nullptr;           // [rows], each `dim` values
    int64_t rows = 0;
    const float* const* values = nullptr;  // [count]
    int64_t count = 0;
    int64_t dim = 0;
};

struct Kernels {
    const char* name;
    int64_t width;  // floats of a vector

    void (*linear)(const LinearWork& work);
    // Products of pairs of bf16 values; null where the instruction set has none. Only for kBF16 weights.
    void (*linear_bf16)(const LinearWork& work);
    // outputs[r * stride + j] = inputs[r] . keys[j] * scale
    void (*dots)(const float* const* inputs, int64_t rows, const float* const* keys, int64_t count, int64_t dim, float scale,
                 float* outputs, int64_t stride);
    void (*attention)(const AttentionWork& work);
    // The parts of attention over keys that come in pieces: scores <- exp(scores - their largest), returns their sum.
    float (*softmax_row)(float* scores, int64_t count);
    void (*add_values)(const ValuesWork& work);
    void (*divide_row)(float* x, float divisor, int64_t count, bool round);

    // Columns [0, cols) of one weight row.
    void (*decode_weight_row)(const WeightRows& weight, int64_t row, int64_t cols, float* out);
    void (*decode_cache_row)(CacheFormat format, const uint8_t* data, const uint8_t* scale, int64_t dim, float* out);
    // Bytes and values equal those of di::quantise_row and di::fake_quantise_row.
    void (*encode_cache_row)(CacheFormat format, const float* values, int64_t dim, uint8_t* data, uint8_t* scale);
    void (*fake_quantise)(CacheFormat format, const float* values, int64_t count, float* out);

    void (*exp_row)(float* x, int64_t count);
    void (*sigmoid_row)(float* x, int64_t count, float limit);
    void (*round_row)(float* x, int64_t count);
    // Returns false where a value is not exactly a bf16.
    bool (*narrow_row)(const float* x, int64_t count, uint16_t* out);
    float (*sum_squares)(const float* x, int64_t count);
    // out = x * scale * weight
    void (*norm_row)(const float* x, float scale, const uint8_t* weight, bool is_weight_bf16, int64_t count, bool round,
                     float* out);
    // out[d] = sum over s of weights[s] * streams[s][d]
    void (*collapse)(const float* streams, const float* weights, int64_t stream_count, int64_t count, bool round, float* out);
    // streams[j][d] = post[j] * y[d] + sum over i of comb[i][j] * streams[i][d]
    void (*expand)(float* streams, const float* y, const float* post, const float* comb, int64_t stream_count, int64_t count,
                   bool round);
    // Adjacent pairs (a, b) -> (a cos - b sin, a sin + b cos). The tables have one entry a value: cos, cos and -sin, sin.
    void (*rotate)(float* x, const float* cosines, const float* sines, int64_t count, bool round);
    // Pairs (i, i + pairs) likewise; the tables have one entry a pair.
    void (*rotate_halves)(float* x, const float* cosines, const float* sines, int64_t pairs, bool round);
    // out = silu(min(gate, limit)) * clamp(up, +-limit) * weight
    void (*swiglu)(const float* gate, const float* up, float limit, float weight, int64_t count, bool round, float* out);
    // out[d] = sum over t of softmax over t of scores[t][d] times values[t][d]
    void (*compress)(const float* const* values, const float* const* scores, int64_t token_count, int64_t count, bool round,
                     float* out);
    // scores[j] = sum over h of max(dots[h * stride + j], 0) * weights[h] * scale, never minus zero
    void (*relu_sum)(const float* dots, int64_t stride, const float* weights, int64_t heads, int64_t count, float scale,
                     float* scores);
    // sums = {h.h, key.key, h.(q_weight k_weight key)}; the weights are bf16.
    void (*engram_dots)(const float* h, const float* key, const uint8_t* q_weight, const uint8_t* k_weight, int64_t count,
                        float sums[3]);
    // x += scale * y
    void (*add_scaled)(float* x, const float* y, float scale, int64_t count, bool round);

    // 8 x rounds vector multiply-adds per lane that depend on nothing else: the arithmetic limit.
    float (*multiply_add_probe)(int64_t rounds);
    // Reads `count` floats: the bandwidth limit.
    float (*read_probe)(const float* x, int64_t count);
};

// The tables this architecture is built with.
extern const Kernels kGenericKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512Bf16Kernels;
#endif
#if defined(__aarch64__)
extern const Kernels kNeonKernels;
#endif

// Decoding tables, from tables.cpp (compiled for any machine).
extern const float kE8m0Values[256];          // 2^(code - 127); 255 is NaN
extern const float kE8m0ValuesTimes256[256];  // the same times 2^8, for e4m3 bits read as an IEEE half; saturates above 2^127
extern const float kE4m3Values[256];
extern const float kE2m1Values[16];

}  // namespace di::cpu
