#pragma once

#include "backend/cpu/kernels.h"
#include "backend/cpu/outputs_body.h"
#include "backend/cpu/simd.h"

// y[r][j] = x[r] . w[j]. A tile of R rows times C outputs keeps R x C vector accumulators in registers; each walks k upwards by
// itself, so every tile shape gives the same bits. Up to four rows, weights are decoded in registers straight from the
// file's bytes: the limit is the bandwidth of the packed format. More rows decode a strip of weights to f32
// once (exact) and run the f32 tile over it: the limit is the multiply-add rate.
namespace di::cpu {

// Readers: the weights of one output, kVectors vectors (kStepBytes bytes of the file) at a time. Tiles of up to kPrefetchRows
// rows ask for the weights of the next tile ahead of time: rows of a small matrix are shorter than what the
// hardware's prefetcher needs to notice eight streams. Decoded strips (f32, more rows) are in the cache already.
template <typename S>
struct F32Reader {
    static constexpr int kVectors = 1;
    static constexpr int kStepBytes = 4 * S::kWidth;
    static constexpr int kPrefetchRows = 1;
    static constexpr bool kHasTail = true;
    const float* data;

    F32Reader() = default;
    DI_KERNEL_INLINE F32Reader(const WeightRows& weight, int64_t row)
        : data(reinterpret_cast<const float*>(weight.data + row * weight.row_bytes)) {}
    DI_KERNEL_INLINE explicit F32Reader(const float* values) : data(values) {}
    DI_KERNEL_INLINE void read(int64_t k, typename S::Float* out) const { out[0] = load<S>(data + k); }
    DI_KERNEL_INLINE typename S::Float read_part(int64_t k, int64_t count) const {
        float lanes[S::kWidth] = {};
        __builtin_memcpy(lanes, reinterpret_cast<const uint8_t*>(data + k), static_cast<unsigned long>(count) * 4U);
        return load<S>(lanes);
    }
};

template <typename S>
struct Bf16Reader {
    static constexpr int kVectors = 1;
    static constexpr int kStepBytes = 2 * S::kWidth;
    static constexpr int kPrefetchRows = 4;
    static constexpr bool kHasTail = true;
    const uint8_t* data;

    Bf16Reader() = default;
    DI_KERNEL_INLINE Bf16Reader(const WeightRows& weight, int64_t row) : data(weight.data + row * weight.row_bytes) {}
    DI_KERNEL_INLINE void read(int64_t k, typename S::Float* out) const { out[0] = S::load_bf16(data + 2 * k); }
    DI_KERNEL_INLINE typename S::Float read_part(int64_t k, int64_t count) const {
        return load_bf16_part<S>(data + 2 * k, count);
    }
};

template <typename S>
struct F16Reader {
    static constexpr int kVectors = 1;
    static constexpr int kStepBytes = 2 * S::kWidth;
    static constexpr int kPrefetchRows = 4;
    static constexpr bool kHasTail = true;
    const uint8_t* data;

    F16Reader() = default;
    DI_KERNEL_INLINE F16Reader(const WeightRows& weight, int64_t row) : data(weight.data + row * weight.row_bytes) {}
    DI_KERNEL_INLINE void read(int64_t k, typename S::Float* out) const { out[0] = load_f16<S>(data + 2 * k); }
    DI_KERNEL_INLINE typename S::Float read_part(int64_t k, int64_t count) const {
        return load_f16_part<S>(data + 2 * k, count);
    }
};

template <typename S>
struct Fp8Reader {
    static constexpr int kVectors = 32 / S::kWidth;
    static constexpr int kStepBytes = 32;
    static constexpr int kPrefetchRows = 4;
    static constexpr bool kHasTail = false;
    const uint8_t* data;
    const uint8_t* scale;

    Fp8Reader() = default;
    DI_KERNEL_INLINE Fp8Reader(const WeightRows& weight, int64_t row)
        : data(weight.data + row * weight.row_bytes),
          scale(weight.scale + (row >> weight.scale_row_shift) * weight.scale_row_codes) {}
    DI_KERNEL_INLINE void read(int64_t k, typename S::Float* out) const {
        S::fp8_block(data + k, kE8m0ValuesTimes256[scale[k / 32]], out);
    }
    DI_KERNEL_INLINE typename S::Float read_part(int64_t, int64_t) const { return S::set1(0.0F); }
};

template <typename S>
struct Fp4Reader {
    static constexpr int kVectors = 32 / S::kWidth;
    static constexpr int kStepBytes = 16;
    static constexpr int kPrefetchRows = 4;
    static constexpr bool kHasTail = false;
    const uint8_t* data;
    const uint8_t* scale;

