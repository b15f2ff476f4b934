#pragma once

#include "base/result.h"
#include "weights/model_config.h"

namespace di {

// The rules that bind several keys of config.json to one another. Every single value is already within its own bounds;
// compress_ratios has layer_count + draft.stage_count entries.
[[nodiscard]] Status check_model_config(const ModelConfig& config);

}  // namespace di
