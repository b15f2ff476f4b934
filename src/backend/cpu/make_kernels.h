#pragma once

#include "backend/cpu/attention_body.h"
#include "backend/cpu/linear_body.h"
#include "backend/cpu/quant_body.h"
#include "backend/cpu/rows_body.h"

namespace di::cpu {

// The table of an instruction set whose vector struct is S.
template <typename S>
constexpr Kernels make_kernels(const char* name, void (*linear_bf16)(const LinearWork&) = nullptr) {
    return Kernels{.name = name,
                   .width = S::kWidth,
                   .linear = &linear<S>,
                   .linear_bf16 = linear_bf16,
                   .dots = &dots<S>,
                   .attention = &attention<S>,
                   .softmax_row = &softmax_row<S>,
                   .add_values = &add_values<S>,
                   .divide_row = &divide_row<S>,
                   .decode_weight_row = &decode_weight_row<S>,
                   .decode_cache_row = &decode_cache_row<S>,
                   .encode_cache_row = &encode_cache_row<S>,
                   .fake_quantise = &fake_quantise<S>,
                   .exp_row = &exp_row<S>,
                   .sigmoid_row = &sigmoid_row<S>,
                   .round_row = &round_row<S>,
                   .narrow_row = &narrow_row<S>,
                   .sum_squares = &sum_squares<S>,
                   .norm_row = &norm_row<S>,
                   .collapse = &collapse<S>,
                   .expand = &expand<S>,
                   .rotate = &rotate<S>,
                   .rotate_halves = &rotate_halves<S>,
                   .swiglu = &swiglu<S>,
                   .compress = &compress<S>,
                   .relu_sum = &relu_sum<S>,
                   .engram_dots = &engram_dots<S>,
                   .add_scaled = &add_scaled<S>,
                   .multiply_add_probe = &multiply_add_probe<S>,
                   .read_probe = &read_probe<S>};
}

}  // namespace di::cpu
