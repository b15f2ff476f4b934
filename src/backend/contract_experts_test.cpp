// Cases: router and experts.
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/contract_cases.h"

namespace di::contract {

namespace {

constexpr int kRows = 33;

// Logits are exact, so both backends see the same scores; equal rows and biases make ties.
void add_router(std::vector<OpCase>& cases, int64_t experts, int64_t topk, bool has_images,
                RouterScore score = RouterScore::kSqrtSoftplus, bool normalises = true) {
    constexpr int64_t kDim = 40;
    Numbers numbers(static_cast<uint32_t>(experts));
    std::vector<float> values = numbers.halves(experts * kDim);
    for (float& value : values) {
        value *= 0.0625F;
    }
    std::copy_n(values.begin(), kDim, values.begin() + kDim);  // expert 1 = expert 0
    auto weight = bf16_weight(values, experts, kDim);
    auto input = std::make_shared<std::vector<float>>(numbers.halves(kRows * kDim));
    std::fill(input->begin(), input->begin() + kDim, 0.0F);  // all logits equal
    (*input)[kDim] = 2000.0F;                                // softplus in its linear part, or far below zero
    auto bias = std::make_shared<std::vector<float>>(static_cast<size_t>(experts), 0.25F);
    auto bias_image = std::make_shared<std::vector<float>>(numbers.halves(experts));
    const auto run = [=](Backend& backend, const std::vector<int>& rows) {
        const auto n = static_cast<int64_t>(rows.size());
        std::vector<float> x = pick(*input, kDim, rows);
        std::vector<uint8_t> is_image;
        for (const int row : rows) {
            is_image.push_back(row % 3 == 1 ? 1 : 0);
        }
        std::vector<int32_t> chosen(rows.size() * static_cast<size_t>(topk), -7);
        std::vector<float> weights(chosen.size());
        RouterArgs args{.input = view(x, {n, kDim}),
                        .weight = weight->weight,
                        .bias = view(*bias, {experts}),
                        .bias_image = view(*bias_image, {experts}),
                        .is_image = {},
                        .experts = view(chosen, {n, topk}),
                        .weights = view(weights, {n, topk}),
                        .scaling = 1.5F,
                        .score = score,
                        .normalises = normalises};
        if (score == RouterScore::kSoftmax) {
            args.bias = {};
        }
        if (has_images) {
            args.is_image = view(is_image, {n});
        }
        backend.router(args);
        auto results = split(chosen, rows.size());
        const auto shares = split(weights, rows.size());
        for (size_t i = 0; i < rows.size(); ++i) {
            results[i].insert(results[i].end(), shares[i].begin(), shares[i].end());
        }
        return results;
    };
    cases.push_back({fmt::format("router {} of {}", topk, experts), kRows, run, 0.0F, 0.0F});
}

struct MoeShape {
    DType routed;
    DType shared;
    int64_t dim;
    int64_t width;
    int64_t shared_width;
    int64_t experts;
    int64_t topk;
    bool quantise_input;
    float limit = 1.5F;
};

ScaleLayout layout_of(DType dtype) {
    switch (dtype) {
        case DType::kF8E4M3: return ScaleLayout::kBlock32x32;
        case DType::kF4E2M1: return ScaleLayout::kRow32;
        default: return ScaleLayout::kNone;
    }
}

struct MoeData {
    MoeData(const MoeShape& s, int row_count) : shape(s), numbers(static_cast<uint32_t>(s.dim + s.width)) {
        const auto add = [&](DType dtype, int64_t width) {
            ExpertWeights expert;
            for (Weight* weight : {&expert.gate, &expert.up, &expert.down}) {
                const bool is_down = weight == &expert.down;
                owned.push_back(std::make_unique<OwnedWeight>(numbers, dtype, layout_of(dtype), is_down ? s.dim : width,
                                                              is_down ? width : s.dim));
                *weight = owned.back()->weight;
            }
            return expert;
        };
        for (int64_t i = 0; i < s.experts; ++i) {
            routed.push_back(add(s.routed, s.width));
        }
        if (s.shared_width > 0) {
            shared = add(s.shared, s.shared_width);
        }
        input = numbers.reals(row_count * s.dim);
        for (int64_t i = 0; i < row_count * s.topk; ++i) {
            experts.push_back(static_cast<int32_t>(numbers.below(s.experts)));
        }
        weights = numbers.reals(row_count * s.topk);
    }

