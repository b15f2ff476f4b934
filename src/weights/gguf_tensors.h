#pragma once

#include <vector>

#include "base/result.h"
#include "weights/gguf_file.h"
#include "weights/inventory.h"

namespace di {

// A tensor of the inventory where a GGUF file keeps it: a whole tensor, or one expert's part of one.
struct GgufPart {
    DType dtype = DType::kF32;
    const uint8_t* data = nullptr;  // inside the file's mapping
    int64_t bytes = 0;
};

// One part for each of `expected`, in their order. Fails when a tensor is missing, has another shape or a type that its place
// does not take, or when the file has tensors that belong to none. Errors begin with the path.
[[nodiscard]] Result<std::vector<GgufPart>> match_gguf_tensors(const GgufFile& file,
                                                               const std::vector<ExpectedTensor>& expected);

}  // namespace di
