#pragma once

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd.h"

// Operations on single rows: norms, residual streams, gates. Bandwidth-bound; the order of every sum is fixed.
namespace di::cpu {

template <typename S>
void exp_row(float* x, int64_t count) {
    map_row<S>(x, count, x, [](typename S::Float v) { return exp<S>(v); });
}

template <typename S>
void sigmoid_row(float* x, int64_t count, float limit) {
    using Float = typename S::Float;
    const Float high = S::set1(limit);
    const Float low = S::set1(-limit);
    map_row<S>(x, count, x, [=](Float v) {
        v = v < low ? low : v;
        return sigmoid<S>(v > high ? high : v);
    });
}

template <typename S>
void round_row(float* x, int64_t count) {
    map_row<S>(x, count, x, [](typename S::Float v) { return round_bf16<S>(v); });
}

template <typename S>
bool narrow_row(const float* x, int64_t count, uint16_t* out) {
    using Uint = typename S::Uint;
    Uint lost = {};
    int64_t i = 0;
    for (; i + S::kWidth <= count; i += S::kWidth) {
        const Uint bits = (Uint)load<S>(x + i);
        const auto half = __builtin_convertvector(bits >> 16, typename S::Half);
        __builtin_memcpy(out + i, &half, sizeof(half));
        lost = lost | (bits & 0xffffU);
    }
    uint32_t any = 0;
    for (; i < count; ++i) {
        uint32_t bits = 0;
        __builtin_memcpy(&bits, x + i, 4);
        out[i] = static_cast<uint16_t>(bits >> 16);
        any |= bits & 0xffffU;
    }
    for (int lane = 0; lane < S::kWidth; ++lane) {
        any |= lost[lane];
    }
    return any == 0;
}

// Four accumulators over ascending vectors, then their sum.
template <typename S, typename Term>
DI_KERNEL_INLINE float sum_of(int64_t count, Term term) {
    using Float = typename S::Float;
    Float sums[4] = {S::set1(0.0F), S::set1(0.0F), S::set1(0.0F), S::set1(0.0F)};
    int64_t i = 0;
    for (; i + 4 * S::kWidth <= count; i += 4 * S::kWidth) {
        DI_UNROLL
        for (int v = 0; v < 4; ++v) {
            sums[v] = term(sums[v], i + v * S::kWidth, static_cast<int64_t>(S::kWidth));
        }
    }
    for (; i < count; i += S::kWidth) {
        sums[0] = term(sums[0], i, count - i < S::kWidth ? count - i : S::kWidth);
    }
    return S::sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <typename S>
DI_KERNEL_INLINE typename S::Float load_upto(const float* x, int64_t count) {
    return count >= S::kWidth ? load<S>(x) : load_part<S>(x, count);
}

template <typename S>
DI_KERNEL_INLINE typename S::Float load_bf16_upto(const uint8_t* x, int64_t count) {
    return count >= S::kWidth ? S::load_bf16(x) : load_bf16_part<S>(x, count);
}

template <typename S>
DI_KERNEL_INLINE void store_upto(float* x, typename S::Float value, int64_t count) {
    if (count >= S::kWidth) {
        store<S>(x, value);
        return;
    }
    store_part<S>(x, value, count);
}

template <typename S>
float sum_squares(const float* x, int64_t count) {
    return sum_of<S>(count, [x](typename S::Float sum, int64_t at, int64_t lanes) {
        const typename S::Float v = load_upto<S>(x + at, lanes);
        return S::fma(v, v, sum);
    });
}

template <typename S>
void norm_row(const float* x, float scale, const uint8_t* weight, bool is_weight_bf16, int64_t count, bool round, float* out) {
    const typename S::Float factor = S::set1(scale);
    for (int64_t i = 0; i < count; i += S::kWidth) {
        const int64_t rest = count - i;
        const typename S::Float w = is_weight_bf16 ? load_bf16_upto<S>(weight + 2 * i, rest)
                                                   : load_upto<S>(reinterpret_cast<const float*>(weight + 4 * i), rest);
        store_upto<S>(out + i, round_if<S>(round, w * (load_upto<S>(x + i, rest) * factor)), rest);
    }
}

template <typename S>
void collapse(const float* streams, const float* weights, int64_t stream_count, int64_t count, bool round, float* out) {
    for (int64_t i = 0; i < count; i += S::kWidth) {
        typename S::Float sum = S::set1(0.0F);
        for (int64_t s = 0; s < stream_count; ++s) {
            sum = S::fma(S::set1(weights[s]), load_upto<S>(streams + s * count + i, count - i), sum);
        }
        store_upto<S>(out + i, round_if<S>(round, sum), count - i);
    }
}

template <typename S>
void expand(float* streams, const float* y, const float* post, const float* comb, int64_t stream_count, int64_t count,
            bool round) {
    using Float = typename S::Float;
    Float old[16];  // stream_count <= 16
    for (int64_t i = 0; i < count; i += S::kWidth) {
        const int64_t rest = count - i;
        for (int64_t s = 0; s < stream_count; ++s) {
            old[s] = load_upto<S>(streams + s * count + i, rest);
        }
        const Float branch = load_upto<S>(y + i, rest);
        for (int64_t j = 0; j < stream_count; ++j) {
            Float sum = S::set1(post[j]) * branch;
            for (int64_t s = 0; s < stream_count; ++s) {
                sum = S::fma(S::set1(comb[s * stream_count + j]), old[s], sum);
            }
            store_upto<S>(streams + j * count + i, round_if<S>(round, sum), rest);
        }
    }
}

// x * cosine + neighbour * sine, both products rounded: the sums of the definition, bit for bit.
template <typename S>
void rotate(float* x, const float* cosines, const float* sines, int64_t count, bool round) {
    using Float = typename S::Float;
    for (int64_t i = 0; i < count; i += S::kWidth) {
        const int64_t rest = count - i;
        const Float v = load_upto<S>(x + i, rest);
        const Float turned = v * load_upto<S>(cosines + i, rest) + S::swap_pairs(v) * load_upto<S>(sines + i, rest);
        store_upto<S>(x + i, round_if<S>(round, turned), rest);
    }
}

template <typename S>
void rotate_halves(float* x, const float* cosines, const float* sines, int64_t pairs, bool round) {
    using Float = typename S::Float;
    for (int64_t i = 0; i < pairs; i += S::kWidth) {
        const int64_t rest = pairs - i;
        const Float a = load_upto<S>(x + i, rest);
        const Float b = load_upto<S>(x + pairs + i, rest);
        const Float c = load_upto<S>(cosines + i, rest);
        const Float s = load_upto<S>(sines + i, rest);
        store_upto<S>(x + i, round_if<S>(round, a * c - b * s), rest);
        store_upto<S>(x + pairs + i, round_if<S>(round, a * s + b * c), rest);
    }
}

template <typename S>
void swiglu(const float* gate, const float* up, float limit, float weight, int64_t count, bool round, float* out) {
    using Float = typename S::Float;
    const Float high = S::set1(limit);
    const Float low = S::set1(-limit);
    const Float factor = S::set1(weight);
    for (int64_t i = 0; i < count; i += S::kWidth) {
        const int64_t rest = count - i;
        Float a = load_upto<S>(gate + i, rest);
        Float b = load_upto<S>(up + i, rest);
        a = a > high ? high : a;
        b = b > high ? high : b;
        b = b < low ? low : b;
        store_upto<S>(out + i, round_if<S>(round, a / (S::set1(1.0F) + exp<S>(-a)) * b * factor), rest);
    }
}

template <typename S>
void compress(const float* const* values, const float* const* scores, int64_t token_count, int64_t count, bool round,
              float* out) {
    using Float = typename S::Float;
    for (int64_t i = 0; i < count; i += S::kWidth) {
        const int64_t rest = count - i;
        Float top = load_upto<S>(scores[0] + i, rest);
        for (int64_t t = 1; t < token_count; ++t) {
            const Float s = load_upto<S>(scores[t] + i, rest);
            top = s > top ? s : top;
        }
        Float sum = S::set1(0.0F);
        Float weighted = S::set1(0.0F);
        for (int64_t t = 0; t < token_count; ++t) {
            const Float p = exp<S>(load_upto<S>(scores[t] + i, rest) - top);
            sum = sum + p;
            weighted = S::fma(p, load_upto<S>(values[t] + i, rest), weighted);
        }
        store_upto<S>(out + i, round_if<S>(round, weighted / sum), rest);
    }
}

template <typename S>
void relu_sum(const float* dots, int64_t stride, const float* weights, int64_t heads, int64_t count, float scale,
              float* scores) {
    using Float = typename S::Float;
    const Float zero = S::set1(0.0F);
    for (int64_t i = 0; i < count; i += S::kWidth) {
        const int64_t rest = count - i;
        Float sum = zero;
        for (int64_t h = 0; h < heads; ++h) {
            const Float d = load_upto<S>(dots + h * stride + i, rest);
            sum = S::fma(d > zero ? d : zero, S::set1(weights[h]), sum);
        }
        // Adding zero turns minus zero, which would order below zero, into zero.
        store_upto<S>(scores + i, sum * S::set1(scale) + zero, rest);
    }
}

template <typename S>
void engram_dots(const float* h, const float* key, const uint8_t* q_weight, const uint8_t* k_weight, int64_t count,
                 float sums[3]) {
    using Float = typename S::Float;
    sums[0] = sum_squares<S>(h, count);
    sums[1] = sum_squares<S>(key, count);
    sums[2] = sum_of<S>(count, [=](Float sum, int64_t at, int64_t lanes) {
        const Float w = load_bf16_upto<S>(q_weight + 2 * at, lanes) * load_bf16_upto<S>(k_weight + 2 * at, lanes);
        return S::fma(load_upto<S>(h + at, lanes) * w, load_upto<S>(key + at, lanes), sum);
    });
}

template <typename S>
void add_scaled(float* x, const float* y, float scale, int64_t count, bool round) {
    const typename S::Float factor = S::set1(scale);
    for (int64_t i = 0; i < count; i += S::kWidth) {
        const int64_t rest = count - i;
        store_upto<S>(x + i, round_if<S>(round, S::fma(factor, load_upto<S>(y + i, rest), load_upto<S>(x + i, rest))), rest);
    }
}

template <typename S>
float multiply_add_probe(int64_t rounds) {
    using Float = typename S::Float;
    Float sums[8];
    DI_UNROLL
    for (int v = 0; v < 8; ++v) {
        sums[v] = S::set1(static_cast<float>(v));
    }
    const Float x = S::set1(0.999F);
    const Float y = S::set1(0.001F);
    for (int64_t i = 0; i < rounds; ++i) {
        DI_UNROLL
        for (int v = 0; v < 8; ++v) {
            sums[v] = S::fma(sums[v], x, y);
        }
    }
    Float total = sums[0];
    for (int v = 1; v < 8; ++v) {
        total = total + sums[v];
    }
    return S::sum(total);
}

template <typename S>
float read_probe(const float* x, int64_t count) {
    return sum_of<S>(count,
                     [x](typename S::Float sum, int64_t at, int64_t lanes) { return sum + load_upto<S>(x + at, lanes); });
}

}  // namespace di::cpu
