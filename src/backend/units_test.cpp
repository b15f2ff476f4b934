// Single operations against the vectors of an independent implementation (tests/data/units), on every backend.
#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "backend/backend.h"
#include "safetensors_fixture.h"

namespace di {
namespace {

class Units : public testing::TestWithParam<std::string> {
  protected:
    std::unique_ptr<Backend> backend_ =
        std::move(*create_backend(GetParam(), {.threads = 2, .activations = Activations::kF32}));
};

SafetensorsFixture unit(const std::string& name) {
    return SafetensorsFixture(std::string(DI_TEST_DATA) + "/units/" + name + ".safetensors");
}

Tensor view(std::vector<float>& values, std::initializer_list<int64_t> dims) { return {values.data(), DType::kF32, dims}; }
Tensor view(std::vector<int32_t>& values, std::initializer_list<int64_t> dims) { return {values.data(), DType::kI32, dims}; }

void expect_near(const std::vector<float>& got, const std::vector<float>& want, float relative, const std::string& what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], relative * (1.0F + std::fabs(want[i]))) << what << " at " << i;
    }
}

TEST_P(Units, RotationByStoredFrequencies) {
    const SafetensorsFixture fixture = unit("rope");
    for (const std::string set : {"base", "yarn"}) {
        for (const bool inverse : {false, true}) {
            std::vector<float> x = fixture.at("rope.input").floats();
            std::vector<float> frequencies = fixture.at(set + ".inv_freq").floats();
            const std::vector<int64_t> stored = fixture.at("positions").integers();
            std::vector<int32_t> positions(stored.begin(), stored.end());
            backend_->rope({.x = view(x, {9, 2, 96}),
                            .positions = view(positions, {9}),
                            .frequencies = view(frequencies, {32}),
                            .inverse = inverse});
            const std::string name = set + (inverse ? ".rotated_inverse" : ".rotated");
            // The fixture's inverse turns the rotated vector back where its first values say so; either way 1e-6 counts.
            expect_near(x, fixture.at(name).floats(), 2e-6F, name);
        }
    }
}

TEST_P(Units, HyperConnection) {
    const SafetensorsFixture fixture = unit("mhc");
    std::vector<float> streams = fixture.at("hc.streams").floats();
    std::vector<float> fn = fixture.at("hc.fn").floats();
    std::vector<float> base = fixture.at("hc.base").floats();
    std::vector<float> scale = fixture.at("hc.scale").floats();
    std::vector<float> output = fixture.at("hc.sublayer_output").floats();
    std::vector<float> pre(40), post(40), comb(160), collapsed(960);
    const Tensor h = view(streams, {10, 4, 96});
    backend_->hyper_mixes({.streams = h,
                           .fn = view(fn, {24, 384}),
                           .base = view(base, {24}),
                           .scale = view(scale, {3}),
                           .pre = view(pre, {10, 4}),
                           .post = view(post, {10, 4}),
                           .comb = view(comb, {10, 4, 4}),
                           .iterations = 20,
                           .hc_epsilon = 1e-6F,
                           .norm_epsilon = 1e-20F});
    expect_near(pre, fixture.at("hc.pre").floats(), 1e-5F, "pre");
    expect_near(post, fixture.at("hc.post").floats(), 1e-5F, "post");
    expect_near(comb, fixture.at("hc.comb").floats(), 1e-5F, "comb");
    backend_->hyper_collapse({.streams = h, .pre = view(pre, {10, 4}), .collapsed = view(collapsed, {10, 96})});
    expect_near(collapsed, fixture.at("hc.collapsed").floats(), 1e-5F, "collapsed");
    backend_->hyper_expand(
        {.streams = h, .output = view(output, {10, 96}), .post = view(post, {10, 4}), .comb = view(comb, {10, 4, 4})});
    expect_near(streams, fixture.at("hc.expanded").floats(), 1e-5F, "expanded");
    std::vector<float> weight = fixture.at("rmsnorm.weight").floats();
    std::vector<float> normed(960);
    backend_->rms_norm(
        {.input = view(output, {10, 96}), .weight = view(weight, {96}), .output = view(normed, {10, 96}), .epsilon = 1e-20F});
    expect_near(normed, fixture.at("rmsnorm.output").floats(), 1e-5F, "rmsnorm");
}

