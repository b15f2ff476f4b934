// Every fast backend against `ref`, and against itself: the bits of a row never depend on the rows beside it or
// on the number of threads. Cases are in contract_*_test.cpp.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/contract_cases.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa.h"
#include "backend/ref/ref_backend.h"

namespace di::contract {

bool is_small_sweep() {
    const char* sweep = std::getenv("DEEPINFER_CONTRACT_SWEEP");
    return sweep != nullptr && std::string_view(sweep) == "small";
}

OwnedWeight::OwnedWeight(Numbers& numbers, DType dtype, ScaleLayout layout, int64_t rows, int64_t cols) {
    weight = {.dtype = dtype, .scale_layout = layout, .rows = rows, .cols = cols};
    data.resize(static_cast<size_t>(weight.data_bytes()) + 1);
    scale.resize(static_cast<size_t>(weight.scale_bytes()));
    uint8_t* at = data.data() + 1;
    if (dtype == DType::kF32 || dtype == DType::kBF16) {
        for (int64_t i = 0; i < rows * cols; ++i) {
            const float value = numbers.real(0.5F);
            const uint16_t half = f32_to_bf16(value);
            std::memcpy(dtype == DType::kF32 ? at + 4 * i : at + 2 * i,
                        dtype == DType::kF32 ? static_cast<const void*>(&value) : &half, dtype == DType::kF32 ? 4 : 2);
        }
    } else if (dtype == DType::kF16) {
        for (int64_t i = 0; i < rows * cols; ++i) {
            const uint16_t half = f32_to_f16(numbers.real(0.5F));
            std::memcpy(at + 2 * i, &half, 2);
        }
    } else {
        for (size_t i = 1; i < data.size(); ++i) {
            const uint8_t code = numbers.byte();
            // 0x7f and 0xff are NaN.
            data[i] = dtype == DType::kF8E4M3 && (code & 0x7f) == 0x7f ? 0x7e : code;
        }
    }
    // Blocks begin with a scale, those of two numbers a value (Q4_1, Q4_K) with an offset behind it: halves that are no infinity.
    const DTypeBlock block = dtype_block(dtype);
    for (int64_t i = 0; is_block_quantised(dtype) && i < weight.data_bytes(); i += block.bytes) {
        for (int64_t field = 0; field < (dtype == DType::kQ8_0 ? 1 : 2); ++field) {
            const uint16_t half = f32_to_f16(numbers.real(0.02F));
            std::memcpy(at + i + 2 * field, &half, 2);
        }
    }
    for (uint8_t& code : scale) {
        code = static_cast<uint8_t>(118 + numbers.below(6));
    }
    weight.data = at;
    weight.scale = scale.empty() ? nullptr : scale.data();
}

std::shared_ptr<OwnedWeight> bf16_weight(const std::vector<float>& values, int64_t rows, int64_t cols) {
    Numbers unused(1);
    auto owned = std::make_shared<OwnedWeight>(unused, DType::kBF16, ScaleLayout::kNone, rows, cols);
    for (size_t i = 0; i < values.size(); ++i) {
        const uint16_t half = f32_to_bf16(values[i]);
        std::memcpy(owned->data.data() + 1 + 2 * i, &half, 2);
    }
    return owned;
}

OwnedCache::OwnedCache(RowFormat format, int64_t dim, int64_t blocks, int64_t rows_per_block) {
    view.format = format;
    view.dim = dim;
    view.rows_per_block = rows_per_block;
    view.data_stride = row_data_bytes(format, dim);
    view.scale_offset = view.data_stride * rows_per_block;
    view.scale_stride = row_scale_bytes(format, dim);
    view.block_bytes = view.scale_offset + view.scale_stride * rows_per_block;
    memory.resize(static_cast<size_t>(view.block_bytes * blocks), 0xee);
    view.base = memory.data();
}

void OwnedCache::put(int64_t block, int64_t row, std::span<const float> values) {
    quantise_row(view.format, values, view.data(block, row), view.scale(block, row));
}

namespace {

constexpr const char* kIsas[] = {"generic", "avx2", "avx512", "avx512bf16", "neon"};

std::vector<OpCase> all_cases() {
    std::vector<OpCase> cases;
    for (const auto& list : {linear_cases(), row_cases(), attention_cases(), index_cases(), expert_cases()}) {
        cases.insert(cases.end(), list.begin(), list.end());
    }
    return cases;
}

// A case may be run by many tests; making all of them takes a moment.
const std::vector<OpCase>& cases() {
    static const std::vector<OpCase> all = all_cases();
    return all;
}

std::vector<int> counting(int first, int count) {
    std::vector<int> rows(static_cast<size_t>(count));
    std::iota(rows.begin(), rows.end(), first);
    return rows;
}

class Contract : public ::testing::TestWithParam<std::tuple<const char*, Activations>> {
  protected:
    void SetUp() override {
        const auto available = cpu::available_isas();
        if (std::find(available.begin(), available.end(), isa()) == available.end()) {
            GTEST_SKIP() << "skipped: no " << isa();
        }
    }
    [[nodiscard]] static std::string isa() { return std::get<0>(GetParam()); }
    [[nodiscard]] static Activations activations() { return std::get<1>(GetParam()); }
    [[nodiscard]] static std::unique_ptr<Backend> make(int threads) {
        auto backend = cpu::create({.threads = threads, .activations = activations()}, isa());
        EXPECT_TRUE(backend.has_value()) << backend.error().text;
        return std::move(*backend);
    }
};

void expect_close(const OpCase& op, const std::vector<RowResult>& expected, const std::vector<RowResult>& actual,
                  float tolerance) {
    ASSERT_EQ(expected.size(), actual.size()) << op.name;
    float largest = 0.0F;
    for (const RowResult& row : expected) {
        for (const float value : row) {
            largest = std::isfinite(value) ? std::max(largest, std::fabs(value)) : largest;
        }
    }
    for (size_t row = 0; row < expected.size(); ++row) {
        ASSERT_EQ(expected[row].size(), actual[row].size()) << op.name << " row " << row;
        for (size_t i = 0; i < expected[row].size(); ++i) {
            const float want = expected[row][i];
            const float got = actual[row][i];
            const bool is_same = want == got || (std::isnan(want) && std::isnan(got));
            if (!is_same && !(std::fabs(want - got) <= tolerance * largest)) {
                FAIL() << fmt::format("{}: row {} value {}: {} instead of {} (tolerance {})", op.name, row, i, got, want,
                                      tolerance * largest);
            }
        }
    }
}

void expect_same_bits(const OpCase& op, const std::string& how, const RowResult& expected, const RowResult& actual, int row) {
    ASSERT_EQ(expected.size(), actual.size()) << op.name << " " << how;
    for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(expected[i]), std::bit_cast<uint32_t>(actual[i]))
            << fmt::format("{} {}: row {} value {}: {} instead of {}", op.name, how, row, i, actual[i], expected[i]);
    }
}

