#include <cstddef>

#include "backend/cpu/kernels.h"

// Constant initialisation, so that no kernel can run before its tables exist.
namespace di::cpu {

namespace {

constexpr float power_of_two(int exponent) {
    float value = 1.0F;
    for (int i = 0; i < exponent; ++i) {
        value *= 2.0F;
    }
    for (int i = 0; i > exponent; --i) {
        value *= 0.5F;
    }
    return value;
}

constexpr float e4m3(int code) {
    const int exponent = (code >> 3) & 15;
    const auto mantissa = static_cast<float>(code & 7);
    const float value = exponent == 0 ? mantissa * power_of_two(-9) : (1.0F + mantissa / 8.0F) * power_of_two(exponent - 7);
    return (code & 0x80) != 0 ? -value : value;
}

constexpr float kNaN = __builtin_nanf("");

}  // namespace

#define DI_ROW4(f, i) f(i), f((i) + 1), f((i) + 2), f((i) + 3)
#define DI_ROW16(f, i) DI_ROW4(f, i), DI_ROW4(f, (i) + 4), DI_ROW4(f, (i) + 8), DI_ROW4(f, (i) + 12)
#define DI_ROW64(f, i) DI_ROW16(f, i), DI_ROW16(f, (i) + 16), DI_ROW16(f, (i) + 32), DI_ROW16(f, (i) + 48)
#define DI_ROW256(f) DI_ROW64(f, 0), DI_ROW64(f, 64), DI_ROW64(f, 128), DI_ROW64(f, 192)
#define DI_SCALE(code) ((code) == 255 ? kNaN : power_of_two((code)-127))
#define DI_SCALE_256(code) ((code) == 255 ? kNaN : power_of_two((code) > 246 ? 127 : (code)-119))

constinit const float kE8m0Values[256] = {DI_ROW256(DI_SCALE)};
constinit const float kE8m0ValuesTimes256[256] = {DI_ROW256(DI_SCALE_256)};
constinit const float kE4m3Values[256] = {DI_ROW256(e4m3)};
constinit const float kE2m1Values[16] = {0.0F, 0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                         0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

}  // namespace di::cpu
