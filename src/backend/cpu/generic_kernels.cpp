#include "backend/cpu/make_kernels.h"

// Any machine: vectors of four that the compiler maps to what there is, no fused multiply-add.
namespace di::cpu {

namespace {

struct GenericSimd {
    static constexpr int kWidth = 4;
    static constexpr int kTileOutputs[5] = {0, 8, 4, 3, 2};
    using Float = float __attribute__((vector_size(16)));
    using Int = int32_t __attribute__((vector_size(16)));
    using Uint = uint32_t __attribute__((vector_size(16)));
    using Half = uint16_t __attribute__((vector_size(8)));
    using Byte = uint8_t __attribute__((vector_size(4)));
    struct Fp4Table {
        float scale;
    };

    static Float set1(float x) { return Float{x, x, x, x}; }
    static Float fma(Float a, Float b, Float c) { return a * b + c; }
    static Float load_bf16(const uint8_t* from) {
        Half bits;
        __builtin_memcpy(&bits, from, sizeof(bits));
        return (Float)(__builtin_convertvector(bits, Uint) << 16);
    }
    static Float swap_pairs(Float x) { return Float{x[1], x[0], x[3], x[2]}; }
    static float sum(Float x) { return (x[0] + x[2]) + (x[1] + x[3]); }

    static void fp8_block(const uint8_t* data, float scale, Float* out) {
        const float exact = scale * 0x1p-8F;
        for (int v = 0; v < 8; ++v) {
            const uint8_t* at = data + 4 * v;
            out[v] = Float{kE4m3Values[at[0]], kE4m3Values[at[1]], kE4m3Values[at[2]], kE4m3Values[at[3]]} * set1(exact);
        }
    }
    static Fp4Table fp4_table(float scale) { return {scale}; }
    static void fp4_half_block(const uint8_t* data, Fp4Table table, Float* out) {
        for (int v = 0; v < 4; ++v) {
            const uint8_t* at = data + 2 * v;
            out[v] = Float{kE2m1Values[at[0] & 15], kE2m1Values[at[0] >> 4], kE2m1Values[at[1] & 15], kE2m1Values[at[1] >> 4]} *
                     set1(table.scale);
        }
    }
};

}  // namespace

constinit const Kernels kGenericKernels = make_kernels<GenericSimd>("generic");

}  // namespace di::cpu
