#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "text/image_plan.h"
#include "text/image_resize.h"

namespace di {

// An image as the vision tower takes it, and the span that it takes in the prompt:
// [start] + ([image] * token_columns + [newline]) * token_rows + [end].
struct ImagePatches {
    std::vector<float> values;  // [grid_height * grid_width, 3 * patch * patch], row-major over the grid, each patch
                                // [channel, y, x]; float holding values that bf16 represents exactly
    int64_t grid_height = 0;    // ViT patches
    int64_t grid_width = 0;
    int64_t token_rows = 0;  // LLM image tokens
    int64_t token_columns = 0;
    int64_t token_count = 0;  // of the whole span
};

// Resizes, pads with gray, normalises to -1..1 and cuts into patches.
[[nodiscard]] Result<ImagePatches> make_image_patches(const RgbImage& image, const ImageGeometry& geometry);

}  // namespace di
