#if defined(__x86_64__)
#include "backend/cpu/avx512_simd.h"
#include "backend/cpu/make_kernels.h"

// AVX-512 with BF16: products of bf16 weights with inputs that are exactly bf16 take two columns a lane. Each
// lane adds its two products in one rounding order of the instruction; the order per result is fixed as everywhere.
namespace di::cpu {

namespace {

DI_KERNEL_INLINE __m512bh load_pairs(const void* from, int64_t count) {
    if (count >= 32) {
        return (__m512bh)_mm512_loadu_si512(from);
    }
    uint16_t lanes[32] = {};
    __builtin_memcpy(lanes, from, static_cast<unsigned long>(count) * 2U);
    return (__m512bh)_mm512_loadu_si512(lanes);
}

template <int R, int C>
void pairs_tile(const LinearWork& work, int64_t row, int64_t output) {
    __m512 sums[R][C];
    DI_UNROLL
    for (int r = 0; r < R; ++r) {
        DI_UNROLL
        for (int c = 0; c < C; ++c) {
            sums[r][c] = _mm512_setzero_ps();
        }
    }
    const uint8_t* weights = work.weight.data + output * work.weight.row_bytes;
    const auto step = [&](int64_t k, int64_t count) __attribute__((always_inline)) {
        DI_UNROLL
        for (int c = 0; c < C; ++c) {
            const __m512bh w = load_pairs(weights + c * work.weight.row_bytes + 2 * k, count);
            DI_UNROLL
            for (int r = 0; r < R; ++r) {
                sums[r][c] = _mm512_dpbf16_ps(sums[r][c], load_pairs(work.inputs_bf16[row + r] + k, count), w);
            }
        }
    };
    int64_t k = 0;
    for (; k + 32 <= work.k; k += 32) {
        step(k, 32);
    }
    if (k < work.k) {
        step(k, work.k - k);
    }
    DI_UNROLL
    for (int r = 0; r < R; ++r) {
        DI_UNROLL
        for (int c = 0; c < C; ++c) {
            put_output<Avx512Simd>(work, row + r, output + c, Avx512Simd::sum((Avx512Simd::Float)sums[r][c]));
        }
    }
}

template <int R>
void pairs_rows(const LinearWork& work, int64_t row) {
    constexpr int C = Avx512Simd::kTileOutputs[R];
    const int64_t end = work.first + work.count;
    int64_t output = work.first;
    for (; output + C <= end; output += C) {
        pairs_tile<R, C>(work, row, output);
    }
    for (; output < end; ++output) {
        pairs_tile<R, 1>(work, row, output);
    }
}

void linear_pairs(const LinearWork& work) {
    int64_t row = 0;
    for (; row + 4 <= work.rows; row += 4) {
        pairs_rows<4>(work, row);
    }
    for (; row < work.rows; ++row) {
        pairs_rows<1>(work, row);
    }
    round_outputs<Avx512Simd>(work);
}

}  // namespace

constinit const Kernels kAvx512Bf16Kernels = make_kernels<Avx512Simd>("avx512bf16", &linear_pairs);

}  // namespace di::cpu
#endif
