#pragma once

#include <cstdint>
#include <vector>

#include "engine/load.h"

namespace di {

// What the model is made for, from what the engine was asked and will do: plan and model must agree on it.
[[nodiscard]] ModelOptions make_model_options(const EngineOptions& options, const EngineLimits& limits,
                                              std::vector<int32_t> token_classes);

}  // namespace di
