// Router and experts.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/ref/ref_backend.h"
#include "base/check.h"

namespace di::ref {

namespace {

float softplus(float x) { return x > 20.0F ? x : std::log1p(std::exp(x)); }

// Logits of a row's experts become their scores.
void apply_score(RouterScore score, std::vector<float>& values) {
    if (score == RouterScore::kSqrtSoftplus) {
        std::transform(values.begin(), values.end(), values.begin(), [](float x) { return std::sqrt(softplus(x)); });
        return;
    }
    const float top = *std::max_element(values.begin(), values.end());
    double sum = 0.0;
    for (const float x : values) {
        sum += std::exp(static_cast<double>(x - top));
    }
    std::transform(values.begin(), values.end(), values.begin(),
                   [&](float x) { return static_cast<float>(std::exp(static_cast<double>(x - top)) / sum); });
}

// One row through one linear, in double.
std::vector<float> product(const Weight& weight, const std::vector<float>& x) {
    std::vector<float> row(static_cast<size_t>(weight.cols));
    std::vector<float> y(static_cast<size_t>(weight.rows));
    for (int64_t n = 0; n < weight.rows; ++n) {
        dequantise_weight_row(weight, n, 0, row);
        y[static_cast<size_t>(n)] = static_cast<float>(dot(x, row));
    }
    return y;
}

}  // namespace

void RefBackend::router(const RouterArgs& args) {
    const auto count = static_cast<size_t>(args.weight.rows);
    const int64_t topk = args.experts.row_size();
    DI_CHECK(topk <= args.weight.rows, "more experts asked for than there are");
    std::vector<float> row_weights(static_cast<size_t>(args.weight.cols));
    for (int64_t row = 0; row < args.input.rows(); ++row) {
        const std::span<const float> x{args.input.row<float>(row), static_cast<size_t>(args.weight.cols)};
        const bool is_image = !args.is_image.empty() && args.is_image.ptr<uint8_t>()[row] != 0;
        const Tensor& bias = is_image ? args.bias_image : args.bias;
        std::vector<float> scores(count);
        std::vector<float> corrected(count);
        for (size_t e = 0; e < count; ++e) {
            dequantise_weight_row(args.weight, static_cast<int64_t>(e), 0, row_weights);
            scores[e] = static_cast<float>(dot(x, row_weights));
        }
        apply_score(args.score, scores);
        for (size_t e = 0; e < count; ++e) {
            corrected[e] = scores[e] + (bias.empty() ? 0.0F : bias.ptr<float>()[e]);
        }
        std::vector<int32_t> order(count);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
            return corrected[static_cast<size_t>(a)] > corrected[static_cast<size_t>(b)];
        });
        float sum = 0.0F;
        for (int64_t k = 0; k < topk; ++k) {
            sum += scores[static_cast<size_t>(order[static_cast<size_t>(k)])];
        }
        for (int64_t k = 0; k < topk; ++k) {
            const int32_t expert = order[static_cast<size_t>(k)];
            args.experts.row<int32_t>(row)[k] = expert;
            const float share = args.scaling * scores[static_cast<size_t>(expert)];
            args.weights.row<float>(row)[k] = args.normalises ? share / (sum + 1e-20F) : share;
        }
    }
}

void RefBackend::moe(const MoeArgs& args) {
    const int64_t dim = args.input.row_size();
    const auto expert_output = [&](const ExpertWeights& expert, std::vector<float> x, float weight) {
        if (args.quantise_input) {
            fake_quantise_row(RowFormat::kFp8, x);
        }
        const std::vector<float> gate = product(expert.gate, x);
        const std::vector<float> up = product(expert.up, x);
        std::vector<float> hidden(gate.size());
        for (size_t i = 0; i < hidden.size(); ++i) {
            const float a = std::min(stored(gate[i]), args.limit);
            const float b = std::clamp(stored(up[i]), -args.limit, args.limit);
            const auto wide = static_cast<double>(a);
            const double silu = wide / (1.0 + std::exp(-wide));
            hidden[i] = stored(static_cast<float>(silu * static_cast<double>(b) * static_cast<double>(weight)));
        }
        if (args.quantise_input) {
            fake_quantise_row(RowFormat::kFp8, hidden);
        }
        std::vector<float> y = product(expert.down, hidden);
        for (float& value : y) {
            value = stored(value);
        }
        return y;
    };
    for (int64_t row = 0; row < args.input.rows(); ++row) {
        const float* input = args.input.row<float>(row);
        const std::vector<float> x(input, input + dim);
        std::vector<double> sum(static_cast<size_t>(dim), 0.0);
        const auto accumulate = [&](const std::vector<float>& y) {
            for (size_t i = 0; i < sum.size(); ++i) {
                sum[i] += static_cast<double>(y[i]);
            }
        };
        for (int64_t k = 0; k < args.experts.row_size(); ++k) {
            const int32_t expert = args.experts.row<int32_t>(row)[k];
            accumulate(expert_output(args.routed[static_cast<size_t>(expert)], x, args.weights.row<float>(row)[k]));
        }
        if (!args.shared.gate.empty()) {
            accumulate(expert_output(args.shared, x, 1.0F));
        }
        for (int64_t i = 0; i < dim; ++i) {
            args.output.row<float>(row)[i] = stored(static_cast<float>(sum[static_cast<size_t>(i)]));
        }
    }
}

}  // namespace di::ref