// Zero weights leave base alone: comb's logits are what the base says, one matrix a call.
TEST_P(Units, SinkhornOfExtremeLogits) {
    const SafetensorsFixture fixture = unit("mhc");
    const std::vector<float> inputs = fixture.at("sinkhorn.input").floats();
    const std::vector<float> outputs = fixture.at("sinkhorn.output").floats();
    for (size_t matrix = 0; matrix < 64; ++matrix) {
        std::vector<float> streams(4 * 8, 1.0F), fn(24 * 32, 0.0F), base(24, 0.0F), scale(3, 1.0F), pre(4), post(4), comb(16);
        std::copy_n(inputs.begin() + static_cast<std::ptrdiff_t>(matrix * 16), 16, base.begin() + 8);
        backend_->hyper_mixes({.streams = view(streams, {1, 4, 8}),
                               .fn = view(fn, {24, 32}),
                               .base = view(base, {24}),
                               .scale = view(scale, {3}),
                               .pre = view(pre, {1, 4}),
                               .post = view(post, {1, 4}),
                               .comb = view(comb, {1, 4, 4}),
                               .iterations = 20,
                               .hc_epsilon = 1e-6F,
                               .norm_epsilon = 1e-20F});
        expect_near(comb,
                    {outputs.begin() + static_cast<std::ptrdiff_t>(matrix * 16),
                     outputs.begin() + static_cast<std::ptrdiff_t>(matrix * 16 + 16)},
                    1e-5F, "matrix " + std::to_string(matrix));
    }
}

Weight f32_weight(std::vector<float>& values, int64_t rows, int64_t cols) {
    return {.dtype = DType::kF32, .data = values.data(), .rows = rows, .cols = cols};
}

TEST_P(Units, RouterForTextAndImageTokens) {
    const SafetensorsFixture fixture = unit("router");
    std::vector<float> x = fixture.at("x").floats();
    std::vector<float> weight = fixture.at("weight").floats();
    std::vector<float> bias = fixture.at("bias").floats();
    std::vector<float> bias_image = fixture.at("bias_vl").floats();
    std::vector<uint8_t> is_image;
    for (const int64_t mark : fixture.at("image_mask").integers()) {
        is_image.push_back(mark != 0 ? 1 : 0);
    }
    std::vector<int32_t> experts(240);
    std::vector<float> weights(240);
    backend_->router({.input = view(x, {40, 48}),
                      .weight = f32_weight(weight, 384, 48),
                      .bias = view(bias, {384}),
                      .bias_image = view(bias_image, {384}),
                      .is_image = {is_image.data(), DType::kU8, {40}},
                      .experts = view(experts, {40, 6}),
                      .weights = view(weights, {40, 6}),
                      .scaling = 1.5F});
    const std::vector<int64_t> want = fixture.at("experts").integers();
    EXPECT_EQ(std::vector<int64_t>(experts.begin(), experts.end()), want);
    expect_near(weights, fixture.at("weights").floats(), 1e-5F, "weights");
}

