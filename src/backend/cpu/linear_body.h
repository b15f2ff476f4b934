#pragma once

#include "backend/cpu/kernels.h"
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
        const auto table = S::fp4_table(kE8m0Values[scale[k / 32]]);
        S::fp4_half_block(data + k / 2, table, out);
        S::fp4_half_block(data + k / 2 + 8, table, out + 16 / S::kWidth);
    }
    DI_KERNEL_INLINE typename S::Float read_part(int64_t, int64_t) const { return S::set1(0.0F); }
};

// sums[r * C + c] = x[r] . readers[c]. `ahead` is where the next tile's weights begin; past the end is harmless.
template <typename S, typename Reader, int R, int C, bool kPrefetch = false>
DI_KERNEL_INLINE void tile(const float* const* x, const Reader* readers, int64_t k, float* sums,
                           const uint8_t* ahead = nullptr) {
    using Float = typename S::Float;
    constexpr int64_t kStep = static_cast<int64_t>(Reader::kVectors) * S::kWidth;
    Float accumulators[R][C];
    DI_UNROLL
    for (int r = 0; r < R; ++r) {
        DI_UNROLL
        for (int c = 0; c < C; ++c) {
            accumulators[r][c] = S::set1(0.0F);
        }
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
                    accumulators[r][c] = S::fma(weights[v], load<S>(x[r] + at + v * S::kWidth), accumulators[r][c]);
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
                accumulators[r][c] = S::fma(weights, load_part<S>(x[r] + at, k - at), accumulators[r][c]);
            }
        }
    }
    DI_UNROLL
    for (int r = 0; r < R; ++r) {
        DI_UNROLL
        for (int c = 0; c < C; ++c) {
            sums[r * C + c] = S::sum(accumulators[r][c]);
        }
    }
}

// Bias and old value are added in f32 behind the sum.
template <typename S>
DI_KERNEL_INLINE void put_output(const LinearWork& work, int64_t row, int64_t output, float sum) {
    float* to = work.outputs[row] + output;
    if (work.bias != nullptr) {
        float bias = 0.0F;
        if (work.is_bias_bf16) {
            uint16_t half = 0;
            __builtin_memcpy(&half, work.bias + 2 * output, 2);
            const uint32_t bits = static_cast<uint32_t>(half) << 16;
            __builtin_memcpy(&bias, &bits, 4);
        } else {
            __builtin_memcpy(&bias, work.bias + 4 * output, 4);
        }
        sum += bias;
    }
    *to = work.accumulate ? *to + sum : sum;
}

template <typename S, typename Reader, int R, int C>
void outputs_tile(const LinearWork& work, const float* const* x, int64_t row, int64_t weight_row, int64_t output) {
    Reader readers[C];
    DI_UNROLL
    for (int c = 0; c < C; ++c) {
        readers[c] = Reader(work.weight, weight_row + c);
    }
    float sums[R * C];
    const uint8_t* ahead = work.weight.data + (weight_row + C) * work.weight.row_bytes;
    tile<S, Reader, R, C, (R <= Reader::kPrefetchRows)>(x, readers, work.k, sums, ahead);
    for (int r = 0; r < R; ++r) {
        for (int c = 0; c < C; ++c) {
            put_output<S>(work, row + r, output + c, sums[r * C + c]);
        }
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
    for (; output < end; ++output) {
        outputs_tile<S, Reader, R, 1>(work, x, row, output - shift, output);
    }
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

template <typename S>
DI_KERNEL_INLINE void round_outputs(const LinearWork& work) {
    for (int64_t r = 0; r < work.rows && work.round; ++r) {
        float* out = work.outputs[r] + work.first;
        map_row<S>(out, work.count, out, [](typename S::Float x) { return round_bf16<S>(x); });
    }
}

template <typename S>
void linear(const LinearWork& work) {
    if (work.rows > 4 && work.weight.format != WeightFormat::kF32) {
        linear_strips<S>(work);
    } else {
        switch (work.weight.format) {
            case WeightFormat::kF32: linear_rows<S, F32Reader<S>>(work, 0); break;
            case WeightFormat::kBF16: linear_rows<S, Bf16Reader<S>>(work, 0); break;
            case WeightFormat::kFp8: linear_rows<S, Fp8Reader<S>>(work, 0); break;
            case WeightFormat::kFp4: linear_rows<S, Fp4Reader<S>>(work, 0); break;
        }
    }
    round_outputs<S>(work);
}

}  // namespace di::cpu
