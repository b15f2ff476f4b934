#pragma once

#include <initializer_list>

#include "backend/device_memory.h"
#include "base/result.h"
#include "model/model.h"

// The activation buffers of a model: sized once for the largest step, one allocation.
namespace di {

// Buffers one behind the other, at 64 bytes each. With `memory` nullptr only the sizes count.
class ActivationLayout {
  public:
    ActivationLayout(DType activation, void* memory) : activation_(activation), memory_(static_cast<char*>(memory)) {}

    Tensor activations(std::initializer_list<int64_t> dims) { return take(activation_, dims); }
    // An empty tensor for no elements.
    Tensor take(DType dtype, std::initializer_list<int64_t> dims);
    [[nodiscard]] int64_t bytes() const { return bytes_; }

  private:
    DType activation_;
    char* memory_;
    int64_t bytes_ = 0;
};

// Rows, sequences and logit rows of a step: at least one each.
[[nodiscard]] Status check_step_sizes(const ModelOptions& options);

// kOutOfMemory names the flag that lowers `bytes`.
[[nodiscard]] Result<DeviceMemory> allocate_activations(Backend& backend, int64_t bytes, const ModelOptions& options);

}  // namespace di
