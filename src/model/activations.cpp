#include "model/activations.h"

#include <utility>

namespace di {

Tensor ActivationLayout::take(DType dtype, std::initializer_list<int64_t> dims) {
    Tensor tensor(nullptr, dtype, dims);
    if (tensor.size() == 0) {
        return {};
    }
    tensor.data = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (tensor.size() * dtype_bits(dtype) / 8 + 63) / 64 * 64;
    return tensor;
}

Status check_step_sizes(const ModelOptions& options) {
    if (options.rows_max < 1 || options.sequences_max < 1 || options.logit_rows_max < 1) {
        return fail(ErrorCode::kInvalidArgument, "rows, sequences and logit rows of a step must be at least 1, not {}, {}, {}",
                    options.rows_max, options.sequences_max, options.logit_rows_max);
    }
    return {};
}

Result<DeviceMemory> allocate_activations(Backend& backend, int64_t bytes, const ModelOptions& options) {
    DeviceMemory memory = allocate_device(backend, bytes);
    if (memory == nullptr) {
        return fail(ErrorCode::kOutOfMemory, "no memory for {} bytes of activations; lower --max-num-batched-tokens ({})",
                    bytes, options.rows_max);
    }
    return memory;
}

}  // namespace di
