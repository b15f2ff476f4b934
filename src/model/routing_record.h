#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "model/model.h"

namespace di {

// Which experts the rows of a step chose. A step's layers leave their choices one behind the other in a buffer of the model,
// [layers, rows, slots] i32 on the device, until the next step: so they can be counted at one go.
class RoutingRecord {
  public:
    RoutingRecord(int32_t layer_count, int32_t expert_count, int32_t slots);

    void begin_step() { rows_.assign(rows_.size(), 0); }
    // Where in `buffer` the choices of this layer's rows go, [rows, slots]. Once a step for each layer, in ascending order.
    [[nodiscard]] Tensor place(int32_t layer, int64_t rows, const Tensor& buffer);
    // Of the step so far, as Model::routing_counts() says; nothing for a model without experts.
    [[nodiscard]] Model::RoutingCounts counts(Backend& backend, const Tensor& buffer);

  private:
    int32_t expert_count_;
    int32_t slots_;
    std::vector<int32_t> rows_;         // [layers] that the layer routed
    std::vector<int32_t> experts_;      // what they chose, on the host
    std::vector<int32_t> expert_rows_;  // [layers, experts]
};

}  // namespace di
