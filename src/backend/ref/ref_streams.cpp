// Hyper-connections (mHC) and Engram: operations on the residual streams.
#include <algorithm>
#include <array>
#include <cmath>

#include "backend/ref/ref_backend.h"
#include "base/check.h"

namespace di::ref {

namespace {

constexpr int64_t kStreamsMax = 16;  // keeps a row's mixes on the stack

double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Rows, then columns, of a positive matrix brought to sum 1, `iterations` times; the first row pass is a softmax.
void sinkhorn(double* c, int64_t s, int iterations, double epsilon) {
    for (int64_t i = 0; i < s; ++i) {
        const double top = *std::max_element(c + i * s, c + (i + 1) * s);
        double sum = 0.0;
        for (int64_t j = 0; j < s; ++j) {
            c[i * s + j] = std::exp(c[i * s + j] - top);
            sum += c[i * s + j];
        }
        for (int64_t j = 0; j < s; ++j) {
            c[i * s + j] = c[i * s + j] / sum + epsilon;
        }
    }
    const auto normalise = [&](int64_t outer, int64_t inner) {
        for (int64_t a = 0; a < s; ++a) {
            double sum = 0.0;
            for (int64_t b = 0; b < s; ++b) {
                sum += c[a * outer + b * inner];
            }
            for (int64_t b = 0; b < s; ++b) {
                c[a * outer + b * inner] /= sum + epsilon;
            }
        }
    };
    normalise(1, s);
    for (int iteration = 1; iteration < iterations; ++iteration) {
        normalise(s, 1);
        normalise(1, s);
    }
}

}  // namespace

void RefBackend::hyper_mixes(const HyperMixesArgs& args) {
    const int64_t s = args.streams.shape[1];
    const int64_t width = args.streams.row_size();
    const int64_t count = s * s + 2 * s;
    DI_CHECK(s <= kStreamsMax, "too many residual streams");
    const float* scale = args.scale.ptr<float>();
    for (int64_t row = 0; row < args.streams.rows(); ++row) {
        const std::span<const float> x{args.streams.row<float>(row), static_cast<size_t>(width)};
        const double factor = 1.0 / std::sqrt(dot(x, x) / static_cast<double>(width) + static_cast<double>(args.norm_epsilon));
        std::array<double, kStreamsMax*(kStreamsMax + 2)> z{};
        for (int64_t k = 0; k < count; ++k) {
            const double m = dot(x, {args.fn.row<float>(k), x.size()}) * factor;
            const int segment = k < s ? 0 : k < 2 * s ? 1 : 2;
            z[static_cast<size_t>(k)] =
                m * static_cast<double>(scale[segment]) + static_cast<double>(args.base.ptr<float>()[k]);
        }
        for (int64_t i = 0; i < s; ++i) {
            args.pre.row<float>(row)[i] =
                static_cast<float>(sigmoid_of(z[static_cast<size_t>(i)]) + static_cast<double>(args.hc_epsilon));
            args.post.row<float>(row)[i] = static_cast<float>(2.0 * sigmoid_of(z[static_cast<size_t>(s + i)]));
        }
        sinkhorn(z.data() + 2 * s, s, args.iterations, static_cast<double>(args.hc_epsilon));
        std::transform(z.begin() + 2 * s, z.begin() + count, args.comb.row<float>(row),
                       [](double c) { return static_cast<float>(c); });
    }
}

void RefBackend::hyper_collapse(const HyperCollapseArgs& args) {
    const int64_t s = args.streams.shape[1];
    const int64_t dim = args.streams.shape[2];
    for (int64_t row = 0; row < args.streams.rows(); ++row) {
        const float* h = args.streams.row<float>(row);
        const float* pre = args.pre.row<float>(row);
        float* out = args.collapsed.row<float>(row);
        for (int64_t i = 0; i < dim; ++i) {
            double sum = 0.0;
            for (int64_t stream = 0; stream < s; ++stream) {
                sum += static_cast<double>(pre[stream]) * static_cast<double>(h[stream * dim + i]);
            }
            out[i] = stored(static_cast<float>(sum));
        }
    }
}

void RefBackend::hyper_expand(const HyperExpandArgs& args) {
    const int64_t s = args.streams.shape[1];
    const int64_t dim = args.streams.shape[2];
    DI_CHECK(s <= kStreamsMax, "too many residual streams");
    for (int64_t row = 0; row < args.streams.rows(); ++row) {
        float* h = args.streams.row<float>(row);
        const float* y = args.output.row<float>(row);
        const float* post = args.post.row<float>(row);
        const float* comb = args.comb.row<float>(row);
        for (int64_t i = 0; i < dim; ++i) {
            std::array<float, kStreamsMax> old{};
            for (int64_t stream = 0; stream < s; ++stream) {
                old[static_cast<size_t>(stream)] = h[stream * dim + i];
            }
            for (int64_t j = 0; j < s; ++j) {
                double sum = static_cast<double>(post[j]) * static_cast<double>(y[i]);
                for (int64_t stream = 0; stream < s; ++stream) {
                    sum += static_cast<double>(comb[stream * s + j]) * static_cast<double>(old[static_cast<size_t>(stream)]);
                }
                h[j * dim + i] = stored(static_cast<float>(sum));
            }
        }
    }
}

void RefBackend::stream_mean(const StreamMeanArgs& args) {
    const int64_t s = args.streams.shape[1];
    const int64_t dim = args.streams.shape[2];
    for (int64_t row = 0; row < args.streams.rows(); ++row) {
        const float* h = args.streams.row<float>(row);
        for (int64_t i = 0; i < dim; ++i) {
            float sum = 0.0F;
            for (int64_t stream = 0; stream < s; ++stream) {
                sum += h[stream * dim + i];
            }
            args.output.row<float>(row)[i] = stored(sum / static_cast<float>(s));
        }
    }
}

void RefBackend::engram_mix(const EngramMixArgs& args) {
    const int64_t s = args.streams.shape[1];
    const int64_t dim = args.streams.shape[2];
    const auto size = static_cast<size_t>(dim);
    for (int64_t row = 0; row < args.streams.rows(); ++row) {
        if (!args.is_image.empty() && args.is_image.ptr<uint8_t>()[row] != 0) {
            continue;
        }
        const float* value = args.key_value.row<float>(row) + s * dim;
        for (int64_t stream = 0; stream < s; ++stream) {
            float* h = args.streams.row<float>(row) + stream * dim;
            const float* key = args.key_value.row<float>(row) + stream * dim;
            const double h_mean = dot({h, size}, {h, size}) / static_cast<double>(dim);
            const double key_mean = dot({key, size}, {key, size}) / static_cast<double>(dim);
            double sum = 0.0;
            for (int64_t i = 0; i < dim; ++i) {
                const int64_t at = stream * dim + i;
                const double weight = static_cast<double>(vector_element(args.q_weight, at)) *
                                      static_cast<double>(vector_element(args.k_weight, at));
                sum += static_cast<double>(h[i]) * weight * static_cast<double>(key[i]);
            }
            const auto epsilon = static_cast<double>(args.epsilon);
            const double d =
                sum / std::sqrt(h_mean + epsilon) / std::sqrt(key_mean + epsilon) / std::sqrt(static_cast<double>(dim));
            const double gate = sigmoid_of(std::copysign(std::sqrt(std::max(std::fabs(d), 1e-6)), d));
            for (int64_t i = 0; i < dim; ++i) {
                h[i] = stored(static_cast<float>(static_cast<double>(h[i]) + gate * static_cast<double>(value[i])));
            }
        }
    }
}

}  // namespace di::ref