// The fixture's expert has no shared one beside it: a zero shared expert adds nothing.
TEST_P(Units, ClampedExpert) {
    const SafetensorsFixture fixture = unit("router");
    std::vector<float> x = fixture.at("x").floats();
    std::vector<float> w1 = fixture.at("swiglu.w1").floats();
    std::vector<float> w2 = fixture.at("swiglu.w2").floats();
    std::vector<float> w3 = fixture.at("swiglu.w3").floats();
    std::vector<float> zero_up(32 * 48, 0.0F), zero_down(48 * 32, 0.0F), weights(40, 1.0F), y(40 * 48);
    std::vector<int32_t> experts(40, 0);
    const std::vector<ExpertWeights> routed{{f32_weight(w1, 32, 48), f32_weight(w3, 32, 48), f32_weight(w2, 48, 32)}};
    backend_->moe({.input = view(x, {40, 48}),
                   .experts = view(experts, {40, 1}),
                   .weights = view(weights, {40, 1}),
                   .routed = routed,
                   .shared = {f32_weight(zero_up, 32, 48), f32_weight(zero_up, 32, 48), f32_weight(zero_down, 48, 32)},
                   .output = view(y, {40, 48}),
                   .limit = 1.5F});
    expect_near(y, fixture.at("swiglu.y").floats(), 1e-5F, "swiglu");
}

// Scores are given, so keys and queries are made to produce them: one index head, dimension 32, key j = unit vectors cannot
// hold 90 columns, so every row is scored alone with keys that carry its scores in the first value.
TEST_P(Units, CandidatesAndSelectionInsideThem) {
    const SafetensorsFixture fixture = unit("candidates");
    const std::vector<float> scores = fixture.at("scores").floats();
    const std::vector<int64_t> mask = fixture.at("candidate_mask").integers();
    const std::vector<int64_t> topk = fixture.at("topk16_within_candidates").integers();
    constexpr int64_t kCount = 90;
    for (int64_t row = 0; row < kCount; ++row) {
        // relu(q k) w: the sign goes into a second head with negative weight.
        std::vector<float> keys(static_cast<size_t>(kCount * 32), 0.0F);
        std::vector<float> query(2 * 32, 0.0F);
        query[0] = 1.0F;
        query[32] = -1.0F;
        std::vector<float> weights{1.0F, -1.0F};
        for (int64_t j = 0; j <= row; ++j) {
            keys[static_cast<size_t>(j * 32)] = scores[static_cast<size_t>(row * kCount + j)];
        }
        CacheView cache{.base = reinterpret_cast<uint8_t*>(keys.data()),
                        .block_bytes = kCount * 128,
                        .data_stride = 128,
                        .rows_per_block = kCount,
                        .dim = 32,
                        .format = RowFormat::kF32};
        std::vector<int32_t> table{0}, sequence{0}, visible{static_cast<int32_t>(row + 1)}, selected(16), candidates(4);
        IndexSelectArgs args{.query = view(query, {1, 2, 32}),
                             .weights = view(weights, {1, 2}),
                             .keys = cache,
                             .block_tables = view(table, {1, 1}),
                             .sequence = view(sequence, {1}),
                             .visible = view(visible, {1}),
                             .candidates = {},
                             .selected = view(selected, {1, 16}),
                             .candidates_out = view(candidates, {1, 4}),
                             .scores_out = {},
                             .candidate_block = 8,
                             .scale = 1.0F};
        backend_->index_select(args);
        std::set<int64_t> want;
        for (int64_t j = 0; j <= row; ++j) {
            if (mask[static_cast<size_t>(row * kCount + j)] != 0) {
                want.insert(j / 8);
            }
        }
        std::set<int64_t> got(candidates.begin(), candidates.end());
        got.erase(-1);
        EXPECT_EQ(got, want) << "row " << row;
        args.candidates = args.candidates_out;
        args.candidates_out = {};
        backend_->index_select(args);
        EXPECT_EQ(std::vector<int64_t>(selected.begin(), selected.end()),
                  std::vector<int64_t>(topk.begin() + row * 16, topk.begin() + (row + 1) * 16))
            << "row " << row;
    }
}

INSTANTIATE_TEST_SUITE_P(Backends, Units, testing::Values("ref", "cpu"), [](const auto& entry) { return entry.param; });

}  // namespace
}  // namespace di
