#include "tensor/dtype.h"

namespace di {

std::string_view dtype_name(DType dtype) {
    switch (dtype) {
        case DType::kF32: return "f32";
        case DType::kBF16: return "bf16";
        case DType::kF16: return "f16";
        case DType::kF8E4M3: return "f8_e4m3";
        case DType::kF8E8M0: return "f8_e8m0";
        case DType::kF4E2M1: return "f4_e2m1";
        case DType::kU8: return "u8";
        case DType::kI8: return "i8";
        case DType::kI16: return "i16";
        case DType::kI32: return "i32";
        case DType::kI64: return "i64";
    }
    return "?";
}

}  // namespace di
