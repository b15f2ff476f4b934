#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"

namespace di {

// How a checkpoint lays out images: the fields of its vision_config.
struct ImageGeometry {
    int patch_size = 14;                 // pixels of a side of a ViT patch
    int downsample_ratio = 3;            // patches of a side of an LLM image token
    int max_image_tokens = 1024;         // per image, start, end and newlines included
    int64_t min_pixels = 0;              // smaller images are planned as if enlarged to this area
    std::optional<double> max_wh_ratio;  // widest width / height, none: any
};

// What an image of a given size becomes. The canvas is a whole number of patches; the image is
// resized to fit inside it and centred, the rest is padding.
struct ImagePlan {
    int64_t canvas_width, canvas_height;    // pixels
    int64_t grid_width, grid_height;        // ViT patches
    int64_t token_columns, token_rows;      // LLM image tokens, without newlines
    int64_t token_count;                    // of the whole span: start, rows each with a newline, end
    int64_t resized_width, resized_height;  // the image inside the canvas
    int64_t left, top;                      // where it is put
};

// Fails on a geometry or a size out of range (limits.h); never on the shape of an image.
[[nodiscard]] Result<ImagePlan> plan_image(int64_t width, int64_t height, const ImageGeometry& geometry);

// The range check of a geometry alone, for the loading of a config.
[[nodiscard]] Status check_image_geometry(const ImageGeometry& geometry);

}  // namespace di
