// The image tower: patches to embedding rows of the span.
#include <cmath>
#include <memory>
#include <numeric>

#include "base/check.h"
#include "model/deepseek_v41/deepseek_v41.h"

namespace di::v41 {

namespace {

constexpr float kVisionEpsilon = 1e-6F;  // of the tower's norms, not the text model's

int64_t cells(int64_t patches, int64_t ratio) { return (patches + ratio - 1) / ratio; }

}  // namespace

int64_t DeepseekV41::image_token_count(int64_t grid_height, int64_t grid_width) const {
    const int64_t limit = config_.vision.max_image_tokens;
    const int64_t ratio = config_.vision.downsample_ratio;
    if (grid_height < 1 || grid_width < 1 || grid_height > limit * ratio || grid_width > limit * ratio) {
        return 0;
    }
    const int64_t tokens = cells(grid_height, ratio) * (cells(grid_width, ratio) + 1) + 2;
    return tokens <= limit ? tokens : 0;
}

void DeepseekV41::encode_image(const ImageInput& image, const Tensor& output) {
    const VisionConfig& vision = config_.vision;
    const VisionParameters& p = parameters_.vision;
    const int64_t n = image.grid_height * image.grid_width;
    const int64_t height = cells(image.grid_height, vision.downsample_ratio);
    const int64_t width = cells(image.grid_width, vision.downsample_ratio);
    DI_CHECK(image.patches.rows() == n && output.rows() == image_token_count(image.grid_height, image.grid_width),
             "an image's sizes do not fit");

    const DType activation = backend_.activation_dtype();
    const int64_t bytes = make_vision_workspace(config_, activation, n, height * width, nullptr).bytes;
    const DeviceMemory memory = allocate_device(backend_, bytes);
    DI_CHECK(memory != nullptr, "no memory for an image that the plan counted");
    const VisionWorkspace space = make_vision_workspace(config_, activation, n, height * width, memory.get());
    const auto norm = [&](const Tensor& input, const Tensor& weight, const Tensor& target) {
        backend_.rms_norm({.input = input, .weight = weight, .output = target, .epsilon = kVisionEpsilon});
    };

    const int64_t heads = vision.head_count;
    const int64_t dim = vision.hidden_size / heads;
    const auto part = [&](int64_t i) {
        return space.qkv.columns(i * vision.hidden_size, vision.hidden_size).as({n, heads, dim});
    };
    const auto turn = [&](const Tensor& x) {
        backend_.vision_rope({.x = x, .grid_width = image.grid_width, .theta = static_cast<float>(vision.rope_theta)});
    };
    backend_.linear({.input = image.patches, .weight = p.patch_embed, .bias = p.patch_bias, .output = space.x});
    for (const VisionBlockParameters& b : p.blocks) {
        norm(space.x, b.norm1, space.normed);
        backend_.linear({.input = space.normed, .weight = b.qkv, .bias = b.qkv_bias, .output = space.qkv});
        turn(part(0));
        turn(part(1));
        backend_.full_attention({.query = part(0),
                                 .key = part(1),
                                 .value = part(2),
                                 .output = space.attended.as({n, heads, dim}),
                                 .scale = 1.0F / std::sqrt(static_cast<float>(dim))});
        backend_.linear({.input = space.attended, .weight = b.out, .bias = b.out_bias, .output = space.normed});
        backend_.add({.x = space.x, .y = space.normed});
        norm(space.x, b.norm2, space.normed);
        backend_.linear({.input = space.normed, .weight = b.gate_up, .bias = {}, .output = space.gate_up});
        backend_.gated_silu({.gate_up = space.gate_up, .output = space.hidden});
        backend_.linear({.input = space.hidden, .weight = b.down, .bias = {}, .output = space.normed});
        backend_.add({.x = space.x, .y = space.normed});
    }
    norm(space.x, p.norm, space.normed);
    probe("vision.encoder", 0, space.normed);
    backend_.unfold({.input = space.normed,
                     .output = space.cells,
                     .height = image.grid_height,
                     .width = image.grid_width,
                     .cell = vision.downsample_ratio});
    backend_.linear({.input = space.cells, .weight = p.aligner1, .bias = p.aligner1_bias, .output = space.aligned});
    backend_.gelu({.x = space.aligned});
    backend_.linear({.input = space.aligned, .weight = p.aligner2, .bias = p.aligner2_bias, .output = space.embedded});
    probe("vision.aligned", 0, space.embedded);

    // START, then per row of cells its cells and a NEWLINE, then END.
    int64_t zero = 0;
    const Tensor first = backend_.upload({&zero, DType::kI64, {1, 1}});
    const auto mark = [&](const Weight& row, int64_t place) {
        backend_.gather_rows({.table = row, .ids = first, .output = output.slice(place, 1)});
    };
    std::vector<int32_t> targets;
    mark(p.start, 0);
    for (int64_t y = 0; y < height; ++y) {
        for (int64_t x = 0; x < width; ++x) {
            targets.push_back(static_cast<int32_t>(1 + y * (width + 1) + x));
        }
        mark(p.newline, 1 + y * (width + 1) + width);
    }
    backend_.copy_rows({.source = space.embedded, .source_rows = {}, .target = output, .target_rows = upload(targets)});
    mark(p.end, output.rows() - 1);
    backend_.synchronize();  // the buffers above go now
}

}  // namespace di::v41
