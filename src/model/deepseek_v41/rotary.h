#pragma once

#include <vector>

#include "weights/model_config.h"

namespace di::v41 {

// [rope_dim / 2] angles per position, f32.
// Layers without compression and draft stages: theta^(-2i/R).
[[nodiscard]] std::vector<float> base_frequencies(const ModelConfig& config);
// Compressed layers: compress_rope_theta with YaRN, always, without a magnitude factor.
[[nodiscard]] std::vector<float> yarn_frequencies(const ModelConfig& config);

}  // namespace di::v41
