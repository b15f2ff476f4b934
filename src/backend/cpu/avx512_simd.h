#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>

#include "backend/cpu/simd.h"

// AVX-512 F, BW, DQ, VL: 16 lanes, 32 registers.
namespace di::cpu {

namespace {

struct Avx512Simd {
    static constexpr int kWidth = 16;
    static constexpr int kTileOutputs[5] = {0, 8, 8, 6, 6};
    using Float = float __attribute__((vector_size(64)));
    using Int = int32_t __attribute__((vector_size(64)));
    using Uint = uint32_t __attribute__((vector_size(64)));
    using Half = uint16_t __attribute__((vector_size(32)));
    using Byte = uint8_t __attribute__((vector_size(16)));
    using Fp4Table = Float;
    static constexpr float kFp8BitsFactor = 0x1p120F;

    DI_KERNEL_INLINE static Float set1(float x) { return (Float)_mm512_set1_ps(x); }
    DI_KERNEL_INLINE static Float fma(Float a, Float b, Float c) {
        return (Float)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
    }
    DI_KERNEL_INLINE static Float load_bf16(const uint8_t* from) {
        const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
        return (Float)_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16);
    }
    DI_KERNEL_INLINE static Float load_f16(const uint8_t* from) {
        return (Float)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    }
    DI_KERNEL_INLINE static Float swap_pairs(Float x) { return (Float)_mm512_permute_ps((__m512)x, 0xb1); }
    DI_KERNEL_INLINE static float sum(Float x) {
        const __m512 wide = (__m512)x;
        const __m256 low = _mm512_castps512_ps256(wide);
        const __m256 high = _mm512_extractf32x8_ps(wide, 1);
        const __m256 eight = _mm256_add_ps(low, high);
        __m128 half = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
        half = _mm_add_ps(half, _mm_movehl_ps(half, half));
        return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
    }

    // As in avx2_kernels.cpp: e4m3 bits become an IEEE half that is 2^8 too small.
    DI_KERNEL_INLINE static void fp8_block(const uint8_t* data, float scale, Float* out) {
        const __m512 factor = _mm512_set1_ps(scale);
        const __m512i keep = _mm512_set1_epi16(static_cast<int16_t>(0xbf80));
        const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
        const __m512i halves = _mm512_and_si512(_mm512_slli_epi16(_mm512_cvtepi8_epi16(codes), 7), keep);
        out[0] = (Float)_mm512_mul_ps(_mm512_cvtph_ps(_mm512_castsi512_si256(halves)), factor);
        out[1] = (Float)_mm512_mul_ps(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)), factor);
    }

    // As in avx2_kernels.cpp: e4m3 bits at the places of a float's are 2^120 too small.
    DI_KERNEL_INLINE static void fp8_block_bits(const uint8_t* data, Float* out) {
        const __m512i keep = _mm512_set1_epi32(static_cast<int32_t>(0x87f00000U));
        DI_UNROLL
        for (int i = 0; i < 2; ++i) {
            const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 16 * i));
            out[i] = (Float)_mm512_and_si512(_mm512_slli_epi32(_mm512_cvtepi8_epi32(codes), 20), keep);
        }
    }
    static bool treats_subnormals_as_zero() { return (_mm_getcsr() & 0x8040U) != 0; }

    // All sixteen values, times the scale.
    DI_KERNEL_INLINE static Fp4Table fp4_table(float scale) {
        const __m512 values = _mm512_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, 0.0F, -0.5F, -1.0F, -1.5F, -2.0F,
                                             -3.0F, -4.0F, -6.0F);
        return (Float)_mm512_mul_ps(values, _mm512_set1_ps(scale));
    }
    DI_KERNEL_INLINE static void fp4_half_block(const uint8_t* data, Fp4Table table, Float* out) {
        const __m512i shifts = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
        int32_t words[2];
        __builtin_memcpy(words, data, 8);
        const __m512i codes = _mm512_inserti64x4(_mm512_set1_epi32(words[0]), _mm256_set1_epi32(words[1]), 1);
        // The permutation looks at the low four bits of each lane only.
        out[0] = (Float)_mm512_permutexvar_ps(_mm512_srlv_epi32(codes, shifts), (__m512)table);
    }
};

}  // namespace

}  // namespace di::cpu
#endif
