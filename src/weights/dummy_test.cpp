#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tensor/quant.h"
#include "weights/checkpoint.h"
#include "weights/inventory.h"
#include "weights/random_codes.h"

namespace di {
namespace {

Checkpoint make(const std::string& directory, uint64_t seed) {
    auto checkpoint = Checkpoint::dummy(*load_model_config(directory), seed);
    EXPECT_TRUE(checkpoint) << checkpoint.error().text;
    return std::move(*checkpoint);
}

std::vector<float> row_of(const Weight& weight, int64_t row) {
    std::vector<float> values(static_cast<size_t>(weight.cols));
    dequantise_weight_row(weight, row, 0, values);
    return values;
}

// Root mean square of the first rows.
double rms_of(const Weight& weight) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t row = 0; row < std::min<int64_t>(weight.rows, 64); ++row) {
        for (const float value : row_of(weight, row)) {
            sum += static_cast<double>(value) * value;
            ++count;
        }
    }
    return std::sqrt(sum / static_cast<double>(count));
}

TEST(DummyWeights, HaveTheInventoryOfTheModel) {
    for (const std::string directory : {DI_TEST_DATA "/v41-tiny", DI_TEST_DATA "/v41-tiny-quant", DI_MODELS "/v41-mini"}) {
        const ModelConfig config = *load_model_config(directory);
        const Checkpoint real = *Checkpoint::open(directory, config);
        const Checkpoint dummy = make(directory, 1);
        EXPECT_TRUE(dummy.is_dummy());
        EXPECT_EQ(dummy.total_bytes(), real.total_bytes());
        ASSERT_EQ(dummy.tensors().size(), real.tensors().size());
        for (const auto& [name, stored] : real.tensors()) {
            ASSERT_TRUE(dummy.tensors().contains(name)) << name;
            const StoredTensor& made = dummy.tensors().at(name);
            EXPECT_EQ(made.dtype, stored.dtype) << name;
            EXPECT_EQ(made.shape, stored.shape) << name;
            EXPECT_EQ(made.bytes, stored.bytes) << name;
        }
    }
}

TEST(DummyWeights, AreFiniteAndAsLargeAsAFreshNetworks) {
    for (const std::string directory : {DI_TEST_DATA "/v41-tiny", DI_TEST_DATA "/v41-tiny-quant"}) {
        const ModelConfig config = *load_model_config(directory);
        const Checkpoint dummy = make(directory, 7);
        for (const ExpectedTensor& expected : expected_tensors(config)) {
            if (expected.rank == 2) {
                const std::string_view name = expected.name;
                const Weight weight = dummy.weight(name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name);
                for (int64_t row = 0; row < weight.rows; ++row) {
                    for (const float value : row_of(weight, row)) {
                        ASSERT_TRUE(std::isfinite(value)) << name;
                    }
                }
                const double wanted = initial_deviation(expected);
                const double rms = expected.initial == Initial::kNearOne ? rms_of(weight) * wanted : rms_of(weight);
                // The scale is a power of two: within half an octave, and some more for small samples.
                EXPECT_GT(rms, wanted / 1.7) << name;
                EXPECT_LT(rms, wanted * 1.7) << name;
                continue;
            }
            const Tensor tensor = dummy.tensor(expected.name);
            for (int64_t i = 0; i < tensor.rows(); ++i) {
                const float value =
                    tensor.dtype == DType::kF32 ? tensor.ptr<float>()[i] : bf16_to_f32(tensor.ptr<uint16_t>()[i]);
                ASSERT_TRUE(std::isfinite(value)) << expected.name;
                if (expected.initial == Initial::kNearOne) {
                    ASSERT_NEAR(value, 1.0F, 0.4F) << expected.name;
                }
                if (expected.initial == Initial::kScale) {
                    ASSERT_GE(value, 0.5F);
                    ASSERT_LE(value, 1.5F);
                }
            }
        }
    }
}

TEST(DummyWeights, DependOnTheSeedOnly) {
    const Checkpoint a = make(DI_TEST_DATA "/v41-tiny-quant", 5);
    const Checkpoint b = make(DI_TEST_DATA "/v41-tiny-quant", 5);
    const Checkpoint c = make(DI_TEST_DATA "/v41-tiny-quant", 6);
    int64_t different = 0;
    for (const auto& [name, stored] : a.tensors()) {
        const auto bytes = static_cast<size_t>(stored.bytes);
        EXPECT_EQ(std::memcmp(stored.data, b.tensors().at(name).data, bytes), 0) << name;
        different += std::memcmp(stored.data, c.tensors().at(name).data, bytes) != 0 ? 1 : 0;
        EXPECT_EQ(name.ends_with(".scale"), std::memcmp(stored.data, c.tensors().at(name).data, bytes) == 0) << name;
    }
    EXPECT_GT(different, 400);
    // The same bytes on every machine: these are part of the promise.
    const Tensor norm = a.tensor("norm.weight");
    const Weight expert = a.weight("layers.0.ffn.experts.0.w1");
    uint64_t first = 0;
    std::memcpy(&first, expert.data, 8);
    EXPECT_EQ(first, 14413182086617350404ULL);
    EXPECT_EQ(norm.ptr<uint16_t>()[0], 16268);  // 1.109
}

TEST(DummyWeights, DifferBetweenExperts) {
    const Checkpoint dummy = make(DI_MODELS "/v41-mini", 3);
    std::set<std::vector<float>> rows;
    for (int expert = 0; expert < 8; ++expert) {
        rows.insert(row_of(dummy.weight(fmt::format("layers.4.ffn.experts.{}.w2", expert)), 0));
    }
    EXPECT_EQ(rows.size(), 8U);
}

// 475 GiB of addresses, of which only what is touched exists.
TEST(DummyWeights, OpenAModelLargerThanAnyMachine) {
    const auto start = std::chrono::steady_clock::now();
    const Checkpoint dummy = make(DI_TEST_DATA "/flash", 1);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(dummy.total_bytes(), 510'286'023'000);
    EXPECT_EQ(dummy.tensors().size(), 96'085U);
    // Much slower would mean that it is filled page by page (that takes minutes). Not a measurement.
    EXPECT_LT(elapsed.count(), 20.0);
    RecordProperty("seconds", fmt::format("{:.3f}", elapsed.count()));
    for (const std::string name :
         {"layers.14.engram.embed", "layers.39.ffn.experts.383.w2", "mtp.2.ffn.experts.127.w3", "head"}) {
        const Weight weight = dummy.weight(name);
        for (const int64_t row : {int64_t{0}, weight.rows / 2, weight.rows - 1}) {
            for (const float value : row_of(weight, row)) {
                ASSERT_TRUE(std::isfinite(value));
            }
        }
    }
}

TEST(DummyWeights, KeepTheirMemoryWhenMoved) {
    Checkpoint first = make(DI_TEST_DATA "/v41-tiny", 1);
    const Weight weight = first.weight("embed");
    const auto before = row_of(weight, 100);
    Checkpoint second = std::move(first);
    first = make(DI_TEST_DATA "/v41-tiny", 2);
    EXPECT_EQ(row_of(weight, 100), before);
    EXPECT_EQ(second.weight("embed").data, weight.data);
}

}  // namespace
}  // namespace di