    Fp4Reader() = default;
    DI_KERNEL_INLINE Fp4Reader(const WeightRows& weight, int64_t row)
        : data(weight.data + row * weight.row_bytes),
          scale(weight.scale + (row >> weight.scale_row_shift) * weight.scale_row_codes) {}
    DI_KERNEL_INLINE void read(int64_t k, typename S::Float* out) const {
        const float factor = kE8m0Values[scale[k / 32]];
        if constexpr (requires { &S::fp4_block; }) {
            S::fp4_block(data + k / 2, factor, out);
        } else {
            const auto table = S::fp4_table(factor);
            S::fp4_half_block(data + k / 2, table, out);
            S::fp4_half_block(data + k / 2 + 8, table, out + 16 / S::kWidth);
        }
    }
    DI_KERNEL_INLINE typename S::Float read_part(int64_t, int64_t) const { return S::set1(0.0F); }
};

// sums[r * C + c] = x[r] . readers[c]. `ahead` is where the next tile's weights begin; past the end is harmless.
template <typename S, typename Reader, int R, int C, bool kPrefetch = false>
DI_KERNEL_INLINE void tile(const float* const* x, const Reader* readers, int64_t k, float* sums,
                           const uint8_t* ahead = nullptr) {
    using Float = typename S::Float;
    constexpr int64_t kStep = static_cast<int64_t>(Reader::kVectors) * S::kWidth;
    Float accumulators[R * C];
    DI_UNROLL
    for (int i = 0; i < R * C; ++i) {
        accumulators[i] = S::set1(0.0F);
    }
    int64_t at = 0;
    for (; at + kStep <= k; at += kStep) {
        if constexpr (kPrefetch) {
            DI_UNROLL
            for (int line = 0; line < C * Reader::kStepBytes; line += 64) {
                __builtin_prefetch(ahead + line);
            }
            ahead += C * Reader::kStepBytes;
        }
        DI_UNROLL
        for (int c = 0; c < C; ++c) {
            Float weights[Reader::kVectors];
            readers[c].read(at, weights);
            DI_UNROLL
            for (int r = 0; r < R; ++r) {
                DI_UNROLL
                for (int v = 0; v < Reader::kVectors; ++v) {
                    accumulators[r * C + c] = S::fma(weights[v], load<S>(x[r] + at + v * S::kWidth), accumulators[r * C + c]);
                }
            }
        }
    }
    if (Reader::kHasTail && at < k) {
        DI_UNROLL
        for (int c = 0; c < C; ++c) {
            const Float weights = readers[c].read_part(at, k - at);
            DI_UNROLL
            for (int r = 0; r < R; ++r) {
                accumulators[r * C + c] = S::fma(weights, load_part<S>(x[r] + at, k - at), accumulators[r * C + c]);
            }
        }
    }
    sum_all<S, R * C>(accumulators, sums);
}

template <typename S, typename Reader, int R, int C>
void outputs_tile(const LinearWork& work, const float* const* x, int64_t row, int64_t weight_row, int64_t output) {
    Reader readers[C];
    DI_UNROLL
    for (int c = 0; c < C; ++c) {
        readers[c] = Reader(work.weight, weight_row + c);
    }
    float sums[R * C];
    const uint8_t* ahead = work.weight.data + weight_row * work.weight.row_bytes + prefetch_distance(C * work.weight.row_bytes);
    tile<S, Reader, R, C, (R <= Reader::kPrefetchRows)>(x, readers, work.k, sums, ahead);
    for (int r = 0; r < R; ++r) {
        put_outputs<S, C>(work, row + r, output, sums + r * C);
    }
}

// R rows times all outputs; weight row of output j is j - shift.
template <typename S, typename Reader, int R>
void rows_tile(const LinearWork& work, int64_t row, int64_t shift) {
    constexpr int C = S::kTileOutputs[R];
    const float* x[R];
    for (int r = 0; r < R; ++r) {
        x[r] = work.inputs[row + r];
    }
    const int64_t end = work.first + work.count;
    int64_t output = work.first;
    for (; output + C <= end; output += C) {
        outputs_tile<S, Reader, R, C>(work, x, row, output - shift, output);
    }
    if (C > 4 && output + 4 <= end) {
        outputs_tile<S, Reader, R, 4>(work, x, row, output - shift, output);
        output += 4;
    }
    for (; output < end; ++output) {
        outputs_tile<S, Reader, R, 1>(work, x, row, output - shift, output);
    }
}

// One row times fp8 weights whose bits go into the product as they lie (S::fp8_block_bits): the scale of a block, the same for all
// outputs of the tile, is put on the row instead. Powers of two: each product is the same number as in outputs_tile, bit for bit.
template <typename S, int C>
void scaled_row_tile(const LinearWork& work, int64_t output) {
    using Float = typename S::Float;
    constexpr int V = 32 / S::kWidth;
    const float* x = work.inputs[0];
    const uint8_t* data = work.weight.data + output * work.weight.row_bytes;
    const uint8_t* ahead = data + prefetch_distance(C * work.weight.row_bytes);
    const uint8_t* scale = work.weight.scale + (output >> work.weight.scale_row_shift) * work.weight.scale_row_codes;
    Float accumulators[C];
    DI_UNROLL
    for (int c = 0; c < C; ++c) {
        accumulators[c] = S::set1(0.0F);
    }
    for (int64_t at = 0; at < work.k; at += 32) {
        DI_UNROLL
        for (int line = 0; line < C * 32; line += 64) {
            __builtin_prefetch(ahead + line);
        }
        ahead += C * 32;
        const Float factor = S::set1(kE8m0Values[scale[at / 32]] * S::kFp8BitsFactor);
        Float scaled[V];
        DI_UNROLL
        for (int v = 0; v < V; ++v) {
            scaled[v] = load<S>(x + at + v * S::kWidth) * factor;
        }
        DI_UNROLL
        for (int c = 0; c < C; ++c) {
            Float weights[V];
            S::fp8_block_bits(data + c * work.weight.row_bytes + at, weights);
            DI_UNROLL
            for (int v = 0; v < V; ++v) {
                accumulators[c] = S::fma(weights[v], scaled[v], accumulators[c]);
            }
        }
    }
    float sums[C];
    sum_all<S, C>(accumulators, sums);
    put_outputs<S, C>(work, 0, output, sums);
}

// Whether scaled_row_tile computes what the general way does: nothing overflows when the scale goes onto the row.
template <typename S>
bool may_scale_row(const LinearWork& work) {
    using Int = typename S::Int;
    constexpr int64_t kSharing = 32;  // outputs of one scale
    if (work.rows != 1 || work.weight.scale_row_shift != 5 || work.first % S::kTileOutputs[1] != 0 ||
        S::treats_subnormals_as_zero()) {
        return false;
    }
    Int tops = {};
    for (int64_t i = 0; i < work.k; i += S::kWidth) {
        const Int bits = (Int)abs<S>(load<S>(work.inputs[0] + i));
        tops = bits > tops ? bits : tops;
    }
    int32_t top = 0;
    for (int lane = 0; lane < S::kWidth; ++lane) {
        top = tops[lane] > top ? tops[lane] : top;
    }
    uint8_t code = 0;
    const int64_t last = (work.first + work.count - 1) / kSharing;
    for (int64_t row = work.first / kSharing; row <= last; ++row) {
        const uint8_t* codes = work.weight.scale + row * work.weight.scale_row_codes;
        for (int64_t i = 0; i < work.k / 32; ++i) {
            code = codes[i] > code ? codes[i] : code;
        }
    }
    // |x| < 2^(exponent - 126), scale = 2^(code - 127), the factor 2^120: the product stays below 2^127.
    return (top >> 23) + int32_t{code} < 126 + 127 + 127 - 120 && code < 134;
}

template <typename S>
bool linear_scaled_row(const LinearWork& work) {
    if (!may_scale_row<S>(work)) {
        return false;
    }
    constexpr int C = S::kTileOutputs[1];
    static_assert(32 % C == 0, "the outputs of a tile share a scale");
    const int64_t end = work.first + work.count;
    int64_t output = work.first;
    for (; output + C <= end; output += C) {
        scaled_row_tile<S, C>(work, output);
    }
    for (; output < end; ++output) {
        scaled_row_tile<S, 1>(work, output);
    }
    return true;
}

template <typename S, typename Reader>
void linear_rows(const LinearWork& work, int64_t shift) {
    int64_t row = 0;
    for (; row + 4 <= work.rows; row += 4) {
        rows_tile<S, Reader, 4>(work, row, shift);
    }
    switch (work.rows - row) {
        case 3: rows_tile<S, Reader, 3>(work, row, shift); return;
        case 2: rows_tile<S, Reader, 2>(work, row, shift); return;
        case 1: rows_tile<S, Reader, 1>(work, row, shift); return;
        default: return;
    }
}

template <typename S, typename Reader>
DI_KERNEL_INLINE void decode_row(const Reader& reader, int64_t count, float* out) {
    constexpr int64_t kStep = static_cast<int64_t>(Reader::kVectors) * S::kWidth;
    int64_t at = 0;
    for (; at + kStep <= count; at += kStep) {
        typename S::Float values[Reader::kVectors];
        reader.read(at, values);
        DI_UNROLL
        for (int v = 0; v < Reader::kVectors; ++v) {
            store<S>(out + at + v * S::kWidth, values[v]);
        }
    }
    if (Reader::kHasTail && at < count) {
        store_part<S>(out + at, reader.read_part(at, count - at), count - at);
    }
}

template <typename S>
void decode_weight_row(const WeightRows& weight, int64_t row, int64_t cols, float* out) {
    switch (weight.format) {
        case WeightFormat::kF32: decode_row<S>(F32Reader<S>(weight, row), cols, out); return;
        case WeightFormat::kBF16: decode_row<S>(Bf16Reader<S>(weight, row), cols, out); return;
        case WeightFormat::kFp8: decode_row<S>(Fp8Reader<S>(weight, row), cols, out); return;
        case WeightFormat::kFp4: decode_row<S>(Fp4Reader<S>(weight, row), cols, out); return;
        case WeightFormat::kF16: decode_row<S>(F16Reader<S>(weight, row), cols, out); return;
        case WeightFormat::kDecoded: weight.decode(weight.type, weight.data + row * weight.row_bytes, cols, out); return;
    }
}

template <typename S>
void linear_strips(const LinearWork& work) {
    LinearWork part = work;
    part.weight = WeightRows{};
    part.weight.data = reinterpret_cast<const uint8_t*>(work.strip);
    part.weight.row_bytes = work.k * 4;
    for (int64_t done = 0; done < work.count; done += work.strip_rows) {
        part.first = work.first + done;
        part.count = work.count - done < work.strip_rows ? work.count - done : work.strip_rows;
        for (int64_t j = 0; j < part.count; ++j) {
            decode_weight_row<S>(work.weight, part.first + j, work.k, work.strip + j * work.k);
        }
        linear_rows<S, F32Reader<S>>(part, part.first);
    }
}

// bf16 weights become floats by a shift, less than a strip costs to write and read: all rows read them as they lie, a part that
// stays in the cache at a time.
template <typename S>
void linear_bf16_weights(const LinearWork& work) {
    LinearWork part = work;
    for (int64_t done = 0; done < work.count; done += work.strip_rows) {
        part.first = work.first + done;
        part.count = work.count - done < work.strip_rows ? work.count - done : work.strip_rows;
        linear_rows<S, Bf16Reader<S>>(part, 0);
    }
}

template <typename S>
DI_KERNEL_INLINE void round_outputs(const LinearWork& work) {
    for (int64_t r = 0; r < work.rows && work.round; ++r) {
        float* out = work.outputs[r] + work.first;
        map_row<S>(out, work.count, out, [](typename S::Float x) { return round_bf16<S>(x); });
    }
}

template <typename S>
void linear_in_file_format(const LinearWork& work) {
    if constexpr (requires { &S::fp8_block_bits; }) {
        if (work.weight.format == WeightFormat::kFp8 && linear_scaled_row<S>(work)) {
            return;
        }
    }
    switch (work.weight.format) {
        case WeightFormat::kF32: linear_rows<S, F32Reader<S>>(work, 0); return;
        case WeightFormat::kBF16: linear_rows<S, Bf16Reader<S>>(work, 0); return;
        case WeightFormat::kFp8: linear_rows<S, Fp8Reader<S>>(work, 0); return;
        case WeightFormat::kFp4: linear_rows<S, Fp4Reader<S>>(work, 0); return;
        case WeightFormat::kF16: linear_rows<S, F16Reader<S>>(work, 0); return;
        case WeightFormat::kDecoded: linear_strips<S>(work); return;
    }
}

template <typename S>
void linear(const LinearWork& work) {
    if (work.rows > 4 && work.weight.format == WeightFormat::kBF16) {
        linear_bf16_weights<S>(work);
    } else if (work.rows > 4 && work.weight.format != WeightFormat::kF32) {
        linear_strips<S>(work);
    } else {
        linear_in_file_format<S>(work);
    }
    round_outputs<S>(work);
}

}  // namespace di::cpu
