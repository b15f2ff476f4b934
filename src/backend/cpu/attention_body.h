#pragma once

#include "backend/cpu/linear_body.h"

// Attention of the heads of one row over a list of keys: scores by the f32 tile of linear_body.h, softmax, weighted sum.
// Order per result: scores as in a product; the denominator in vector lanes over ascending keys; values over ascending keys.
namespace di::cpu {

template <typename S, int R, int C>
void dots_tile(const float* const* x, const float* const* keys, int64_t dim, float scale, float* outputs, int64_t stride) {
    F32Reader<S> readers[C];
    DI_UNROLL
    for (int c = 0; c < C; ++c) {
        readers[c] = F32Reader<S>(keys[c]);
    }
    float sums[R * C];
    tile<S, F32Reader<S>, R, C>(x, readers, dim, sums);
    for (int r = 0; r < R; ++r) {
        for (int c = 0; c < C; ++c) {
            outputs[r * stride + c] = sums[r * C + c] * scale;
        }
    }
}

template <typename S, int R>
void dots_rows(const float* const* x, const float* const* keys, int64_t count, int64_t dim, float scale, float* outputs,
               int64_t stride) {
    constexpr int C = S::kTileOutputs[R];
    int64_t j = 0;
    for (; j + C <= count; j += C) {
        dots_tile<S, R, C>(x, keys + j, dim, scale, outputs + j, stride);
    }
    for (; j < count; ++j) {
        dots_tile<S, R, 1>(x, keys + j, dim, scale, outputs + j, stride);
    }
}

template <typename S>
void dots(const float* const* inputs, int64_t rows, const float* const* keys, int64_t count, int64_t dim, float scale,
          float* outputs, int64_t stride) {
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) {
        dots_rows<S, 4>(inputs + row, keys, count, dim, scale, outputs + row * stride, stride);
    }
    for (; row < rows; ++row) {
        dots_rows<S, 1>(inputs + row, keys, count, dim, scale, outputs + row * stride, stride);
    }
}

// scores <- exp(scores - top); returns the sum, with the sink in it if there is one.
template <typename S>
float softmax_weights(float* scores, int64_t count, const float* sink, bool round) {
    using Float = typename S::Float;
    constexpr float kLow = -__builtin_inff();
    float top = sink != nullptr ? *sink : kLow;
    Float tops = S::set1(top);
    int64_t i = 0;
    for (; i + S::kWidth <= count; i += S::kWidth) {
        const Float x = load<S>(scores + i);
        tops = x > tops ? x : tops;
    }
    top = largest<S>(tops, top);
    for (; i < count; ++i) {
        top = scores[i] > top ? scores[i] : top;
    }
    const Float shift = S::set1(top);
    Float sums = S::set1(0.0F);
    for (i = 0; i + S::kWidth <= count; i += S::kWidth) {
        const Float p = exp<S>(load<S>(scores + i) - shift);
        sums = sums + p;
        store<S>(scores + i, round_if<S>(round, p));
    }
    if (i < count) {
        // Lanes behind the last key get e^-infinity = 0.
        const Float p = exp<S>(load_part<S>(scores + i, count - i, kLow) - shift);
        sums = sums + p;
        store_part<S>(scores + i, round_if<S>(round, p), count - i);
    }
    float total = S::sum(sums);
    if (sink != nullptr) {
        float lanes[S::kWidth];
        store<S>(lanes, exp<S>(S::set1(*sink - top)));
        total += lanes[0];
    }
    return total;
}

// outputs[r][at ..] = sum over t of p[r][t] values[t][at ..] / totals[r], for V vectors.
template <typename S, int R, int V>
void values_tile(const AttentionWork& work, const float* const* values, int64_t head, int64_t at, const float* totals) {
    using Float = typename S::Float;
    Float sums[R][V];
    DI_UNROLL
    for (int r = 0; r < R; ++r) {
        DI_UNROLL
        for (int v = 0; v < V; ++v) {
            sums[r][v] = S::set1(0.0F);
        }
    }
    const float* p = work.scores + head * work.count;
    for (int64_t t = 0; t < work.count; ++t) {
        DI_UNROLL
        for (int v = 0; v < V; ++v) {
            const Float value = load<S>(values[t] + at + v * S::kWidth);
            DI_UNROLL
            for (int r = 0; r < R; ++r) {
                sums[r][v] = S::fma(S::set1(p[r * work.count + t]), value, sums[r][v]);
            }
        }
    }
    for (int r = 0; r < R; ++r) {
        const Float total = S::set1(totals[r]);
        for (int v = 0; v < V; ++v) {
            store<S>(work.outputs[head + r] + at + v * S::kWidth, round_if<S>(work.round, sums[r][v] / total));
        }
    }
}

