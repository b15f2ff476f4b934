#include "text/image_resize.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace di {
namespace {

constexpr int kChannels = 3;
// 32 bits less 8 for the pixel and 2 of headroom: the sum of the weights' magnitudes stays below 2.
constexpr int kPrecisionBits = 32 - 8 - 2;

// For each output pixel of one axis: the inputs that it is a weighted sum of.
struct AxisWeights {
    int64_t taps_max;              // weights stored per output pixel
    std::vector<int64_t> first;    // [out], first input pixel
    std::vector<int64_t> count;    // [out], how many inputs
    std::vector<int32_t> weights;  // [out, taps_max], fixed point
};

// Keys' cubic kernel with a = -0.5, in Pillow's order of operations.
double bicubic(double x) {
    constexpr double kA = -0.5;
    x = std::fabs(x);
    if (x < 1.0) {
        return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1;
    }
    if (x < 2.0) {
        return (((x - 5) * x + 8) * x - 4) * kA;
    }
    return 0.0;
}

int32_t fixed_point(double weight) {
    const double scaled = weight * (1 << kPrecisionBits);
    return static_cast<int32_t>(weight < 0 ? -0.5 + scaled : 0.5 + scaled);
}

AxisWeights make_weights(int64_t in_size, int64_t out_size) {
    const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
    const double filter_scale = std::max(scale, 1.0);
    const double support = 2.0 * filter_scale;
    const double inverse_scale = 1.0 / filter_scale;
    AxisWeights axis;
    axis.taps_max = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
    axis.first.reserve(static_cast<size_t>(out_size));
    axis.count.reserve(static_cast<size_t>(out_size));
    axis.weights.resize(static_cast<size_t>(out_size * axis.taps_max));
    std::vector<double> taps(static_cast<size_t>(axis.taps_max));
    for (int64_t out = 0; out < out_size; ++out) {
        const double center = (static_cast<double>(out) + 0.5) * scale;
        const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
        const int64_t end = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), in_size);
        const int64_t count = end - first;
        DI_CHECK(count >= 0 && count <= axis.taps_max, "a bicubic kernel spans at most its support");
        double sum = 0.0;
        for (int64_t i = 0; i < count; ++i) {
            const double weight = bicubic((static_cast<double>(i + first) - center + 0.5) * inverse_scale);
            taps[static_cast<size_t>(i)] = weight;
            sum += weight;
        }
        int32_t* weights = axis.weights.data() + out * axis.taps_max;
        for (int64_t i = 0; i < count; ++i) {
            const double weight = taps[static_cast<size_t>(i)];
            weights[i] = fixed_point(sum != 0.0 ? weight / sum : weight);
        }
        axis.first.push_back(first);
        axis.count.push_back(count);
    }
    return axis;
}

uint8_t round_to_byte(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255)); }

constexpr int32_t kHalf = 1 << (kPrecisionBits - 1);

RgbImage resize_horizontally(const RgbImage& image, int64_t width) {
    const AxisWeights axis = make_weights(image.size.width, width);
    RgbImage out{{width, image.size.height}, std::vector<uint8_t>(static_cast<size_t>(width * image.size.height * kChannels))};
    for (int64_t y = 0; y < image.size.height; ++y) {
        const uint8_t* source = image.pixels.data() + y * image.size.width * kChannels;
        uint8_t* target = out.pixels.data() + y * width * kChannels;
        for (int64_t x = 0; x < width; ++x) {
            const int32_t* weights = axis.weights.data() + x * axis.taps_max;
            const uint8_t* pixel = source + axis.first[static_cast<size_t>(x)] * kChannels;
            int32_t red = kHalf;
            int32_t green = kHalf;
            int32_t blue = kHalf;
            for (int64_t i = 0; i < axis.count[static_cast<size_t>(x)]; ++i, pixel += kChannels) {
                red += pixel[0] * weights[i];
                green += pixel[1] * weights[i];
                blue += pixel[2] * weights[i];
            }
            *target++ = round_to_byte(red);
            *target++ = round_to_byte(green);
            *target++ = round_to_byte(blue);
        }
    }
    return out;
}

RgbImage resize_vertically(const RgbImage& image, int64_t height) {
    const AxisWeights axis = make_weights(image.size.height, height);
    const int64_t row_size = image.size.width * kChannels;
    RgbImage out{{image.size.width, height}, std::vector<uint8_t>(static_cast<size_t>(row_size * height))};
    std::vector<int32_t> sums(static_cast<size_t>(row_size));
    for (int64_t y = 0; y < height; ++y) {
        const int32_t* weights = axis.weights.data() + y * axis.taps_max;
        const uint8_t* source = image.pixels.data() + axis.first[static_cast<size_t>(y)] * row_size;
        std::fill(sums.begin(), sums.end(), kHalf);
        for (int64_t i = 0; i < axis.count[static_cast<size_t>(y)]; ++i, source += row_size) {
            const int32_t weight = weights[i];
            for (int64_t x = 0; x < row_size; ++x) {
                sums[static_cast<size_t>(x)] += source[x] * weight;
            }
        }
        uint8_t* target = out.pixels.data() + y * row_size;
        for (int64_t x = 0; x < row_size; ++x) {
            target[x] = round_to_byte(sums[static_cast<size_t>(x)]);
        }
    }
    return out;
}

}  // namespace

RgbImage resize_bicubic(const RgbImage& image, ImageSize size) {
    DI_CHECK(image.size.width > 0 && image.size.height > 0 && size.width > 0 && size.height > 0, "sizes are positive");
    DI_CHECK(static_cast<int64_t>(image.pixels.size()) == image.size.width * image.size.height * kChannels,
             "an image holds all its pixels");
    if (size.width == image.size.width && size.height == image.size.height) {
        return image;
    }
    if (size.width == image.size.width) {
        return resize_vertically(image, size.height);
    }
    RgbImage wide = resize_horizontally(image, size.width);
    if (size.height == image.size.height) {
        return wide;
    }
    return resize_vertically(wide, size.height);
}

}  // namespace di
