#if defined(__x86_64__)
#include "backend/cpu/avx512_simd.h"
#include "backend/cpu/make_kernels.h"

namespace di::cpu {

constinit const Kernels kAvx512Kernels = make_kernels<Avx512Simd>("avx512");

}  // namespace di::cpu
#endif
