#if defined(__x86_64__)
#include <immintrin.h>

#include "backend/cpu/make_kernels.h"

// AVX2 with FMA and F16C: 8 lanes, 16 registers.
namespace di::cpu {

namespace {

struct Avx2Simd {
    static constexpr int kWidth = 8;
    static constexpr int kTileOutputs[5] = {0, 8, 4, 4, 3};
    using Float = float __attribute__((vector_size(32)));
    using Int = int32_t __attribute__((vector_size(32)));
    using Uint = uint32_t __attribute__((vector_size(32)));
    using Half = uint16_t __attribute__((vector_size(16)));
    using Byte = uint8_t __attribute__((vector_size(8)));
    using Fp4Table = Float;

    DI_KERNEL_INLINE static Float set1(float x) { return (Float)_mm256_set1_ps(x); }
    DI_KERNEL_INLINE static Float fma(Float a, Float b, Float c) {
        return (Float)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
    }
    DI_KERNEL_INLINE static Float load_bf16(const uint8_t* from) {
        const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
        return (Float)_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
    }
    DI_KERNEL_INLINE static Float swap_pairs(Float x) { return (Float)_mm256_permute_ps((__m256)x, 0xb1); }
    DI_KERNEL_INLINE static float sum(Float x) {
        const __m256 wide = (__m256)x;
        __m128 half = _mm_add_ps(_mm256_castps256_ps128(wide), _mm256_extractf128_ps(wide, 1));
        half = _mm_add_ps(half, _mm_movehl_ps(half, half));
        return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
    }

    // s eeee mmm, sign-extended and shifted by 7, is an IEEE half once bit 14 (a copy of the sign) is cleared: 2^8 too small.
    DI_KERNEL_INLINE static void fp8_block(const uint8_t* data, float scale, Float* out) {
        const __m256 factor = _mm256_set1_ps(scale);
        const __m256i keep = _mm256_set1_epi16(static_cast<int16_t>(0xbf80));
        DI_UNROLL
        for (int i = 0; i < 2; ++i) {
            const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 16 * i));
            const __m256i halves = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7), keep);
            out[2 * i] = (Float)_mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), factor);
            out[2 * i + 1] = (Float)_mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)), factor);
        }
    }

    // The eight magnitudes, times the scale.
    DI_KERNEL_INLINE static Fp4Table fp4_table(float scale) {
        return (Float)_mm256_mul_ps(_mm256_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F), _mm256_set1_ps(scale));
    }
    DI_KERNEL_INLINE static void fp4_half_block(const uint8_t* data, Fp4Table table, Float* out) {
        const __m256i down = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
        const __m256i up = _mm256_setr_epi32(28, 24, 20, 16, 12, 8, 4, 0);
        const __m256i sign_bit = _mm256_set1_epi32(static_cast<int32_t>(0x80000000U));
        DI_UNROLL
        for (int i = 0; i < 2; ++i) {
            int32_t word = 0;
            __builtin_memcpy(&word, data + 4 * i, 4);
            const __m256i codes = _mm256_set1_epi32(word);
            const __m256 magnitude = _mm256_permutevar8x32_ps((__m256)table, _mm256_srlv_epi32(codes, down));
            const __m256i sign = _mm256_and_si256(_mm256_sllv_epi32(codes, up), sign_bit);
            out[i] = (Float)_mm256_or_ps(magnitude, _mm256_castsi256_ps(sign));
        }
    }
};

}  // namespace

constinit const Kernels kAvx2Kernels = make_kernels<Avx2Simd>("avx2");

}  // namespace di::cpu
#endif
