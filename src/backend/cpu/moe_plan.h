#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"

namespace di::cpu {

// The (row, slot) pairs of one expert; the shared expert is one more group with all rows.
struct ExpertGroup {
    const ExpertWeights* weights = nullptr;
    int64_t first_pair = 0;  // in the lists of the plan
    int64_t pair_count = 0;
    int64_t first_hidden_item = 0;  // work items of all groups in one row
    int64_t first_output_item = 0;
};

// Where the expert layer keeps what is between its steps.
struct MoeBuffers {
    const float* quantised = nullptr;  // [rows, d] or null
    float* hidden = nullptr;           // [rows * slots, hidden_stride]
    int64_t hidden_stride = 0;
    float* results = nullptr;  // [rows * slots, d]
};

// Pairs sorted by expert, so that each expert's weights are read once a step. Reused for its memory.
struct MoePlan {
    std::vector<ExpertGroup> groups;
    std::vector<int64_t> starts;       // [experts + 1]
    std::vector<const float*> inputs;  // [pairs] rows of the layer's input
    std::vector<float*> hidden;        // [pairs] what `down` reads
    std::vector<float*> outputs;       // [pairs]
    std::vector<float> route_weights;  // [pairs]
    std::vector<float> ones;           // [slots] weights of the last sum
    int64_t hidden_items = 0;
    int64_t output_items = 0;
};

}  // namespace di::cpu
