#pragma once

#include <cstdint>

#include "backend/cpu/kernels.h"

namespace di::cpu {

// Residual streams at most: a row's mixes and its streams of one column stay in small arrays.
inline constexpr int64_t kStreamsMax = 16;

// Brings rows, then columns, of the positive matrix exp(c) [s, s] to sum 1, `iterations` times; the first row pass is a
// softmax.
void sinkhorn(const Kernels& kernels, float* c, int64_t s, int iterations, float epsilon);

}  // namespace di::cpu
