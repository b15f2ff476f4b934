#include "text/image_patches.h"

#include <array>
#include <cstring>

#include "tensor/quant.h"

namespace di {
namespace {

constexpr int64_t kChannels = 3;
constexpr uint8_t kPadding = 127;

// (byte / 255 - 0.5) / 0.5, rounded to bf16.
std::array<float, 256> make_levels() {
    std::array<float, 256> levels{};
    for (size_t byte = 0; byte < levels.size(); ++byte) {
        levels[byte] = round_bf16((static_cast<float>(byte) / 255.0f - 0.5f) / 0.5f);
    }
    return levels;
}

RgbImage put_on_canvas(const RgbImage& image, const ImagePlan& plan) {
    const ImageSize canvas_size{plan.canvas_width, plan.canvas_height};
    RgbImage canvas{canvas_size,
                    std::vector<uint8_t>(static_cast<size_t>(canvas_size.width * canvas_size.height * kChannels), kPadding)};
    // An image rounded up by half a pixel never sticks out: its size is at most the canvas's, left is at most the difference.
    for (int64_t y = 0; y < image.size.height; ++y) {
        const uint8_t* source = image.pixels.data() + y * image.size.width * kChannels;
        uint8_t* target = canvas.pixels.data() + ((plan.top + y) * canvas_size.width + plan.left) * kChannels;
        std::memcpy(target, source, static_cast<size_t>(image.size.width * kChannels));
    }
    return canvas;
}

std::vector<float> cut(const RgbImage& canvas, const ImagePlan& plan, int64_t patch_size) {
    static const std::array<float, 256> levels = make_levels();
    std::vector<float> values(canvas.pixels.size());
    float* value = values.data();
    for (int64_t patch = 0; patch < plan.grid_height * plan.grid_width; ++patch) {
        const int64_t top = patch / plan.grid_width * patch_size;
        const int64_t left = patch % plan.grid_width * patch_size;
        for (int64_t channel = 0; channel < kChannels; ++channel) {
            for (int64_t y = 0; y < patch_size; ++y) {
                const uint8_t* pixel = canvas.pixels.data() + ((top + y) * canvas.size.width + left) * kChannels + channel;
                for (int64_t x = 0; x < patch_size; ++x) {
                    *value++ = levels[pixel[x * kChannels]];
                }
            }
        }
    }
    return values;
}

}  // namespace

Result<ImagePatches> make_image_patches(const RgbImage& image, const ImageGeometry& geometry) {
    DI_TRY(const ImagePlan plan, plan_image(image.size.width, image.size.height, geometry));
    const RgbImage canvas = put_on_canvas(resize_bicubic(image, {plan.resized_width, plan.resized_height}), plan);
    return ImagePatches{
        .values = cut(canvas, plan, geometry.patch_size),
        .grid_height = plan.grid_height,
        .grid_width = plan.grid_width,
        .token_rows = plan.token_rows,
        .token_columns = plan.token_columns,
        .token_count = plan.token_count,
    };
}

}  // namespace di
