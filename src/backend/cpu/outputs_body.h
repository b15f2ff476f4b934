#pragma once

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd.h"

// What every tile of a product does around its loop: asking for later weights, adding up lanes, writing results.
namespace di::cpu {

// How far ahead of the weights at work others are asked for: the next tile, but never so near that they come too late.
DI_KERNEL_INLINE int64_t prefetch_distance(int64_t tile_bytes) {
    constexpr int64_t kLeast = 4096;  // half a microsecond of reading, several times the way to memory
    return tile_bytes > kLeast ? tile_bytes : kLeast;
}

// sums[i] = S::sum(accumulators[i]), four at once where the instruction set has something for it.
template <typename S, int N>
DI_KERNEL_INLINE void sum_all(const typename S::Float* accumulators, float* sums) {
    constexpr int kFours = requires { &S::sum_four; }
    ? N / 4 * 4 : 0;
    if constexpr (kFours > 0) {
        DI_UNROLL
        for (int i = 0; i < kFours; i += 4) {
            S::sum_four(accumulators + i, sums + i);
        }
    }
    DI_UNROLL
    for (int i = kFours; i < N; ++i) {
        sums[i] = S::sum(accumulators[i]);
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

// Outputs [first, first + C) of a row.
template <typename S, int C>
DI_KERNEL_INLINE void put_outputs(const LinearWork& work, int64_t row, int64_t first, const float* sums) {
    if (work.bias == nullptr && !work.accumulate) {
        __builtin_memcpy(work.outputs[row] + first, sums, C * sizeof(float));
        return;
    }
    for (int c = 0; c < C; ++c) {
        put_output<S>(work, row, first + c, sums[c]);
    }
}

}  // namespace di::cpu
