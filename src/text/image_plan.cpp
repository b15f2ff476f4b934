#include "text/image_plan.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "text/limits.h"

namespace di {
namespace {

struct Canvas {
    double width;
    double height;
};

// Image tokens of a side of `pixels` pixels, which is a multiple of the patch size.
int64_t tokens_of_side(double pixels, const ImageGeometry& geometry) {
    const int64_t patches = static_cast<int64_t>(pixels) / geometry.patch_size;
    return (patches + geometry.downsample_ratio - 1) / geometry.downsample_ratio;
}

int64_t span_tokens(const Canvas& canvas, const ImageGeometry& geometry) {
    return tokens_of_side(canvas.height, geometry) * (tokens_of_side(canvas.width, geometry) + 1) + 2;
}

// The largest canvas of the shape width : height within the token limit: solves rows * (columns + 1) = tokens - 2.
// The order of operations is part of the rule: another order gives other grids.
Canvas shrink(double width, double height, const ImageGeometry& geometry) {
    const double patch = geometry.patch_size;
    const double cell = patch * geometry.downsample_ratio;
    const double tokens_max = geometry.max_image_tokens;
    const double ratio = height / width;
    double columns = std::sqrt((tokens_max - 2) / ratio + 0.25) - 0.5;
    double rows = columns * ratio;
    if (columns < 1) {
        return {cell, std::floor((tokens_max - 2) / 2) * cell};
    }
    if (rows < 1) {
        return {(tokens_max - 3) * cell, cell};
    }
    columns = std::floor(columns);
    rows = std::floor(rows);
    const double beta = std::min(columns * cell / width, rows * cell / height);
    // At least a patch: with a downsample ratio of 1 the rule itself can round a side to nothing.
    return {std::max(std::floor(width * beta / patch) * patch, patch),
            std::max(std::floor(height * beta / patch) * patch, patch)};
}

Canvas plan_canvas(double width, double height, const ImageGeometry& geometry) {
    const double patch = geometry.patch_size;
    if (geometry.max_wh_ratio && width > height * *geometry.max_wh_ratio) {
        width = height * *geometry.max_wh_ratio;
    }
    const double area = width * height;
    const auto area_min = static_cast<double>(geometry.min_pixels);
    if (area > 0 && area < area_min) {
        const double scale = std::sqrt(area_min / area);
        width = std::trunc(width * scale);
        height = std::trunc(height * scale);
    }
    // A narrow max_wh_ratio can leave less than a pixel.
    width = std::max(width, 1.0);
    height = std::max(height, 1.0);
    const Canvas canvas{std::ceil(width / patch) * patch, std::ceil(height / patch) * patch};
    if (span_tokens(canvas, geometry) <= geometry.max_image_tokens) {
        return canvas;
    }
    return shrink(width, height, geometry);
}

// Where the image goes: Pillow's ImageOps.contain, then the centre. nearbyint rounds half to even, as Python does.
void place(int64_t width, int64_t height, const ImageGeometry& geometry, ImagePlan& plan) {
    const auto w = static_cast<double>(width);
    const auto h = static_cast<double>(height);
    const auto canvas_w = static_cast<double>(plan.canvas_width);
    const auto canvas_h = static_cast<double>(plan.canvas_height);
    plan.resized_width = plan.canvas_width;
    plan.resized_height = plan.canvas_height;
    const bool is_stretched = geometry.max_wh_ratio && w >= *geometry.max_wh_ratio * h;
    if (!is_stretched && w / h > canvas_w / canvas_h) {
        plan.resized_height = static_cast<int64_t>(std::nearbyint(h / w * canvas_w));
    } else if (!is_stretched && w / h < canvas_w / canvas_h) {
        plan.resized_width = static_cast<int64_t>(std::nearbyint(w / h * canvas_h));
    }
    if (plan.resized_width == 0 || plan.resized_height == 0) {
        plan.resized_width = plan.canvas_width;
        plan.resized_height = plan.canvas_height;
    }
    plan.left = static_cast<int64_t>(std::nearbyint(static_cast<double>(plan.canvas_width - plan.resized_width) * 0.5));
    plan.top = static_cast<int64_t>(std::nearbyint(static_cast<double>(plan.canvas_height - plan.resized_height) * 0.5));
    DI_CHECK(plan.left >= 0 && plan.top >= 0, "the resized image fits its canvas");
}

Status check_range(const char* name, int64_t value, int64_t lowest, int64_t highest) {
    if (value < lowest || value > highest) {
        return fail(ErrorCode::kInvalidFile, "{} is {}, expected {} to {}", name, value, lowest, highest);
    }
    return {};
}

}  // namespace

Status check_image_geometry(const ImageGeometry& geometry) {
    DI_TRY_STATUS(check_range("patch_size", geometry.patch_size, 1, kPatchSizeMax));
    DI_TRY_STATUS(check_range("downsample_ratio", geometry.downsample_ratio, 1, kDownsampleRatioMax));
    // Four is the smallest span: start, one image token, newline, end.
    DI_TRY_STATUS(check_range("max_image_tokens", geometry.max_image_tokens, 4, kImageTokensMax));
    DI_TRY_STATUS(check_range("min_pixels", geometry.min_pixels, 0, kMinPixelsMax));
    if (geometry.max_wh_ratio && !(*geometry.max_wh_ratio > 0 && std::isfinite(*geometry.max_wh_ratio))) {
        return fail(ErrorCode::kInvalidFile, "max_wh_ratio is {}, expected null or a number above 0", *geometry.max_wh_ratio);
    }
    return {};
}

Result<ImagePlan> plan_image(int64_t width, int64_t height, const ImageGeometry& geometry) {
    DI_TRY_STATUS(check_image_geometry(geometry));
    if (width < 1 || height < 1 || width > kPlannedSideMax || height > kPlannedSideMax) {
        return fail(ErrorCode::kInvalidArgument, "image is {}x{} pixels, expected sides of 1 to {}", width, height,
                    kPlannedSideMax);
    }
    const Canvas canvas = plan_canvas(static_cast<double>(width), static_cast<double>(height), geometry);
    if (canvas.width * canvas.height > static_cast<double>(kCanvasPixelsMax)) {
        return fail(ErrorCode::kInvalidArgument, "image of {}x{} pixels needs a canvas of {}x{}, at most {} pixels are allowed",
                    width, height, canvas.width, canvas.height, kCanvasPixelsMax);
    }
    ImagePlan plan{};
    plan.canvas_width = static_cast<int64_t>(canvas.width);
    plan.canvas_height = static_cast<int64_t>(canvas.height);
    plan.grid_width = plan.canvas_width / geometry.patch_size;
    plan.grid_height = plan.canvas_height / geometry.patch_size;
    plan.token_columns = tokens_of_side(canvas.width, geometry);
    plan.token_rows = tokens_of_side(canvas.height, geometry);
    plan.token_count = span_tokens(canvas, geometry);
    place(width, height, geometry, plan);
    return plan;
}

}  // namespace di
