#if defined(__aarch64__)
#include <arm_neon.h>

#include "backend/cpu/make_kernels.h"

// NEON of Armv8: 4 lanes, 32 registers.
namespace di::cpu {

namespace {

struct NeonSimd {
    static constexpr int kWidth = 4;
    static constexpr int kTileOutputs[5] = {0, 8, 8, 6, 6};
    using Float = float __attribute__((vector_size(16)));
    using Int = int32_t __attribute__((vector_size(16)));
    using Uint = uint32_t __attribute__((vector_size(16)));
    using Half = uint16_t __attribute__((vector_size(8)));
    using Byte = uint8_t __attribute__((vector_size(4)));
    struct Fp4Table {
        float32x4_t half_scale;
    };

    DI_KERNEL_INLINE static Float set1(float x) { return (Float)vdupq_n_f32(x); }
    DI_KERNEL_INLINE static Float fma(Float a, Float b, Float c) {
        return (Float)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
    }
    DI_KERNEL_INLINE static Float load_bf16(const uint8_t* from) {
        return (Float)vshlq_n_u32(vmovl_u16(vreinterpret_u16_u8(vld1_u8(from))), 16);
    }
    DI_KERNEL_INLINE static Float swap_pairs(Float x) { return (Float)vrev64q_f32((float32x4_t)x); }
    DI_KERNEL_INLINE static float sum(Float x) { return (x[0] + x[2]) + (x[1] + x[3]); }

    // As in avx2_kernels.cpp: e4m3 bits become an IEEE half that is 2^8 too small.
    DI_KERNEL_INLINE static void fp8_block(const uint8_t* data, float scale, Float* out) {
        const float32x4_t factor = vdupq_n_f32(scale);
        const uint16x8_t keep = vdupq_n_u16(0xbf80);
        DI_UNROLL
        for (int i = 0; i < 4; ++i) {
            const int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(vld1_u8(data + 8 * i)));
            const uint16x8_t halves = vandq_u16(vreinterpretq_u16_s16(vshlq_n_s16(wide, 7)), keep);
            const float16x8_t values = vreinterpretq_f16_u16(halves);
            out[2 * i] = (Float)vmulq_f32(vcvt_f32_f16(vget_low_f16(values)), factor);
            out[2 * i + 1] = (Float)vmulq_f32(vcvt_high_f32_f16(values), factor);
        }
    }

    DI_KERNEL_INLINE static Fp4Table fp4_table(float scale) { return {vdupq_n_f32(scale * 0.5F)}; }
    DI_KERNEL_INLINE static void fp4_half_block(const uint8_t* data, Fp4Table table, Float* out) {
        // Twice the values, so that they are integers.
        alignas(16) static const int8_t kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
        const uint8x8_t bytes = vld1_u8(data);
        const uint8x8_t low = vand_u8(bytes, vdup_n_u8(15));
        const uint8x8_t high = vshr_n_u8(bytes, 4);
        const uint8x16_t codes = vcombine_u8(vzip1_u8(low, high), vzip2_u8(low, high));
        const int8x16_t doubled = vqtbl1q_s8(vld1q_s8(kDoubled), codes);
        const int16x8_t first = vmovl_s8(vget_low_s8(doubled));
        const int16x8_t second = vmovl_high_s8(doubled);
        out[0] = (Float)vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(first))), table.half_scale);
        out[1] = (Float)vmulq_f32(vcvtq_f32_s32(vmovl_high_s16(first)), table.half_scale);
        out[2] = (Float)vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(second))), table.half_scale);
        out[3] = (Float)vmulq_f32(vcvtq_f32_s32(vmovl_high_s16(second)), table.half_scale);
    }
};

}  // namespace

constinit const Kernels kNeonKernels = make_kernels<NeonSimd>("neon");

}  // namespace di::cpu
#endif