    MoeShape shape;
    Numbers numbers;
    std::vector<std::unique_ptr<OwnedWeight>> owned;
    std::vector<ExpertWeights> routed;
    ExpertWeights shared;
    std::vector<float> input;
    std::vector<int32_t> experts;
    std::vector<float> weights;
};

std::vector<RowResult> run_moe(const MoeData& data, Backend& backend, const std::vector<int>& rows) {
    const MoeShape& s = data.shape;
    const auto n = static_cast<int64_t>(rows.size());
    std::vector<float> x = pick(data.input, s.dim, rows);
    std::vector<int32_t> experts = pick(data.experts, s.topk, rows);
    std::vector<float> weights = pick(data.weights, s.topk, rows);
    std::vector<float> output(x.size(), -1.0F);
    backend.moe({.input = view(x, {n, s.dim}),
                 .experts = view(experts, {n, s.topk}),
                 .weights = view(weights, {n, s.topk}),
                 .routed = data.routed,
                 .shared = data.shared,
                 .output = view(output, {n, s.dim}),
                 .limit = s.limit,
                 .quantise_input = s.quantise_input});
    return split(output, rows.size());
}

}  // namespace

std::vector<OpCase> expert_cases() {
    std::vector<OpCase> cases;
    add_router(cases, 8, 2, true);
    add_router(cases, 29, 6, false);
    add_router(cases, 16, 4, false, RouterScore::kSoftmax, true);
    add_router(cases, 7, 7, false, RouterScore::kSoftmax, false);
    constexpr MoeShape kShapes[] = {
        {DType::kF4E2M1, DType::kF8E4M3, 64, 96, 128, 5, 2, false},
        {DType::kF4E2M1, DType::kF8E4M3, 96, 64, 64, 12, 3, true},
        {DType::kBF16, DType::kBF16, 50, 33, 33, 4, 1, false},
        {DType::kF32, DType::kBF16, 32, 28, 60, 3, 2, false},
        {DType::kF16, DType::kF16, 40, 26, 0, 6, 2, false, std::numeric_limits<float>::infinity()},
        {DType::kQ8_0, DType::kQ8_0, 64, 96, 0, 5, 3, false, std::numeric_limits<float>::infinity()},
    };
    for (const MoeShape& s : kShapes) {
        auto data = std::make_shared<MoeData>(s, kRows);
        OpCase op{fmt::format("moe {} dim {} width {} q8 {}", dtype_name(s.routed), s.dim, s.width, s.quantise_input), kRows,
                  [data](Backend& backend, const std::vector<int>& rows) { return run_moe(*data, backend, rows); }};
        if (s.quantise_input) {
            // The input of `down` is quantised: a last-bit difference may step to the next of 8 codes per octave.
            op.tolerance = 2e-2F;
            op.tolerance_bf16 = 2e-2F;
        }
        cases.push_back(std::move(op));
    }
    return cases;
}

TEST(Experts, RowsBeyondOnePassEqualTheirHalves) {
    const MoeShape shape{DType::kBF16, DType::kBF16, 16, 16, 16, 4, 2, false};
    constexpr int kMany = 700;
    const MoeData data(shape, kMany);
    auto backend = create_backend("cpu", {.threads = 2});
    ASSERT_TRUE(backend.has_value()) << backend.error().text;
    std::vector<int> all;
    for (int row = 0; row < kMany; ++row) {
        all.push_back(row);
    }
    const auto whole = run_moe(data, **backend, all);
    const auto first = run_moe(data, **backend, {all.begin(), all.begin() + kMany / 2});
    const auto second = run_moe(data, **backend, {all.begin() + kMany / 2, all.end()});
    for (int row = 0; row < kMany; ++row) {
        const auto& half = row < kMany / 2 ? first[static_cast<size_t>(row)] : second[static_cast<size_t>(row - kMany / 2)];
        ASSERT_EQ(whole[static_cast<size_t>(row)], half) << row;
    }
}

}  // namespace di::contract