template <typename S>
void values_tail(const AttentionWork& work, const float* const* values, int64_t head, int64_t at, float total) {
    typename S::Float sum = S::set1(0.0F);
    const int64_t rest = work.dim - at;
    const float* p = work.scores + head * work.count;
    for (int64_t t = 0; t < work.count; ++t) {
        sum = S::fma(S::set1(p[t]), load_part<S>(values[t] + at, rest), sum);
    }
    store_part<S>(work.outputs[head] + at, round_if<S>(work.round, sum / S::set1(total)), rest);
}

template <typename S, int R>
void values_rows(const AttentionWork& work, const float* const* values, int64_t head, const float* totals) {
    int64_t at = 0;
    for (; at + 2 * S::kWidth <= work.dim; at += 2 * S::kWidth) {
        values_tile<S, R, 2>(work, values, head, at, totals);
    }
    for (; at + S::kWidth <= work.dim; at += S::kWidth) {
        values_tile<S, R, 1>(work, values, head, at, totals);
    }
    for (int r = 0; r < R && at < work.dim; ++r) {
        values_tail<S>(work, values, head + r, at, totals[r]);
    }
}

template <typename S>
float softmax_row(float* scores, int64_t count) {
    return softmax_weights<S>(scores, count, nullptr, false);
}

template <typename S>
void divide_row(float* x, float divisor, int64_t count, bool round) {
    const typename S::Float total = S::set1(divisor);
    map_row<S>(x, count, x, [=](typename S::Float v) { return round_if<S>(round, v / total); });
}

// R rows of sums, V vectors of each, stay in registers for all values.
template <typename S, int R, int V>
void add_values_tile(const ValuesWork& work, int64_t row, int64_t at) {
    using Float = typename S::Float;
    Float sums[R][V];
    const float* weights[R];
    DI_UNROLL
    for (int r = 0; r < R; ++r) {
        weights[r] = work.weights[row + r];
        DI_UNROLL
        for (int v = 0; v < V; ++v) {
            sums[r][v] = load<S>(work.sums[row + r] + at + v * S::kWidth);
        }
    }
    for (int64_t t = 0; t < work.count; ++t) {
        DI_UNROLL
        for (int v = 0; v < V; ++v) {
            const Float value = load<S>(work.values[t] + at + v * S::kWidth);
            DI_UNROLL
            for (int r = 0; r < R; ++r) {
                sums[r][v] = S::fma(S::set1(weights[r][t]), value, sums[r][v]);
            }
        }
    }
    for (int r = 0; r < R; ++r) {
        for (int v = 0; v < V; ++v) {
            store<S>(work.sums[row + r] + at + v * S::kWidth, sums[r][v]);
        }
    }
}

template <typename S>
void add_values_tail(const ValuesWork& work, int64_t row, int64_t at) {
    const int64_t rest = work.dim - at;
    typename S::Float sum = load_part<S>(work.sums[row] + at, rest);
    for (int64_t t = 0; t < work.count; ++t) {
        sum = S::fma(S::set1(work.weights[row][t]), load_part<S>(work.values[t] + at, rest), sum);
    }
    store_part<S>(work.sums[row] + at, sum, rest);
}

template <typename S, int R>
void add_values_rows(const ValuesWork& work, int64_t row) {
    int64_t at = 0;
    for (; at + 2 * S::kWidth <= work.dim; at += 2 * S::kWidth) {
        add_values_tile<S, R, 2>(work, row, at);
    }
    for (; at + S::kWidth <= work.dim; at += S::kWidth) {
        add_values_tile<S, R, 1>(work, row, at);
    }
    for (int r = 0; r < R && at < work.dim; ++r) {
        add_values_tail<S>(work, row + r, at);
    }
}

template <typename S>
void add_values(const ValuesWork& work) {
    int64_t row = 0;
    for (; row + 4 <= work.rows; row += 4) {
        add_values_rows<S, 4>(work, row);
    }
    for (; row < work.rows; ++row) {
        add_values_rows<S, 1>(work, row);
    }
}

template <typename S>
void attention(const AttentionWork& work) {
    dots<S>(work.queries, work.heads, work.keys, work.count, work.dim, work.scale, work.scores, work.count);
    const float* const* values = work.values != nullptr ? work.values : work.keys;
    for (int64_t head = 0; head < work.heads;) {
        const int64_t step = work.heads - head >= 4 ? 4 : 1;
        float totals[4] = {};
        for (int64_t h = 0; h < step; ++h) {
            const float* sink = work.sinks != nullptr ? work.sinks + head + h : nullptr;
            totals[h] = softmax_weights<S>(work.scores + (head + h) * work.count, work.count, sink, work.round);
        }
        if (step == 4) {
            values_rows<S, 4>(work, values, head, totals);
        } else {
            values_rows<S, 1>(work, values, head, totals);
        }
        head += step;
    }
}

}  // namespace di::cpu
