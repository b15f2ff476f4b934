#pragma once

#include <cstdint>
#include <vector>

namespace di {

struct ImageSize {
    int64_t width;
    int64_t height;
};

// Eight-bit RGB, rows top down. Owns its pixels.
struct RgbImage {
    ImageSize size;
    std::vector<uint8_t> pixels;  // [height, width, 3]
};

// Bicubic with antialias, bit for bit what Pillow's Image.resize(size, BICUBIC) gives: separable, horizontal first,
// 8-bit intermediate, coefficients in fixed point of 22 bits. (Pillow 13 goes vertically first where the height shrinks
// much more than the width; a resize that keeps the aspect ratio never does.) Both sizes must be positive.
[[nodiscard]] RgbImage resize_bicubic(const RgbImage& image, ImageSize size);

}  // namespace di