TEST_P(Contract, AgreesWithRef) {
    const auto reference = ref::create({.threads = 1, .activations = activations()});
    const auto backend = make(2);
    for (const OpCase& op : cases()) {
        const std::vector<int> rows = counting(0, op.row_count);
        const float tolerance = activations() == Activations::kBF16 ? op.tolerance_bf16 : op.tolerance;
        expect_close(op, op.run(*reference, rows), op.run(*backend, rows), tolerance);
        if (HasFatalFailure()) {
            return;
        }
    }
}

TEST_P(Contract, RowsDoNotDependOnTheirCompanyOrThreads) {
    const auto one = make(1);
    const auto two = make(2);
    const auto three = make(3);
    for (const OpCase& op : cases()) {
        const std::vector<RowResult> alone_in_order = op.run(*one, counting(0, op.row_count));
        for (const int size : {1, 2, 3, 7}) {
            for (int first = 0; first < op.row_count; first += size) {
                const std::vector<int> rows = counting(first, std::min(size, op.row_count - first));
                // A batch in falling order: every row stands at another place than in the full run.
                const std::vector<int> falling(rows.rbegin(), rows.rend());
                const auto results = op.run(size == 2 ? *two : *one, falling);
                for (size_t i = 0; i < falling.size(); ++i) {
                    expect_same_bits(op, fmt::format("in a batch of {}", size), alone_in_order[static_cast<size_t>(falling[i])],
                                     results[i], falling[i]);
                    if (HasFatalFailure()) {
                        return;
                    }
                }
            }
        }
        for (Backend* backend : {two.get(), three.get()}) {
            const auto results = op.run(*backend, counting(0, op.row_count));
            for (int row = 0; row < op.row_count; ++row) {
                expect_same_bits(op, "with more threads", alone_in_order[static_cast<size_t>(row)],
                                 results[static_cast<size_t>(row)], row);
                if (HasFatalFailure()) {
                    return;
                }
            }
        }
    }
}

// Rows of every case once more in batches that shift by one: each row stands at every index of a batch of 7.
TEST_P(Contract, RowsDoNotDependOnTheirPlaceInABatch) {
    const auto backend = make(2);
    for (const OpCase& op : cases()) {
        const auto expected = op.run(*backend, counting(0, op.row_count));
        const int size = std::min(7, op.row_count);
        for (int first = 0; first + size <= op.row_count; ++first) {
            const auto results = op.run(*backend, counting(first, size));
            for (int i = 0; i < size; ++i) {
                expect_same_bits(op, fmt::format("at index {} of 7", i), expected[static_cast<size_t>(first + i)],
                                 results[static_cast<size_t>(i)], first + i);
                if (HasFatalFailure()) {
                    return;
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Cpu, Contract, ::testing::Combine(::testing::ValuesIn(kIsas), ::testing::Values(Activations::kF32, Activations::kBF16)),
    [](const auto& test) {
        return std::string(std::get<0>(test.param)) + (std::get<1>(test.param) == Activations::kBF16 ? "_bf16" : "_f32");
    });

TEST(Backends, UnknownNameIsAnErrorThatListsTheKnown) {
    const auto backend = create_backend("gpu", {});
    ASSERT_FALSE(backend.has_value());
    EXPECT_EQ(backend.error().text, "unknown backend 'gpu', expected one of auto, cpu, ref");
}

TEST(Backends, EveryNameOfTheTableCanBeMade) {
    for (const std::string& name : backend_names()) {
        const auto backend = create_backend(name, {.threads = 2});
        ASSERT_TRUE(backend.has_value()) << name;
        EXPECT_EQ((*backend)->activation_dtype(), DType::kF32);
    }
}

TEST(Backends, ThreadsOutsideTheLimitsAreAnError) {
    for (const int threads : {-1, 0, 1025}) {
        const auto backend = create_backend("cpu", {.threads = threads});
        ASSERT_FALSE(backend.has_value());
        EXPECT_EQ(backend.error().text, fmt::format("the number of threads is {}, expected 1 to 1024", threads));
    }
}

}  // namespace

}  // namespace di::contract
