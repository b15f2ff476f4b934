#include "model/deepseek_v41/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace di::v41 {

namespace {

// In f32 step by step, as the model was trained: a last bit here is an angle of 0.06 at a million tokens.
float frequency(double theta, int64_t pair, int64_t rope_dim) {
    const float exponent = static_cast<float>(2 * pair) / static_cast<float>(rope_dim);
    return 1.0F / std::pow(static_cast<float>(theta), exponent);
}

}  // namespace

std::vector<float> base_frequencies(const ModelConfig& config) {
    std::vector<float> values;
    for (int64_t i = 0; i < config.rope_dim / 2; ++i) {
        values.push_back(frequency(config.rope_theta, i, config.rope_dim));
    }
    return values;
}

std::vector<float> yarn_frequencies(const ModelConfig& config) {
    const RopeScaling& scaling = config.rope_scaling;
    const double theta = config.compress_rope_theta;
    const auto dim = static_cast<double>(config.rope_dim);
    // The pair that turns `turns` times over the original context.
    const auto correction = [&](double turns) {
        return dim *
               std::log(static_cast<double>(scaling.original_max_position_embeddings) / (turns * 2.0 * std::numbers::pi)) /
               (2.0 * std::log(theta));
    };
    const double low = std::max(std::floor(correction(scaling.beta_fast)), 0.0);
    double high = std::min(std::ceil(correction(scaling.beta_slow)), dim - 1.0);
    if (low == high) {
        high += 0.001;
    }
    std::vector<float> values;
    for (int64_t i = 0; i < config.rope_dim / 2; ++i) {
        const float ramp =
            std::clamp((static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0F, 1.0F);
        const float keep = 1.0F - ramp;
        const float f = frequency(theta, i, config.rope_dim);
        values.push_back(f / static_cast<float>(scaling.factor) * (1.0F - keep) + f * keep);
    }
    return values;
}

}  // namespace di::v41
