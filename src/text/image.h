#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "text/image_patches.h"
#include "text/image_plan.h"
#include "text/image_resize.h"

namespace di {

// Size of an encoded image from its header alone: PNG, JPEG or WebP, told apart by content. Refuses other formats, and
// sizes beyond the limits (limits.h).
[[nodiscard]] Result<ImageSize> read_image_size(std::span<const uint8_t> bytes);

// Decodes to what Pillow's Image.open(...).convert("RGB") gives: alpha dropped, gray and palette expanded, no EXIF rotation.
// Nothing is allocated before the header's size has passed the limits. A truncated or damaged file is an error.
[[nodiscard]] Result<RgbImage> decode_image(std::span<const uint8_t> bytes);

// Decodes, resizes and cuts: from a request's bytes to the input of the vision tower.
[[nodiscard]] Result<ImagePatches> load_image(std::span<const uint8_t> bytes, const ImageGeometry& geometry);

}  // namespace di
