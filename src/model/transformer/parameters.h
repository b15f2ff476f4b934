#pragma once

#include <vector>

#include "backend/backend.h"
#include "weights/checkpoint.h"
#include "weights/model_config.h"

// The checkpoint's tensors by their place in the model. Views into the checkpoint; names in parameters.cpp.
namespace di::transformer {

struct LayerParameters {
    Tensor attention_norm, feed_forward_norm;  // [d]
    Weight query, key, value, output;
    Tensor query_bias, key_bias, value_bias, output_bias;  // or empty
    Tensor query_norm, key_norm;                           // [head_dim], or empty
    ExpertWeights feed_forward;                            // layers without experts
    Weight router;                                         // [experts, d]; layers with experts
    std::vector<ExpertWeights> experts;
};

struct Parameters {
    Weight embed, head;
    Tensor norm;
    std::vector<LayerParameters> layers;
};

[[nodiscard]] Parameters bind_parameters(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace di::transformer
