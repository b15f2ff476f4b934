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
        case DType::kQ4_0: return "q4_0";
        case DType::kQ4_1: return "q4_1";
        case DType::kQ5_0: return "q5_0";
        case DType::kQ5_1: return "q5_1";
        case DType::kQ8_0: return "q8_0";
        case DType::kQ2_K: return "q2_k";
        case DType::kQ3_K: return "q3_k";
        case DType::kQ4_K: return "q4_k";
        case DType::kQ5_K: return "q5_k";
        case DType::kQ6_K: return "q6_k";
        case DType::kIq4Nl: return "iq4_nl";
        case DType::kMxfp4: return "mxfp4";
    }
    return "?";
}

}  // namespace di
