// Cases: products, look-ups in tables.
#include <fmt/format.h>

#include "backend/contract_cases.h"

namespace di::contract {

namespace {

struct LinearShape {
    DType dtype;
    ScaleLayout layout;
    int64_t k;
    int64_t n;  // of one group
    int64_t groups = 1;
    int bias = 0;  // 0 none, 1 bf16, 2 f32
    bool quantise_input = false;
    bool accumulate = false;
    bool round_output = true;
};

struct LinearData {
    LinearData(const LinearShape& s, int rows, uint32_t seed)
        : shape(s),
          numbers(seed),
          weight(numbers, s.dtype, s.layout, s.n * s.groups, s.k),
          input(numbers.reals(rows * s.k * s.groups)),
          bias_bf16(numbers.bf16s(s.n * s.groups)),
          bias_f32(numbers.reals(s.n * s.groups)),
          before(numbers.reals(rows * s.n * s.groups)) {}

    LinearShape shape;
    Numbers numbers;
    OwnedWeight weight;
    std::vector<float> input;
    std::vector<uint16_t> bias_bf16;
    std::vector<float> bias_f32;
    std::vector<float> before;
};

std::vector<RowResult> run_linear(LinearData& data, Backend& backend, const std::vector<int>& rows) {
    const LinearShape& s = data.shape;
    const auto count = static_cast<int64_t>(rows.size());
    std::vector<float> input = pick(data.input, s.k * s.groups, rows);
    std::vector<float> output = pick(data.before, s.n * s.groups, rows);
    LinearArgs args{.input = view(input, {count, s.k * s.groups}),
                    .weight = data.weight.weight,
                    .bias = {},
                    .output = view(output, {count, s.n * s.groups}),
                    .groups = s.groups,
                    .quantise_input = s.quantise_input,
                    .round_output = s.round_output,
                    .accumulate = s.accumulate};
    if (s.bias != 0) {
        args.bias = s.bias == 1 ? view(data.bias_bf16, {s.n * s.groups}) : view(data.bias_f32, {s.n * s.groups});
    }
    backend.linear(args);
    backend.synchronize();
    return split(output, rows.size());
}

std::vector<LinearShape> shapes() {
    constexpr auto kNone = ScaleLayout::kNone;
    constexpr auto kBlock = ScaleLayout::kBlock32x32;
    constexpr auto kRow = ScaleLayout::kRow32;
    return {
        {DType::kF32, kNone, 1, 1},
        {DType::kF32, kNone, 37, 5, 1, 2},
        {DType::kF32, kNone, 64, 24, 1, 0, false, false, false},
        {DType::kBF16, kNone, 1, 3},
        {DType::kBF16, kNone, 31, 7, 1, 1},
        {DType::kBF16, kNone, 33, 27, 3, 0, false, false, false},
        {DType::kBF16, kNone, 256, 49, 1, 2},
        {DType::kBF16, kNone, 96, 130, 1, 0, true},
        {DType::kBF16, kNone, 64, 50, 1, 0, false, true, false},
        {DType::kF8E4M3, kBlock, 32, 1},
        {DType::kF8E4M3, kBlock, 64, 33, 1, 1},
        {DType::kF8E4M3, kBlock, 256, 71, 2, 0, true},
        {DType::kF8E4M3, kBlock, 128, 515, 1, 0, false, false, false},
        {DType::kF8E4M3, kRow, 96, 29},
        {DType::kF4E2M1, kRow, 32, 2},
        {DType::kF4E2M1, kRow, 160, 43, 1, 2},
        {DType::kF4E2M1, kRow, 256, 97, 1, 0, true},
        {DType::kF4E2M1, kRow, 64, 26, 2, 0, false, true, false},
        {DType::kF16, kNone, 1, 3},
        {DType::kF16, kNone, 75, 29, 1, 2},
        {DType::kQ8_0, kNone, 32, 5},
        {DType::kQ8_0, kNone, 96, 51, 1, 1},
        {DType::kQ4_1, kNone, 160, 27, 2, 0, false, true, false},
        {DType::kQ4_K, kNone, 512, 30},
        // More outputs and k than one strip of decoded weights holds.
        {DType::kF8E4M3, kBlock, 4096, 37},
    };
}

void add_embed(std::vector<OpCase>& cases, DType dtype, int64_t dim) {
    constexpr int64_t kVocab = 40;
    Numbers numbers(5);
    auto table = std::make_shared<OwnedWeight>(numbers, dtype, ScaleLayout::kNone, kVocab, dim);
    const auto run = [table, dim](Backend& backend, const std::vector<int>& rows) {
        const auto count = static_cast<int64_t>(rows.size());
        std::vector<int32_t> ids;
        for (const int row : rows) {
            ids.push_back(static_cast<int32_t>(row * 7 % kVocab));
        }
        std::vector<float> streams(rows.size() * 3 * dim, -1.0F);
        backend.embed({.ids = view(ids, {count}), .table = table->weight, .streams = view(streams, {count, 3, dim})});
        return split(streams, rows.size());
    };
    cases.push_back({fmt::format("embed {}", dtype_name(dtype)), 33, run, 0.0F, 0.0F});
}

void add_gather(std::vector<OpCase>& cases, DType dtype, ScaleLayout layout) {
    constexpr int64_t kRows = 70;
    constexpr int64_t kDim = 64;
    constexpr int64_t kPerRow = 3;
    Numbers numbers(6);
    auto table = std::make_shared<OwnedWeight>(numbers, dtype, layout, kRows, kDim);
    const auto run = [table](Backend& backend, const std::vector<int>& rows) {
        const auto count = static_cast<int64_t>(rows.size());
        std::vector<int64_t> ids;
        for (const int row : rows) {
            for (int64_t k = 0; k < kPerRow; ++k) {
                ids.push_back((row * 11 + k * 29) % kRows);
            }
        }
        std::vector<float> output(rows.size() * kPerRow * kDim, -1.0F);
        backend.gather_rows({.table = table->weight,
                             .ids = {ids.data(), DType::kI64, {count, kPerRow}},
                             .output = view(output, {count, kPerRow * kDim})});
        return split(output, rows.size());
    };
    cases.push_back({fmt::format("gather_rows {}", dtype_name(dtype)), 33, run, 0.0F, 0.0F});
}

}  // namespace

std::vector<OpCase> linear_cases() {
    std::vector<OpCase> cases;
    uint32_t seed = 100;
    for (const LinearShape& s : shapes()) {
        const int rows = is_small_sweep() ? 7 : 33;
        if (is_small_sweep() && s.k * s.n > 20000) {
            continue;
        }
        auto data = std::make_shared<LinearData>(s, rows, ++seed);
        OpCase op{fmt::format("linear {} k {} n {} groups {} bias {} q8 {} accumulate {} round {}", dtype_name(s.dtype), s.k,
                              s.n, s.groups, s.bias, s.quantise_input, s.accumulate, s.round_output),
                  rows,
                  [data](Backend& backend, const std::vector<int>& picked) { return run_linear(*data, backend, picked); }};
        op.tolerance_bf16 = s.round_output ? op.tolerance_bf16 : op.tolerance;
        cases.push_back(std::move(op));
    }
    add_embed(cases, DType::kBF16, 51);
    add_embed(cases, DType::kF16, 51);
    add_embed(cases, DType::kQ8_0, 64);
    add_gather(cases, DType::kF32, ScaleLayout::kNone);
    add_gather(cases, DType::kBF16, ScaleLayout::kNone);
    add_gather(cases, DType::kF8E4M3, ScaleLayout::kRow32);
    add_gather(cases, DType::kF8E4M3, ScaleLayout::kBlock32x32);
    add_gather(cases, DType::kF4E2M1, ScaleLayout::kRow32);
    return cases;
}

}  // namespace di::contract
