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
    static constexpr float kFp8BitsFactor = 0x1p120F;

    DI_KERNEL_INLINE static Float set1(float x) { return (Float)_mm256_set1_ps(x); }
    DI_KERNEL_INLINE static Float fma(Float a, Float b, Float c) {
        return (Float)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
    }
    DI_KERNEL_INLINE static Float load_bf16(const uint8_t* from) {
        const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
        return (Float)_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
    }
    DI_KERNEL_INLINE static Float load_f16(const uint8_t* from) {
        return (Float)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    }
    DI_KERNEL_INLINE static Float swap_pairs(Float x) { return (Float)_mm256_permute_ps((__m256)x, 0xb1); }
    DI_KERNEL_INLINE static float sum(Float x) {
        const __m256 wide = (__m256)x;
        __m128 half = _mm_add_ps(_mm256_castps256_ps128(wide), _mm256_extractf128_ps(wide, 1));
        half = _mm_add_ps(half, _mm_movehl_ps(half, half));
        return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
    }
    // The same additions for four vectors at once.
    DI_KERNEL_INLINE static void sum_four(const Float* x, float* sums) {
        const auto fold = [](__m256 a, __m256 b) __attribute__((always_inline)) {
            return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
        };
        const __m256 first = fold((__m256)x[0], (__m256)x[1]);
        const __m256 second = fold((__m256)x[2], (__m256)x[3]);
        const __m256 pairs = _mm256_add_ps(_mm256_shuffle_ps(first, second, 0x44), _mm256_shuffle_ps(first, second, 0xee));
        const __m256 all = _mm256_add_ps(pairs, _mm256_permute_ps(pairs, 0xb1));
        // Lanes 0, 2 have x[0], x[2]; lanes 4, 6 have x[1], x[3].
        const __m128 even = _mm256_castps256_ps128(all);
        const __m128 odd = _mm256_extractf128_ps(all, 1);
        _mm_storeu_ps(sums, _mm_blend_ps(even, _mm_permute_ps(odd, 0x80), 0xa));
    }

    // A constant that the compiler keeps, in a register or on the stack: it would compose it again for each use through a general
    // register, for which two ports must work.
    DI_KERNEL_INLINE static __m256i kept(__m256i constant) {
        asm("" : "+x"(constant));
        return constant;
    }
    // The codes of a block as bytes of 32-bit lanes: lane i has codes i, i + 8, i + 16, i + 24 from its low byte upwards, so
    // that four shifts give four vectors in natural order.
    DI_KERNEL_INLINE static __m256i columns(__m256i bytes) {
        const __m256i halves = kept(_mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
        const __m256i turn = kept(_mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                                                   0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
        return _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(bytes, halves), turn);
    }
    // Two bf16 values of each lane, the lower one first, times the factor.
    DI_KERNEL_INLINE static void widen_pairs(__m256i pairs, __m256 factor, Float& low, Float& high) {
        const __m256i upper = kept(_mm256_set1_epi32(static_cast<int32_t>(0xffff0000U)));
        low = (Float)_mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)), factor);
        high = (Float)_mm256_mul_ps(_mm256_castsi256_ps(_mm256_and_si256(pairs, upper)), factor);
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

    // s eeee mmm at the places of a float's sign, lowest four bits of the exponent and mantissa is 2^120 too small, for subnormals
    // too: half the instructions of fp8_block, which converts and scales each value. Subnormals become subnormal floats: operands
    // that some processors are slow with, but rare ones (a weight of 2^-15 of the largest in its block).
    DI_KERNEL_INLINE static void fp8_block_bits(const uint8_t* data, Float* out) {
        const __m256i keep = kept(_mm256_set1_epi32(static_cast<int32_t>(0x87f00000U)));
        const __m256i odd = columns(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(data)));
        const __m256i odd_bits = _mm256_srai_epi16(odd, 4);
        const __m256i even_bits = _mm256_srai_epi16(_mm256_slli_epi16(odd, 8), 4);
        out[0] = (Float)_mm256_and_si256(_mm256_slli_epi32(even_bits, 16), keep);
        out[1] = (Float)_mm256_and_si256(_mm256_slli_epi32(odd_bits, 16), keep);
        out[2] = (Float)_mm256_and_si256(even_bits, keep);
        out[3] = (Float)_mm256_and_si256(odd_bits, keep);
    }
    static bool treats_subnormals_as_zero() { return (_mm_getcsr() & 0x8040U) != 0; }

    // 32 e2m1 codes: each becomes the upper and the lower byte of its bf16 value by look-up.
    DI_KERNEL_INLINE static void fp4_block(const uint8_t* data, float scale, Float* out) {
        // Byte j has codes 2 j and 2 j + 1. Pairs of pairs: (2 i, 2 i + 8), then the same bytes again for (2 i + 1, 2 i + 9).
        const __m256i places = kept(_mm256_setr_epi8(0, 4, 0, 4, 1, 5, 1, 5, 8, 12, 8, 12, 9, 13, 9, 13,  //
                                                     2, 6, 2, 6, 3, 7, 3, 7, 10, 14, 10, 14, 11, 15, 11, 15));
        const __m256i lower_bytes =
            kept(_mm256_setr_epi8(0, 0, -128, -64, 0, 64, -128, -64, 0, 0, -128, -64, 0, 64, -128, -64,  //
                                  0, 0, -128, -64, 0, 64, -128, -64, 0, 0, -128, -64, 0, 64, -128, -64));
        const __m256i upper_bytes =
            kept(_mm256_setr_epi8(0, 63, 63, 63, 64, 64, 64, 64, -128, -65, -65, -65, -64, -64, -64, -64,  //
                                  0, 63, 63, 63, 64, 64, 64, 64, -128, -65, -65, -65, -64, -64, -64, -64));
        const __m256i bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data)));
        const __m256i low = _mm256_shuffle_epi8(bytes, places);
        const __m256i both = _mm256_blend_epi16(low, _mm256_srli_epi16(low, 4), 0xaa);
        const __m256i codes = _mm256_and_si256(both, kept(_mm256_set1_epi8(15)));
        const __m256i lower = _mm256_shuffle_epi8(lower_bytes, codes);
        const __m256i upper = _mm256_shuffle_epi8(upper_bytes, codes);
        const __m256 factor = _mm256_set1_ps(scale);
        widen_pairs(_mm256_unpacklo_epi8(lower, upper), factor, out[0], out[1]);
        widen_pairs(_mm256_unpackhi_epi8(lower, upper), factor, out[2], out[3]);
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
