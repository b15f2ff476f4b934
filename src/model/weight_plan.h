#pragma once

#include <cstdint>

#include "weights/model_config.h"

namespace di {

// Sizes of a model's weights by how they are used, for memory plans.
struct WeightBytes {
    // What every token of text runs through: attention, shared experts, routers, hyper-connections, embedding, head.
    int64_t resident = 0;
    // Mapped and read when used: routed experts, Engram tables, the draft model, the vision tower.
    int64_t on_demand = 0;
};

// Of the form in which `config` says that the weights are stored. No file is read.
[[nodiscard]] WeightBytes weight_bytes(const ModelConfig& config);

}  // namespace di
