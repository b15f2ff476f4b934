#pragma once

#include <vector>

#include "weights/model_config.h"

namespace di::transformer {

// [rope_dim / 2] angles per position, f32: theta^(-2i/R), scaled as the config says.
[[nodiscard]] std::vector<float> frequencies(const ModelConfig& config);

}  // namespace di::transformer
