#pragma once

#include "backend/cpu/linear_body.h"

// Cache rows and quantised activations. Bytes equal those of tensor/quant.cpp: the same formulas on vectors.
namespace di::cpu {

// UE8M0 code of the smallest power of two >= value > 0.
template <typename S>
DI_KERNEL_INLINE uint32_t e8m0_ceil(float value) {
    uint32_t bits = 0;
    __builtin_memcpy(&bits, &value, 4);
    const uint32_t exponent = ((bits >> 23) & 255U) + ((bits & 0x7fffffU) != 0 ? 1U : 0U);
    return exponent < 254U ? exponent : 254U;
}

// |x| to the nearest e4m3 value, ties to even, saturated; NaN stays.
template <typename S>
DI_KERNEL_INLINE typename S::Float round_e4m3(typename S::Float magnitude) {
    using Float = typename S::Float;
    using Uint = typename S::Uint;
    const Uint bits = (Uint)magnitude;
    const Float normal = (Float)((bits + 0x7ffffU + ((bits >> 20) & 1U)) & 0xfff00000U);
    // Adding 1.5 * 2^14 leaves multiples of 2^-9, the subnormals.
    const Float magic = S::set1(24576.0F);
    const Float small = (magnitude + magic) - magic;
    const Float most = S::set1(448.0F);
    Float result = magnitude < S::set1(0x1p-6F) ? small : normal;
    result = result > most ? most : result;
    result = magnitude >= most ? most : result;
    return magnitude != magnitude ? magnitude : result;
}

// Code of a value that is exactly an e4m3 magnitude, or NaN.
template <typename S>
DI_KERNEL_INLINE typename S::Uint e4m3_code(typename S::Float magnitude) {
    using Uint = typename S::Uint;
    using Int = typename S::Int;
    const Uint normal = ((Uint)magnitude >> 20) - 960U;
    const Uint small = (Uint) __builtin_convertvector(magnitude * S::set1(512.0F), Int);
    const Uint code = magnitude < S::set1(0x1p-6F) ? small : normal;
    return magnitude != magnitude ? code * 0U + 0x7fU : code;
}

// Code 0..7 of |x|: how many borders lie below it, ties to the even code.
template <typename S>
DI_KERNEL_INLINE typename S::Int e2m1_code(typename S::Float m) {
    using Int = typename S::Int;
    return -((Int)(m > S::set1(0.25F)) + (Int)(m >= S::set1(0.75F)) + (Int)(m > S::set1(1.25F)) + (Int)(m >= S::set1(1.75F)) +
             (Int)(m > S::set1(2.5F)) + (Int)(m >= S::set1(3.5F)) + (Int)(m > S::set1(5.0F)));
}

template <typename S>
DI_KERNEL_INLINE typename S::Float e2m1_value(typename S::Int code) {
    using Float = typename S::Float;
    const Float half = __builtin_convertvector(code, Float) * S::set1(0.5F);
    const Float five = code > 5 ? S::set1(4.0F) : S::set1(3.0F);
    const Float big = code > 6 ? S::set1(6.0F) : five;
    return code > 4 ? big : half;
}

template <typename S, int N>
DI_KERNEL_INLINE float group_amax(const float* x, float floor) {
    typename S::Float top = S::set1(floor);
    for (int i = 0; i < N; i += S::kWidth) {
        const typename S::Float a = abs<S>(load<S>(x + i));
        top = a > top ? a : top;
    }
    return largest<S>(top, floor);
}

template <typename S>
DI_KERNEL_INLINE void put_bytes(uint8_t* to, typename S::Uint codes) {
    const auto bytes = __builtin_convertvector(codes, typename S::Byte);
    __builtin_memcpy(to, &bytes, sizeof(bytes));
}

// As di::f32_to_f16 in tensor/quant.cpp.
template <typename S>
DI_KERNEL_INLINE typename S::Uint f16_code(typename S::Float x) {
    using Float = typename S::Float;
    using Uint = typename S::Uint;
    using Int = typename S::Int;
    const Float magnitude = abs<S>(x);
    const Uint bits = (Uint)magnitude;
    const Uint normal = ((bits + 0xfffU + ((bits >> 13) & 1U)) >> 13) - (112U << 10);
    // Adding 1.5 * 2^23 rounds to an integer; larger values are chosen away below.
    const Float magic = S::set1(12582912.0F);
    const Float scaled = magnitude < S::set1(0x1p-14F) ? magnitude * S::set1(0x1p24F) : S::set1(0.0F);
    const Uint small = (Uint) __builtin_convertvector((scaled + magic) - magic, Int);
    Uint code = magnitude < S::set1(0x1p-14F) ? small : normal;
    code = magnitude >= S::set1(65504.0F) ? code * 0U + 0x7bffU : code;
    code = magnitude != magnitude ? code * 0U + 0x7e00U : code;
    return code | (((Uint)x & 0x80000000U) >> 16);
}

template <typename S>
void encode_f16_row(const float* values, int64_t count, uint8_t* data) {
    for (int64_t i = 0; i < count; i += S::kWidth) {
        const int64_t rest = count - i < S::kWidth ? count - i : S::kWidth;
        const typename S::Float x = rest == S::kWidth ? load<S>(values + i) : load_part<S>(values + i, rest);
        const auto halves = __builtin_convertvector(f16_code<S>(x), typename S::Half);
        __builtin_memcpy(data + 2 * i, &halves, static_cast<unsigned long>(rest) * 2U);
    }
}

// One group of FP8: 32 values. Either output may be null.
template <typename S>
DI_KERNEL_INLINE uint32_t fp8_group(const float* x, uint8_t* data, float* values) {
    using Float = typename S::Float;
    using Uint = typename S::Uint;
    const uint32_t code = e8m0_ceil<S>(group_amax<S, 32>(x, 1e-4F) / 448.0F);
    const Float scale = S::set1(kE8m0Values[code]);
    for (int i = 0; i < 32; i += S::kWidth) {
        const Float value = load<S>(x + i);
        const Uint sign = (Uint)value & 0x80000000U;
        const Float magnitude = round_e4m3<S>(abs<S>(value / scale));
        if (data != nullptr) {
            const Uint nan_sign = magnitude != magnitude ? sign * 0U : sign >> 24;
            put_bytes<S>(data + i, e4m3_code<S>(magnitude) | nan_sign);
        }
        if (values != nullptr) {
            store<S>(values + i, (Float)((Uint)magnitude | sign) * scale);
        }
    }
    return code;
}

// N values of FP4 under one scale: x * inverse rounded; values get times scale.
template <typename S, int N>
DI_KERNEL_INLINE void fp4_group(const float* x, float scale, bool divide, uint8_t* data, float* values) {
    using Float = typename S::Float;
    using Uint = typename S::Uint;
    using Int = typename S::Int;
    uint8_t codes[N];
    const Float divisor = S::set1(scale);
    const Float inverse = S::set1(1.0F / scale);
    for (int i = 0; i < N; i += S::kWidth) {
        const Float value = load<S>(x + i);
        const Float scaled = divide ? value / divisor : value * inverse;
        const Int code = e2m1_code<S>(abs<S>(scaled));
        // A negative value that rounds to zero becomes plus zero.
        const Uint sign = (Uint)(code > 0) & ((Uint)scaled & 0x80000000U);
        if (data != nullptr) {
            put_bytes<S>(codes + i, (Uint)code | (sign >> 28));
        }
        if (values != nullptr) {
            store<S>(values + i, (Float)((Uint)e2m1_value<S>(code) | sign) * divisor);
        }
    }
    for (int i = 0; i < N / 2 && data != nullptr; ++i) {
        data[i] = static_cast<uint8_t>(codes[2 * i] | (codes[2 * i + 1] << 4));
    }
}

template <typename S>
DI_KERNEL_INLINE uint32_t mxfp4_group(const float* x, uint8_t* data, float* values) {
    const uint32_t code = e8m0_ceil<S>(group_amax<S, 32>(x, 6.0F * 0x1p-126F) / 6.0F);
    fp4_group<S, 32>(x, kE8m0Values[code], true, data, values);
    return code;
}

template <typename S>
DI_KERNEL_INLINE uint32_t nvfp4_group(const float* x, uint8_t* data, float* values) {
    const float wanted = group_amax<S, 16>(x, 6.0F * 0x1p-9F) / 6.0F;
    float lanes[S::kWidth];
    const typename S::Float rounded = round_e4m3<S>(S::set1(wanted));
    store<S>(lanes, rounded);
    fp4_group<S, 16>(x, lanes[0], false, data, values);
    const typename S::Uint code = e4m3_code<S>(rounded);
    return code[0];
}

template <typename S>
void encode_cache_row(CacheFormat format, const float* values, int64_t dim, uint8_t* data, uint8_t* scale) {
    switch (format) {
        case CacheFormat::kF32: __builtin_memcpy(data, values, static_cast<unsigned long>(dim) * 4U); return;
        case CacheFormat::kF16: encode_f16_row<S>(values, dim, data); return;
        case CacheFormat::kFp8:
            for (int64_t i = 0; i < dim; i += 32) {
                scale[i / 32] = static_cast<uint8_t>(fp8_group<S>(values + i, data + i, nullptr));
            }
            return;
        case CacheFormat::kMxfp4:
            for (int64_t i = 0; i < dim; i += 32) {
                scale[i / 32] = static_cast<uint8_t>(mxfp4_group<S>(values + i, data + i / 2, nullptr));
            }
            return;
        case CacheFormat::kNvfp4:
            for (int64_t i = 0; i < dim; i += 16) {
                scale[i / 16] = static_cast<uint8_t>(nvfp4_group<S>(values + i, data + i / 2, nullptr));
            }
            return;
    }
}

template <typename S>
void fake_quantise(CacheFormat format, const float* values, int64_t count, float* out) {
    switch (format) {
        case CacheFormat::kF32: __builtin_memmove(out, values, static_cast<unsigned long>(count) * 4U); return;
        case CacheFormat::kF16:
            for (int64_t i = 0; i < count; i += S::kWidth) {
                uint8_t data[2 * S::kWidth];
                const int64_t rest = count - i < S::kWidth ? count - i : S::kWidth;
                encode_f16_row<S>(values + i, rest, data);
                store_part<S>(out + i, load_f16_part<S>(data, rest), rest);
            }
            return;
        case CacheFormat::kFp8:
            for (int64_t i = 0; i < count; i += 32) {
                fp8_group<S>(values + i, nullptr, out + i);
            }
            return;
        case CacheFormat::kMxfp4:
            for (int64_t i = 0; i < count; i += 32) {
                mxfp4_group<S>(values + i, nullptr, out + i);
            }
            return;
        case CacheFormat::kNvfp4:
            for (int64_t i = 0; i < count; i += 16) {
                nvfp4_group<S>(values + i, nullptr, out + i);
            }
            return;
    }
}

template <typename S>
void decode_cache_row(CacheFormat format, const uint8_t* data, const uint8_t* scale, int64_t dim, float* out) {
    WeightRows row;
    row.data = data;
    row.scale = scale;
    switch (format) {
        case CacheFormat::kF32: __builtin_memcpy(out, data, static_cast<unsigned long>(dim) * 4U); return;
        case CacheFormat::kF16: decode_row<S>(F16Reader<S>(row, 0), dim, out); return;
        case CacheFormat::kFp8: decode_row<S>(Fp8Reader<S>(row, 0), dim, out); return;
        case CacheFormat::kMxfp4: decode_row<S>(Fp4Reader<S>(row, 0), dim, out); return;
        case CacheFormat::kNvfp4:
            for (int64_t i = 0; i < dim; i += 16) {
                typename S::Float values[16 / S::kWidth];
                S::fp4_half_block(data + i / 2, S::fp4_table(kE4m3Values[scale[i / 16]]), values);
                DI_UNROLL
                for (int v = 0; v < 16 / S::kWidth; ++v) {
                    store<S>(out + i + v * S::kWidth, values[v]);
                }
            }
            return;
    }
}

}  // namespace di::cpu
