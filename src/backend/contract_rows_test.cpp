// Cases: norms, residual streams, rope, cache rows, gates.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "backend/contract_cases.h"

namespace di::contract {

namespace {

constexpr int kRows = 33;

void add_norms(std::vector<OpCase>& cases) {
    for (const int64_t dim : {int64_t{1}, int64_t{64}, int64_t{257}}) {
        for (const bool is_bf16 : {true, false}) {
            Numbers numbers(static_cast<uint32_t>(dim));
            auto x = std::make_shared<std::vector<float>>(numbers.reals(kRows * dim));
            // A row of zeros must stay zeros.
            std::fill(x->begin() + dim, x->begin() + 2 * dim, 0.0F);
            auto narrow = std::make_shared<std::vector<uint16_t>>(numbers.bf16s(dim));
            auto wide = std::make_shared<std::vector<float>>(numbers.reals(dim));
            const auto run = [=](Backend& backend, const std::vector<int>& rows) {
                const auto count = static_cast<int64_t>(rows.size());
                std::vector<float> values = pick(*x, dim, rows);
                backend.rms_norm({.input = view(values, {count, dim}),
                                  .weight = is_bf16 ? view(*narrow, {dim}) : view(*wide, {dim}),
                                  .output = view(values, {count, dim}),
                                  .epsilon = 1e-6F});
                return split(values, rows.size());
            };
            cases.push_back({fmt::format("rms_norm {} {}", dim, is_bf16), kRows, run});
        }
    }
}

void add_mixes(std::vector<OpCase>& cases, int64_t s, int64_t dim) {
    Numbers numbers(static_cast<uint32_t>(40 + s));
    const int64_t count = s * s + 2 * s;
    auto streams = std::make_shared<std::vector<float>>(numbers.reals(kRows * s * dim));
    auto fn = std::make_shared<std::vector<float>>(numbers.reals(count * s * dim, 0.1F));
    auto base = std::make_shared<std::vector<float>>(numbers.reals(count));
    auto scale = std::make_shared<std::vector<float>>(std::vector<float>{0.7F, 1.3F, 2.0F});
    const auto run = [=](Backend& backend, const std::vector<int>& rows) {
        const auto n = static_cast<int64_t>(rows.size());
        std::vector<float> h = pick(*streams, s * dim, rows);
        std::vector<float> pre(rows.size() * static_cast<size_t>(s));
        std::vector<float> post(pre.size());
        std::vector<float> comb(rows.size() * static_cast<size_t>(s * s));
        backend.hyper_mixes({.streams = view(h, {n, s, dim}),
                             .fn = view(*fn, {count, s * dim}),
                             .base = view(*base, {count}),
                             .scale = view(*scale, {3}),
                             .pre = view(pre, {n, s}),
                             .post = view(post, {n, s}),
                             .comb = view(comb, {n, s, s}),
                             .iterations = 20,
                             .hc_epsilon = 1e-6F,
                             .norm_epsilon = 1e-6F});
        auto results = split(pre, rows.size());
        const auto posts = split(post, rows.size());
        const auto combs = split(comb, rows.size());
        for (size_t i = 0; i < rows.size(); ++i) {
            results[i].insert(results[i].end(), posts[i].begin(), posts[i].end());
            results[i].insert(results[i].end(), combs[i].begin(), combs[i].end());
        }
        return results;
    };
    cases.push_back({fmt::format("hyper_mixes {}x{}", s, dim), kRows, run, 1e-5F, 1e-5F});
}

void add_streams(std::vector<OpCase>& cases, int64_t s, int64_t dim) {
    Numbers numbers(static_cast<uint32_t>(50 + s));
    auto streams = std::make_shared<std::vector<float>>(numbers.reals(kRows * s * dim));
    auto mixes = std::make_shared<std::vector<float>>(numbers.reals(kRows * (s + s + s * s)));
    auto branch = std::make_shared<std::vector<float>>(numbers.reals(kRows * dim));
    const auto collapse = [=](Backend& backend, const std::vector<int>& rows) {
        const auto n = static_cast<int64_t>(rows.size());
        std::vector<float> h = pick(*streams, s * dim, rows);
        std::vector<float> mix = pick(*mixes, s + s + s * s, rows);
        std::vector<float> out(rows.size() * static_cast<size_t>(dim));
        backend.hyper_collapse({.streams = view(h, {n, s, dim}),
                                .pre = view(mix, {n, s + s + s * s}).columns(0, s),
                                .collapsed = view(out, {n, dim})});
        return split(out, rows.size());
    };
    cases.push_back({fmt::format("hyper_collapse {}x{}", s, dim), kRows, collapse});
    const auto expand = [=](Backend& backend, const std::vector<int>& rows) {
        const auto n = static_cast<int64_t>(rows.size());
        std::vector<float> h = pick(*streams, s * dim, rows);
        std::vector<float> y = pick(*branch, dim, rows);
        std::vector<float> mix = pick(*mixes, s + s + s * s, rows);
        backend.hyper_expand({.streams = view(h, {n, s, dim}),
                              .output = view(y, {n, dim}),
                              .post = view(mix, {n, s + s + s * s}).columns(s, s),
                              .comb = view(mix, {n, s + s + s * s}).columns(2 * s, s * s)});
        return split(h, rows.size());
    };
    cases.push_back({fmt::format("hyper_expand {}x{}", s, dim), kRows, expand});
    const auto mean = [=](Backend& backend, const std::vector<int>& rows) {
        const auto n = static_cast<int64_t>(rows.size());
        std::vector<float> h = pick(*streams, s * dim, rows);
        std::vector<float> wide(rows.size() * static_cast<size_t>(3 * dim), 0.25F);
        backend.stream_mean({.streams = view(h, {n, s, dim}), .output = view(wide, {n, 3 * dim}).columns(dim, dim)});
        return split(wide, rows.size());
    };
    cases.push_back({fmt::format("stream_mean {}x{}", s, dim), kRows, mean});
}

void add_rope(std::vector<OpCase>& cases, int64_t heads, int64_t dim, int64_t pairs, bool inverse, bool splits_halves = false) {
    Numbers numbers(static_cast<uint32_t>(60 + pairs));
    auto x = std::make_shared<std::vector<float>>(numbers.reals(kRows * heads * dim));
    auto frequencies = std::make_shared<std::vector<float>>();
    for (int64_t i = 0; i < pairs; ++i) {
        frequencies->push_back(std::pow(10000.0F, -static_cast<float>(i) / static_cast<float>(pairs)));
    }
    const auto run = [=](Backend& backend, const std::vector<int>& rows) {
        const auto n = static_cast<int64_t>(rows.size());
        std::vector<float> values = pick(*x, heads * dim, rows);
        std::vector<int32_t> positions;
        for (const int row : rows) {
            positions.push_back(row < 3 ? row : row * row * 977);  // up to a million
        }
        backend.rope({.x = view(values, {n, heads, dim}),
                      .positions = view(positions, {n}),
                      .frequencies = view(*frequencies, {pairs}),
                      .inverse = inverse,
                      .splits_halves = splits_halves});
        return split(values, rows.size());
    };
    cases.push_back({fmt::format("rope {}x{} {} pairs inverse {} halves {}", heads, dim, pairs, inverse, splits_halves), kRows,
                     run, 1e-6F});
}

// Values over many magnitudes, ties of every format, zeros, huge and tiny ones.
std::vector<float> awkward_values(Numbers& numbers, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) {
        switch (numbers.below(6)) {
            case 0: values[i] = numbers.real(std::exp2(static_cast<float>(numbers.below(40) - 20))); break;
            case 1: values[i] = static_cast<float>(numbers.below(49) - 24) * 0.25F; break;  // e2m1 ties at scale 1
            case 2: values[i] = static_cast<float>(numbers.below(961) - 480) * 0.5F; break;
            case 3: values[i] = 0.0F; break;
            default: values[i] = numbers.real(); break;
        }
    }
    return values;
}

void add_quantisers(std::vector<OpCase>& cases, RowFormat format, int64_t dim) {
    Numbers numbers(static_cast<uint32_t>(70 + static_cast<int>(format)));
    auto x = std::make_shared<std::vector<float>>(awkward_values(numbers, kRows * 2 * dim));
    std::fill(x->begin(), x->begin() + dim, 0.0F);
    const auto fake = [=](Backend& backend, const std::vector<int>& rows) {
        const auto n = static_cast<int64_t>(rows.size());
        std::vector<float> values = pick(*x, 2 * dim, rows);
        backend.fake_quantise({.x = view(values, {n, 2, dim}), .format = format});
        return split(values, rows.size());
    };
    cases.push_back({fmt::format("fake_quantise {} {}", static_cast<int>(format), dim), kRows, fake, 0.0F, 0.0F});
    const auto store = [=](Backend& backend, const std::vector<int>& rows) {
        const auto n = static_cast<int64_t>(rows.size());
        std::vector<float> values = pick(*x, 2 * dim, rows);
        OwnedCache cache(format, dim, n, 3);
        std::vector<int32_t> blocks;
        std::vector<int32_t> places;
        for (size_t i = 0; i < rows.size(); ++i) {
            blocks.push_back(rows[i] % 5 == 4 ? -1 : static_cast<int32_t>(i));
            places.push_back(1);
        }
        // The input is a column range of wider rows.
        backend.store_rows({.input = view(values, {n, 2 * dim}).columns(dim, dim),
                            .cache = cache.view,
                            .blocks = view(blocks, {n}),
                            .rows = view(places, {n})});
        return split(cache.memory, rows.size());
    };
    cases.push_back({fmt::format("store_rows {} {}", static_cast<int>(format), dim), kRows, store, 0.0F, 0.0F});
}

void add_engram(std::vector<OpCase>& cases, int64_t s, int64_t dim) {
    Numbers numbers(80);
    auto streams = std::make_shared<std::vector<float>>(numbers.reals(kRows * s * dim));
    auto key_value = std::make_shared<std::vector<float>>(numbers.reals(kRows * (s + 1) * dim));
    // No agreement at all: the gate is that of plus zero.
    std::fill(key_value->begin(), key_value->begin() + dim, 0.0F);
    auto q = std::make_shared<std::vector<uint16_t>>(numbers.bf16s(s * dim));
    auto k = std::make_shared<std::vector<uint16_t>>(numbers.bf16s(s * dim));
    const auto run = [=](Backend& backend, const std::vector<int>& rows) {
        const auto n = static_cast<int64_t>(rows.size());
        std::vector<float> h = pick(*streams, s * dim, rows);
        std::vector<float> kv = pick(*key_value, (s + 1) * dim, rows);
        std::vector<uint8_t> is_image;
        for (const int row : rows) {
            is_image.push_back(row % 4 == 3 ? 1 : 0);
        }
        backend.engram_mix({.streams = view(h, {n, s, dim}),
                            .key_value = view(kv, {n, (s + 1) * dim}),
                            .q_weight = view(*q, {s, dim}),
                            .k_weight = view(*k, {s, dim}),
                            .is_image = view(is_image, {n}),
                            .epsilon = 1e-6F});
        return split(h, rows.size());
    };
    cases.push_back({"engram_mix", kRows, run});
}

void add_gates(std::vector<OpCase>& cases) {
    constexpr int64_t kDim = 45;
    Numbers numbers(90);
    auto x = std::make_shared<std::vector<float>>(numbers.reals(kRows * 2 * kDim, 6.0F));
    (*x)[3] = 200.0F;
    (*x)[4] = -200.0F;
    const auto sigmoid = [=](Backend& backend, const std::vector<int>& rows) {
        std::vector<float> values = pick(*x, 2 * kDim, rows);
        backend.sigmoid({.x = view(values, {static_cast<int64_t>(rows.size()), 2 * kDim}), .limit = 60.0F});
        return split(values, rows.size());
    };
    cases.push_back({"sigmoid", kRows, sigmoid, 1e-6F, 1e-6F});
    const auto warm_sigmoid = [=](Backend& backend, const std::vector<int>& rows) {
        std::vector<float> values = pick(*x, 2 * kDim, rows);
        const Tensor all = view(values, {static_cast<int64_t>(rows.size()), 2 * kDim});
        backend.sigmoid({.x = all, .limit = 60.0F, .temperature = 2.5F});
        return split(values, rows.size());
    };
    cases.push_back({"sigmoid with a temperature", kRows, warm_sigmoid, 1e-6F, 1e-6F});
    const auto silu = [=](Backend& backend, const std::vector<int>& rows) {
        const auto n = static_cast<int64_t>(rows.size());
        std::vector<float> values = pick(*x, 2 * kDim, rows);
        std::vector<float> out(rows.size() * kDim);
        backend.gated_silu({.gate_up = view(values, {n, 2 * kDim}), .output = view(out, {n, kDim})});
        return split(out, rows.size());
    };
    cases.push_back({"gated_silu", kRows, silu});
    const auto gelu = [=](Backend& backend, const std::vector<int>& rows) {
        std::vector<float> values = pick(*x, 2 * kDim, rows);
        backend.gelu({.x = view(values, {static_cast<int64_t>(rows.size()), 2 * kDim})});
        return split(values, rows.size());
    };
    cases.push_back({"gelu", kRows, gelu});
    const auto add = [=](Backend& backend, const std::vector<int>& rows) {
        const auto n = static_cast<int64_t>(rows.size());
        std::vector<float> values = pick(*x, 2 * kDim, rows);
        const Tensor both = view(values, {n, 2 * kDim});
        backend.add({.x = both.columns(0, kDim), .y = both.columns(kDim, kDim)});
        return split(values, rows.size());
    };
    cases.push_back({"add", kRows, add, 0.0F, 0.0F});
}

}  // namespace

std::vector<OpCase> row_cases() {
    std::vector<OpCase> cases;
    add_norms(cases);
    add_mixes(cases, 4, 40);
    add_mixes(cases, 2, 33);
    add_mixes(cases, 3, 8);
    add_streams(cases, 4, 67);
    add_streams(cases, 2, 32);
    add_rope(cases, 3, 48, 16, false);
    add_rope(cases, 3, 48, 16, true);
    add_rope(cases, 1, 20, 5, false);
    add_rope(cases, 3, 64, 32, false, true);
    add_rope(cases, 2, 50, 21, false, true);
    add_rope(cases, 2, 16, 8, true, true);
    add_quantisers(cases, RowFormat::kF32, 33);
    add_quantisers(cases, RowFormat::kF16, 33);
    add_quantisers(cases, RowFormat::kFp8, 96);
    add_quantisers(cases, RowFormat::kNvfp4, 48);
    add_quantisers(cases, RowFormat::kMxfp4, 64);
    add_engram(cases, 4, 83);
    add_gates(cases);
    return cases;
}

}  // namespace di::contract
