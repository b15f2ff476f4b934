// Operations of the vision tower.
#include <algorithm>
#include <cmath>

#include "backend/ref/ref_backend.h"

namespace di::ref {

void RefBackend::add(const AddArgs& args) {
    for (int64_t row = 0; row < args.x.rows(); ++row) {
        for (int64_t i = 0; i < args.x.row_size(); ++i) {
            float& x = args.x.row<float>(row)[i];
            x = stored(x + args.y.row<float>(row)[i]);
        }
    }
}

void RefBackend::vision_rope(const VisionRopeArgs& args) {
    const int64_t heads = args.x.shape[1];
    const int64_t dim = args.x.shape[2];
    const int64_t quarter = dim / 4;
    for (int64_t row = 0; row < args.x.rows(); ++row) {
        for (int64_t i = 0; i < 2 * quarter; ++i) {
            const int64_t place = i < quarter ? row / args.grid_width : row % args.grid_width;
            const auto exponent = static_cast<float>(2 * (i % quarter)) / static_cast<float>(dim / 2);
            const float angle = static_cast<float>(place) * (1.0F / std::pow(args.theta, exponent));
            const float c = std::cos(angle);
            const float s = std::sin(angle);
            for (int64_t head = 0; head < heads; ++head) {
                float* x = args.x.row<float>(row) + head * dim;
                const float a = x[i];
                const float b = x[i + dim / 2];
                x[i] = stored(a * c - b * s);
                x[i + dim / 2] = stored(b * c + a * s);
            }
        }
    }
}

void RefBackend::full_attention(const FullAttentionArgs& args) {
    const int64_t count = args.query.rows();
    const int64_t heads = args.query.shape[1];
    const int64_t dim = args.query.shape[2];
    const auto size = static_cast<size_t>(dim);
    std::vector<float> scores(static_cast<size_t>(count));
    std::vector<double> sums(size);
    for (int64_t row = 0; row < count; ++row) {
        for (int64_t head = 0; head < heads; ++head) {
            const std::span<const float> q{args.query.row<float>(row) + head * dim, size};
            float top = -INFINITY;
            for (int64_t t = 0; t < count; ++t) {
                const float score = args.scale * static_cast<float>(dot(q, {args.key.row<float>(t) + head * dim, size}));
                scores[static_cast<size_t>(t)] = score;
                top = std::max(top, score);
            }
            double denominator = 0.0;
            std::fill(sums.begin(), sums.end(), 0.0);
            for (int64_t t = 0; t < count; ++t) {
                const double p = std::exp(static_cast<double>(scores[static_cast<size_t>(t)] - top));
                denominator += p;
                const float* value = args.value.row<float>(t) + head * dim;
                for (size_t i = 0; i < size; ++i) {
                    sums[i] += p * static_cast<double>(value[i]);
                }
            }
            float* out = args.output.row<float>(row) + head * dim;
            for (size_t i = 0; i < size; ++i) {
                out[i] = stored(static_cast<float>(sums[i] / denominator));
            }
        }
    }
}

void RefBackend::gated_silu(const GatedSiluArgs& args) {
    const int64_t width = args.output.row_size();
    for (int64_t row = 0; row < args.output.rows(); ++row) {
        const float* gate = args.gate_up.row<float>(row);
        for (int64_t i = 0; i < width; ++i) {
            const float g = gate[i];
            args.output.row<float>(row)[i] = stored(g / (1.0F + std::exp(-g)) * gate[width + i]);
        }
    }
}

void RefBackend::gelu(const GeluArgs& args) {
    for (int64_t row = 0; row < args.x.rows(); ++row) {
        float* x = args.x.row<float>(row);
        for (int64_t i = 0; i < args.x.row_size(); ++i) {
            x[i] = stored(0.5F * x[i] * (1.0F + std::erf(x[i] * 0.70710678118654752F)));
        }
    }
}

void RefBackend::unfold(const UnfoldArgs& args) {
    const int64_t channels = args.input.row_size();
    const int64_t cell = args.cell;
    const int64_t columns = (args.width + cell - 1) / cell;
    for (int64_t out = 0; out < args.output.rows(); ++out) {
        for (int64_t ky = 0; ky < cell; ++ky) {
            for (int64_t kx = 0; kx < cell; ++kx) {
                const int64_t y = out / columns * cell + ky;
                const int64_t x = out % columns * cell + kx;
                const bool inside = y < args.height && x < args.width;
                const float* in = inside ? args.input.row<float>(y * args.width + x) : nullptr;
                for (int64_t c = 0; c < channels; ++c) {
                    args.output.row<float>(out)[c * cell * cell + ky * cell + kx] = inside ? in[c] : 0.0F;
                }
            }
        }
    }
}

}  // namespace di::ref
