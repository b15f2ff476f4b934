#include "model/transformer/rotary.h"

#include <cmath>
#include <numbers>

namespace di::transformer {

namespace {

// Llama 3.1: waves that turn often in the original context stay, those that never turned fully are stretched by the factor,
// between them the two are mixed.
double llama3(double frequency, const TransformerRope& rope) {
    const double turns = static_cast<double>(rope.original_max_position_embeddings) * frequency / (2.0 * std::numbers::pi);
    if (turns < rope.low_frequency_factor) {
        return frequency / rope.factor;
    }
    if (turns > rope.high_frequency_factor) {
        return frequency;
    }
    const double smooth = (turns - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor);
    return (1.0 - smooth) * frequency / rope.factor + smooth * frequency;
}

}  // namespace

std::vector<float> frequencies(const ModelConfig& config) {
    const TransformerRope& rope = config.transformer->rope;
    std::vector<float> values;
    for (int64_t i = 0; i < config.rope_dim / 2; ++i) {
        const double exponent = static_cast<double>(2 * i) / static_cast<double>(config.rope_dim);
        double value = std::pow(config.rope_theta, -exponent);
        switch (rope.kind) {
            case RopeKind::kPlain: break;
            case RopeKind::kLinear: value /= rope.factor; break;
            case RopeKind::kLlama3: value = llama3(value, rope); break;
        }
        if (!rope.divisors.empty()) {
            value /= static_cast<double>(rope.divisors[static_cast<size_t>(i)]);
        }
        values.push_back(static_cast<float>(value));
    }
    return values;
}

}  // namespace di::transformer
