#include "tensor/block_quant.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "safetensors_fixture.h"
#include "tensor/quant.h"

namespace di {
namespace {

constexpr std::array kBlockTypes{DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,  DType::kQ2_K,
                                 DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIq4Nl, DType::kMxfp4};

const SafetensorsFixture& fixture() {
    static const SafetensorsFixture file(DI_TEST_DATA "/gguf/blocks.safetensors");
    return file;
}

bool is_same_value(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// Blocks of one type beside what the package `gguf` reads from them.
struct Golden {
    std::vector<uint8_t> blocks;
    std::vector<float> values;

    explicit Golden(DType dtype)
        : blocks(fixture().at(std::string(dtype_name(dtype)) + ".blocks").bytes),
          values(fixture().at(std::string(dtype_name(dtype)) + ".values").floats()) {}
};

class BlockTypes : public testing::TestWithParam<DType> {};

TEST_P(BlockTypes, DecodeEveryBitAsThePackage) {
    const DType dtype = GetParam();
    const DTypeBlock block = dtype_block(dtype);
    const Golden golden(dtype);
    const int64_t count = static_cast<int64_t>(golden.blocks.size()) / block.bytes;
    ASSERT_EQ(static_cast<int64_t>(golden.blocks.size()), count * block.bytes);
    ASSERT_EQ(static_cast<int64_t>(golden.values.size()), count * block.values);
    std::vector<float> values(static_cast<size_t>(block.values));
    for (int64_t b = 0; b < count; ++b) {
        dequantise_block(dtype, golden.blocks.data() + b * block.bytes, values);
        for (int64_t i = 0; i < block.values; ++i) {
            const float expected = golden.values[static_cast<size_t>(b * block.values + i)];
            ASSERT_TRUE(is_same_value(values[static_cast<size_t>(i)], expected))
                << "block " << b << ", value " << i << ": " << values[static_cast<size_t>(i)] << ", expected " << expected;
        }
    }
}

TEST_P(BlockTypes, GoldensHoldZeroInfinityAndNan) {
    const Golden golden(GetParam());
    EXPECT_TRUE(std::ranges::any_of(golden.values, [](float value) { return value == 0.0F; }));
    EXPECT_TRUE(std::ranges::any_of(golden.values, [](float value) { return std::isinf(value); }));
    if (GetParam() != DType::kMxfp4) {
        EXPECT_TRUE(std::ranges::any_of(golden.values, [](float value) { return std::isnan(value); }));
    }
}

TEST_P(BlockTypes, WeightRowsAreReadFromAnyColumn) {
    const DType dtype = GetParam();
    const DTypeBlock block = dtype_block(dtype);
    const Golden golden(dtype);
    // Two rows of three blocks, at an odd address.
    std::vector<uint8_t> bytes(1 + static_cast<size_t>(6 * block.bytes));
    std::copy_n(golden.blocks.begin(), 6 * block.bytes, bytes.begin() + 1);
    const Weight weight{.dtype = dtype, .data = bytes.data() + 1, .rows = 2, .cols = 3 * block.values};
    EXPECT_EQ(weight.row_bytes(), 3 * block.bytes);
    EXPECT_EQ(weight.data_bytes(), 6 * block.bytes);
    for (int64_t row = 0; row < weight.rows; ++row) {
        for (const int64_t first : {int64_t{0}, int64_t{1}, block.values - 1, block.values, 2 * block.values + 7}) {
            for (const int64_t count : {int64_t{0}, int64_t{1}, block.values, weight.cols - first}) {
                if (first + count > weight.cols) {
                    continue;
                }
                std::vector<float> values(static_cast<size_t>(count));
                dequantise_weight_row(weight, row, first, values);
                for (int64_t i = 0; i < count; ++i) {
                    const auto at = static_cast<size_t>(row * weight.cols + first + i);
                    ASSERT_TRUE(is_same_value(values[static_cast<size_t>(i)], golden.values[at]))
                        << row << ", " << first << " + " << i;
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Gguf, BlockTypes, testing::ValuesIn(kBlockTypes),
                         [](const testing::TestParamInfo<DType>& dtype) { return std::string(dtype_name(dtype.param)); });

TEST(WeightRow, DecodesF16AsThePackage) {
    const std::vector<float> expected = fixture().at("f16.values").floats();
    const std::vector<uint8_t> halves = fixture().at("f16.blocks").bytes;
    const auto count = static_cast<int64_t>(expected.size());
    const Weight weight{.dtype = DType::kF16, .data = halves.data(), .rows = 1, .cols = count};
    EXPECT_EQ(weight.row_bytes(), 2 * count);
    std::vector<float> values(expected.size());
    dequantise_weight_row(weight, 0, 0, values);
    for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(is_same_value(values[i], expected[i])) << i << ": " << values[i] << ", expected " << expected[i];
    }
}

TEST(DTypeBlocks, KeepTheBitsOfPlainTypes) {
    EXPECT_EQ(dtype_bits(DType::kF32), 32);
    EXPECT_EQ(dtype_bits(DType::kF16), 16);
    EXPECT_EQ(dtype_bits(DType::kF8E8M0), 8);
    EXPECT_EQ(dtype_bits(DType::kF4E2M1), 4);
    EXPECT_EQ(dtype_bytes(DType::kF4E2M1, 6), 3);
    EXPECT_EQ(dtype_bytes(DType::kQ6_K, 512), 420);
    EXPECT_FALSE(is_block_quantised(DType::kF4E2M1));
    EXPECT_TRUE(is_block_quantised(DType::kQ8_0));
}

TEST(DTypeBlocksDeathTest, RefusesTheBitsOfABlockType) {
    EXPECT_DEATH(static_cast<void>(dtype_bits(DType::kQ4_1)), "block type has no bits");
}

}  // namespace
}  // namespace di
