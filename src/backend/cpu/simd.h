#pragma once

#include <cstdint>

// Vector operations that every instruction set shares, written with the vector types of GCC and clang. `S` is the set's own
// struct, which stands in an unnamed namespace: so every instantiation is local to its file and none can be
// mistaken for that of another set. It offers
//   kWidth, Float (float x kWidth), Int, Uint (32-bit x kWidth), Half (uint16_t x kWidth), Byte (uint8_t x kWidth)
//   set1, fma(a, b, c) = a b + c, sum (fixed tree over the lanes), swap_pairs (lanes 1, 0, 3, 2, ...)
//   load_bf16(bytes): kWidth bf16 values
//   fp8_block(data, scale, out): 32 e4m3 codes; scale is 2^8 times the block's
//   fp4_table(scale), fp4_half_block(data, table, out): 16 e2m1 codes
//   kTileOutputs[r]: outputs of a tile of r rows, 1 <= r <= 4
// and, where the set has a faster way that gives the same bits,
//   load_f16(bytes): kWidth IEEE halves
//   sum_four(vectors, sums): sum() of four vectors
//   fp4_block(data, scale, out): 32 e2m1 codes
//   fp8_block_bits(data, out), kFp8BitsFactor, treats_subnormals_as_zero(): 32 e4m3 codes without their scale, too small by the
//     factor, for products of one row
namespace di::cpu {

#if defined(__clang__)
#define DI_UNROLL _Pragma("clang loop unroll(full)")
#else
#define DI_UNROLL _Pragma("GCC unroll 32")
#endif
#define DI_KERNEL_INLINE [[gnu::always_inline]] inline

template <typename S>
DI_KERNEL_INLINE typename S::Float load(const float* from) {
    typename S::Float value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
}

template <typename S>
DI_KERNEL_INLINE void store(float* to, typename S::Float value) {
    __builtin_memcpy(to, &value, sizeof(value));
}

// The first `count` < kWidth values, zeros behind them.
template <typename S>
DI_KERNEL_INLINE typename S::Float load_part(const float* from, int64_t count, float rest = 0.0F) {
    float lanes[S::kWidth];
    for (int64_t i = 0; i < S::kWidth; ++i) {
        lanes[i] = rest;
    }
    for (int64_t i = 0; i < count; ++i) {
        __builtin_memcpy(&lanes[i], from + i, sizeof(float));  // may be unaligned
    }
    return load<S>(lanes);
}

template <typename S>
DI_KERNEL_INLINE void store_part(float* to, typename S::Float value, int64_t count) {
    float lanes[S::kWidth];
    store<S>(lanes, value);
    for (int64_t i = 0; i < count; ++i) {
        to[i] = lanes[i];
    }
}

template <typename S>
DI_KERNEL_INLINE typename S::Float load_bf16_part(const uint8_t* from, int64_t count) {
    uint16_t lanes[S::kWidth] = {};
    for (int64_t i = 0; i < count; ++i) {
        __builtin_memcpy(&lanes[i], from + 2 * i, 2);
    }
    return S::load_bf16(reinterpret_cast<const uint8_t*>(lanes));
}

// The bits of a half at the places of a float's are 2^112 too small, for subnormals too; infinity and NaN need a larger exponent.
template <typename S>
DI_KERNEL_INLINE typename S::Float load_f16(const uint8_t* from) {
    if constexpr (requires { &S::load_f16; }) {
        return S::load_f16(from);
    } else {
        using Uint = typename S::Uint;
        typename S::Half halves;
        __builtin_memcpy(&halves, from, sizeof(halves));
        const Uint bits = __builtin_convertvector(halves, Uint);
        const Uint magnitude = (bits & 0x7fffU) << 13;
        const Uint finite = (Uint)((typename S::Float)magnitude * S::set1(0x1p112F));
        return (typename S::Float)((magnitude >= (0x7c00U << 13) ? magnitude | 0x7f800000U : finite) |
                                   ((bits & 0x8000U) << 16));
    }
}

template <typename S>
DI_KERNEL_INLINE typename S::Float load_f16_part(const uint8_t* from, int64_t count) {
    uint16_t lanes[S::kWidth] = {};
    for (int64_t i = 0; i < count; ++i) {
        __builtin_memcpy(&lanes[i], from + 2 * i, 2);
    }
    return load_f16<S>(reinterpret_cast<const uint8_t*>(lanes));
}

template <typename S>
DI_KERNEL_INLINE typename S::Float abs(typename S::Float x) {
    return (typename S::Float)((typename S::Uint)x & 0x7fffffffU);
}

// Largest lane; a NaN lane counts as nothing.
template <typename S>
DI_KERNEL_INLINE float largest(typename S::Float x, float floor) {
    float lanes[S::kWidth];
    store<S>(lanes, x);
    float result = floor;
    for (int64_t i = 0; i < S::kWidth; ++i) {
        result = lanes[i] > result ? lanes[i] : result;
    }
    return result;
}

// To bf16 and back, to nearest even; NaN stays NaN.
template <typename S>
DI_KERNEL_INLINE typename S::Float round_bf16(typename S::Float x) {
    using Uint = typename S::Uint;
    const Uint bits = (Uint)x;
    const Uint rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U;
    const Uint quiet = (bits | 0x400000U) & 0xffff0000U;
    return (typename S::Float)((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

template <typename S>
DI_KERNEL_INLINE typename S::Float round_if(bool round, typename S::Float x) {
    return round ? round_bf16<S>(x) : x;
}

// e^x to about one unit in the last place; 0 below -87.33 (no subnormals), saturates above 88.37.
// Cody-Waite reduction and the Cephes polynomial of degree 5.
template <typename S>
DI_KERNEL_INLINE typename S::Float exp(typename S::Float x) {
    using Float = typename S::Float;
    using Int = typename S::Int;
    const Float low = S::set1(-87.33654F);
    const Float high = S::set1(88.37626F);
    Float y = x < low ? low : x;
    y = y > high ? high : y;
    const Float magic = S::set1(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
    const Float n = S::fma(y, S::set1(1.44269504088896341F), magic) - magic;
    Float r = S::fma(n, S::set1(-0.693359375F), y);
    r = S::fma(n, S::set1(2.12194440e-4F), r);
    Float p = S::set1(1.9875691500e-4F);
    p = S::fma(p, r, S::set1(1.3981999507e-3F));
    p = S::fma(p, r, S::set1(8.3334519073e-3F));
    p = S::fma(p, r, S::set1(4.1665795894e-2F));
    p = S::fma(p, r, S::set1(1.6666665459e-1F));
    p = S::fma(p, r, S::set1(5.0000001201e-1F));
    p = S::fma(p, r * r, r) + S::set1(1.0F);
    // A NaN converts to some integer and stays NaN in p.
    const Int exponent = __builtin_convertvector(n, Int);
    const Float result = p * (Float)((exponent + 127) << 23);
    return x < low ? S::set1(0.0F) : result;
}

template <typename S>
DI_KERNEL_INLINE typename S::Float sigmoid(typename S::Float x) {
    const typename S::Float one = S::set1(1.0F);
    return one / (one + exp<S>(-x));
}

// result = op(x) for one row, the tail by the same vector code.
template <typename S, typename Op>
DI_KERNEL_INLINE void map_row(const float* x, int64_t count, float* out, Op op) {
    int64_t i = 0;
    for (; i + S::kWidth <= count; i += S::kWidth) {
        store<S>(out + i, op(load<S>(x + i)));
    }
    if (i < count) {
        store_part<S>(out + i, op(load_part<S>(x + i, count - i)), count - i);
    }
}

}  // namespace di::cpu
