#include "tensor/quant.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "safetensors_fixture.h"

namespace di {
namespace {

const SafetensorsFixture& fixture() {
    static const SafetensorsFixture file(DI_TEST_DATA "/units/quant.safetensors");
    return file;
}

bool is_same_value(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// --- single values ------------------------------------------------------------

TEST(Formats, DecodeEveryE4M3AndE8M0CodeAsTorch) {
    const auto e4m3 = fixture().at("e4m3.table").floats();
    const auto e8m0 = fixture().at("e8m0.table").floats();
    for (size_t code = 0; code < 256; ++code) {
        EXPECT_TRUE(is_same_value(e4m3_to_f32(static_cast<uint8_t>(code)), e4m3[code])) << "e4m3 " << code;
        EXPECT_TRUE(is_same_value(e8m0_to_f32(static_cast<uint8_t>(code)), e8m0[code])) << "e8m0 " << code;
    }
}

TEST(Formats, EncodeE4M3ToTheNearestCodeWithTiesToEven) {
    for (int code = 0; code < 256; ++code) {
        const float value = e4m3_to_f32(static_cast<uint8_t>(code));
        if (!std::isnan(value)) {
            EXPECT_EQ(f32_to_e4m3(value), code);
        }
    }
    for (int code = 0; code < 0x7e; ++code) {
        const float low = e4m3_to_f32(static_cast<uint8_t>(code));
        const float high = e4m3_to_f32(static_cast<uint8_t>(code + 1));
        const float middle = (low + high) / 2;  // exact
        EXPECT_EQ(f32_to_e4m3(middle), code + (code & 1)) << middle;
        EXPECT_EQ(f32_to_e4m3(std::nextafter(middle, 0.0F)), code) << middle;
        EXPECT_EQ(f32_to_e4m3(std::nextafter(middle, 1e9F)), code + 1) << middle;
        EXPECT_EQ(f32_to_e4m3(-middle), (code + (code & 1)) | 0x80) << middle;
    }
    EXPECT_EQ(f32_to_e4m3(1e30F), 0x7e);
    EXPECT_EQ(f32_to_e4m3(-std::numeric_limits<float>::infinity()), 0xfe);
    EXPECT_EQ(f32_to_e4m3(NAN), 0x7f);
    EXPECT_EQ(f32_to_e4m3(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Formats, EncodeE2M1WithTheTiesOfTheFormat) {
    const std::vector<std::pair<float, int>> cases{{0.0F, 0}, {0.25F, 0}, {0.26F, 1}, {0.5F, 1}, {0.75F, 2}, {0.74F, 1},
                                                   {1.0F, 2}, {1.25F, 2}, {1.26F, 3}, {1.5F, 3}, {1.75F, 4}, {1.74F, 3},
                                                   {2.0F, 4}, {2.5F, 4},  {2.51F, 5}, {3.0F, 5}, {3.5F, 6},  {3.49F, 5},
                                                   {4.0F, 6}, {5.0F, 6},  {5.01F, 7}, {6.0F, 7}, {100.0F, 7}};
    for (const auto& [value, code] : cases) {
        EXPECT_EQ(f32_to_e2m1(value), code) << value;
        EXPECT_EQ(f32_to_e2m1(-value), code == 0 ? 0 : code | 8) << -value;  // never minus zero
    }
    const std::vector<float> magnitudes{0, .5F, 1, 1.5F, 2, 3, 4, 6};
    for (uint8_t code = 0; code < 8; ++code) {
        EXPECT_EQ(e2m1_to_f32(code), magnitudes[code]);
        EXPECT_EQ(e2m1_to_f32(code | 8), -magnitudes[code]);
    }
    EXPECT_FALSE(std::signbit(e2m1_to_f32(8)));  // code 8 reads as 0
}

TEST(Formats, RoundToBf16ToNearestEven) {
    EXPECT_EQ(f32_to_bf16(1.0F), 0x3f80);
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000U)), 0x3f80);  // tie, even stays
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000U)), 0x3f82);  // tie, odd goes up
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001U)), 0x3f81);
    EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);  // rounds to infinity
    EXPECT_TRUE(std::isnan(round_bf16(NAN)));
    EXPECT_TRUE(std::isnan(round_bf16(std::bit_cast<float>(0x7f800001U))));  // does not turn into infinity
}

TEST(Formats, DecodeF16) {
    EXPECT_EQ(f16_to_f32(0x3c00), 1.0F);
    EXPECT_EQ(f16_to_f32(0xc000), -2.0F);
    EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24F);
    EXPECT_EQ(f16_to_f32(0x7bff), 65504.0F);
    EXPECT_TRUE(std::isinf(f16_to_f32(0x7c00)));
    EXPECT_TRUE(std::isnan(f16_to_f32(0x7e00)));
    EXPECT_TRUE(std::signbit(f16_to_f32(0x8000)));
}

TEST(Formats, FindTheSmallestPowerOfTwoAbove) {
    EXPECT_EQ(e8m0_ceil(1.0F), 127);
    EXPECT_EQ(e8m0_ceil(1.0000001F), 128);
    EXPECT_EQ(e8m0_ceil(0.75F), 127);
    EXPECT_EQ(e8m0_ceil(0x1p-126F), 1);
    EXPECT_EQ(e8m0_ceil(std::numeric_limits<float>::max()), 254);  // never the NaN code
}

// --- weights --------------------------------------------------------------------

struct WeightCase {
    std::string name;  // of the fixture
    std::string data;
    DType dtype;
    ScaleLayout layout;
};

TEST(WeightFormats, DequantiseEveryLayoutExactly) {
    const std::vector<WeightCase> cases{{"fp8_32x32.full", "weight_u8", DType::kF8E4M3, ScaleLayout::kBlock32x32},
                                        {"fp8_32x32.ragged", "weight_u8", DType::kF8E4M3, ScaleLayout::kBlock32x32},
                                        {"fp8_rowwise", "weight_u8", DType::kF8E4M3, ScaleLayout::kRow32},
                                        {"fp4", "packed_i8", DType::kF4E2M1, ScaleLayout::kRow32}};
    for (const WeightCase& item : cases) {
        const FixtureTensor& data = fixture().at(item.name + "." + item.data);
        const FixtureTensor& scale = fixture().at(item.name + ".scale_u8");
        const FixtureTensor& expected = fixture().at(item.name + ".dequant");
        const Weight weight{.dtype = item.dtype,
                            .scale_layout = item.layout,
                            .data = data.bytes.data(),
                            .scale = scale.bytes.data(),
                            .rows = expected.shape[0],
                            .cols = expected.shape[1]};
        EXPECT_EQ(weight.data_bytes(), std::ssize(data.bytes)) << item.name;
        EXPECT_EQ(weight.scale_bytes(), std::ssize(scale.bytes)) << item.name;
        const auto values = expected.floats();
        // In pieces that do not begin where a group of 32 does.
        for (int64_t row = 0; row < weight.rows; ++row) {
            for (int64_t first = 0; first < weight.cols; first += 7) {
                std::vector<float> piece(static_cast<size_t>(std::min<int64_t>(7, weight.cols - first)));
                dequantise_weight_row(weight, row, first, piece);
                for (size_t i = 0; i < piece.size(); ++i) {
                    const size_t at = static_cast<size_t>(row * weight.cols + first) + i;
                    ASSERT_EQ(piece[i], values[at])
                        << item.name << " row " << row << " column " << first + static_cast<int64_t>(i);
                }
            }
        }
    }
}

TEST(WeightFormats, ReadPlainValuesFromUnalignedPlaces) {
    const std::vector<float> values{1.5F, -2.25F, 3.0F, 0.0F, 7.0F, -0.125F};
    std::vector<uint8_t> wide(1 + values.size() * 4);
    std::memcpy(wide.data() + 1, values.data(), values.size() * 4);
    std::vector<uint8_t> narrow(1 + values.size() * 2);
    for (size_t i = 0; i < values.size(); ++i) {
        const uint16_t bits = f32_to_bf16(values[i]);
        std::memcpy(narrow.data() + 1 + i * 2, &bits, 2);
    }
    for (const auto& [dtype, data] : {std::pair(DType::kF32, wide.data()), std::pair(DType::kBF16, narrow.data())}) {
        const Weight weight{.dtype = dtype, .data = data + 1, .rows = 2, .cols = 3};
        std::vector<float> row(3);
        dequantise_weight_row(weight, 1, 0, row);
        EXPECT_EQ(row, (std::vector<float>{0.0F, 7.0F, -0.125F}));
    }
}

// --- rows of caches and activations -------------------------------------------------

// `input` through the format, against the fixture's values; returns how many differ.
int64_t count_differences(const std::string& set, const std::string& name, RowFormat format) {
    const FixtureTensor& input = fixture().at(set + ".input");
    const auto values = input.floats();
    const auto expected = fixture().at(set + "." + name).floats();
    const auto width = static_cast<size_t>(input.shape[1]);
    int64_t differences = 0;
    for (size_t first = 0; first < values.size(); first += width) {
        const std::span<const float> row(&values[first], width);
        std::vector<uint8_t> data(static_cast<size_t>(row_data_bytes(format, input.shape[1])), 0xaa);
        std::vector<uint8_t> scale(static_cast<size_t>(row_scale_bytes(format, input.shape[1])), 0xaa);
        quantise_row(format, row, data.data(), scale.data());
        std::vector<float> back(width);
        dequantise_row(format, data.data(), scale.data(), back);
        std::vector<float> fake(row.begin(), row.end());
        fake_quantise_row(format, fake);
        for (size_t i = 0; i < width; ++i) {
            EXPECT_EQ(back[i], fake[i]) << "the two ways through " << name << " differ";
            if (back[i] == expected[first + i]) {
                continue;
            }
            ++differences;
            // The one rounding tie of the fixture's notes: x / s or x * (1 / s), both are right.
            EXPECT_EQ(set + "." + name, "cache.bf16.nvfp4");
            EXPECT_EQ(first + i, 12 * width + 60);
            EXPECT_EQ(row[i], 0.146484375F);
            EXPECT_EQ(back[i], 0.17578125F);
        }
    }
    return differences;
}

TEST(RowFormats, QuantiseCachesExactlyAsTheReference) {
    for (const std::string set : {"cache.f32", "cache.bf16"}) {
        EXPECT_EQ(count_differences(set, "fp8", RowFormat::kFp8), 0);
        EXPECT_EQ(count_differences(set, "mxfp4", RowFormat::kMxfp4), 0);
        EXPECT_LE(count_differences(set, "nvfp4", RowFormat::kNvfp4), set == "cache.bf16" ? 1 : 0);
    }
}

TEST(RowFormats, KeepRowsOfZerosAtZeroWithAFiniteScale) {
    const std::vector<float> zeros(64, 0.0F);
    for (const RowFormat format : {RowFormat::kF32, RowFormat::kFp8, RowFormat::kNvfp4, RowFormat::kMxfp4}) {
        std::vector<float> values = zeros;
        fake_quantise_row(format, values);
        EXPECT_EQ(values, zeros);
    }
}

TEST(RowFormats, AreStableUnderASecondTrip) {
    const auto values = fixture().at("cache.f32.input").floats();
    for (const RowFormat format : {RowFormat::kFp8, RowFormat::kNvfp4, RowFormat::kMxfp4}) {
        std::vector<float> once(values.begin(), values.begin() + 64);
        fake_quantise_row(format, once);
        std::vector<float> twice = once;
        fake_quantise_row(format, twice);
        EXPECT_EQ(once, twice);
    }
}

TEST(RowFormats, TakeTheBytesOfTheFormat) {
    EXPECT_EQ(row_bytes(RowFormat::kFp8, 512), 528);
    EXPECT_EQ(row_bytes(RowFormat::kNvfp4, 512), 288);
    EXPECT_EQ(row_bytes(RowFormat::kMxfp4, 128), 68);
    EXPECT_EQ(row_bytes(RowFormat::kF32, 512), 2048);
    EXPECT_EQ(row_data_bytes(RowFormat::kNvfp4, 512), 256);
    EXPECT_EQ(row_scale_bytes(RowFormat::kNvfp4, 512), 32);
}

TEST(RowFormats, PutTheEvenColumnIntoTheLowNibble) {
    std::vector<float> values(32, 0.0F);
    values[0] = 6.0F;
    values[1] = -1.0F;
    std::vector<uint8_t> data(16);
    std::vector<uint8_t> scale(1);
    quantise_row(RowFormat::kMxfp4, values, data.data(), scale.data());
    EXPECT_EQ(scale[0], 127);
    EXPECT_EQ(data[0], 0xa7);
}

TEST(RowFormats, GiveTheProductOfTheFp8Linear) {
    const auto input = fixture().at("own_torch.fp8_linear.x");
    const auto quantised = fixture().at("own_torch.fp8_linear.x_quantised").floats();
    const FixtureTensor& data = fixture().at("own_torch.fp8_linear.weight_u8");
    const FixtureTensor& scale = fixture().at("own_torch.fp8_linear.scale_u8");
    const auto expected = fixture().at("own_torch.fp8_linear.y").floats();
    const Weight weight{.dtype = DType::kF8E4M3,
                        .scale_layout = ScaleLayout::kBlock32x32,
                        .data = data.bytes.data(),
                        .scale = scale.bytes.data(),
                        .rows = data.shape[0],
                        .cols = data.shape[1]};
    auto activations = input.floats();
    fake_quantise_row(RowFormat::kFp8, activations);  // rows are two groups long: groups do not straddle them
    for (size_t i = 0; i < activations.size(); ++i) {
        ASSERT_EQ(activations[i], quantised[i]) << i;
    }
    const auto cols = static_cast<size_t>(weight.cols);
    for (size_t row = 0; row < static_cast<size_t>(input.shape[0]); ++row) {
        for (int64_t out = 0; out < weight.rows; ++out) {
            std::vector<float> w(cols);
            dequantise_weight_row(weight, out, 0, w);
            double sum = 0;
            for (size_t k = 0; k < cols; ++k) {
                sum += static_cast<double>(activations[row * cols + k]) * w[k];
            }
            EXPECT_NEAR(sum, expected[row * static_cast<size_t>(weight.rows) + static_cast<size_t>(out)], 1e-5);
        }
    }
}

TEST(Quant, HalvesRoundToEvenSaturateAndKeepNaN) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        const auto half = static_cast<uint16_t>(bits);
        const float value = f16_to_f32(half);
        const bool is_infinite = (bits & 0x7fffU) == 0x7c00U;
        const bool is_nan = (bits & 0x7fffU) > 0x7c00U;
        const uint16_t sign = half & 0x8000U;
        EXPECT_EQ(f32_to_f16(value), is_nan ? sign | 0x7e00 : is_infinite ? sign | 0x7bff : half) << bits;
        if (is_nan || (bits & 0x7fffU) >= 0x7bffU) {
            continue;
        }
        // Halfway to the next value goes to the even code, a little more goes up.
        const float next = f16_to_f32(static_cast<uint16_t>(bits + 1));
        const float middle = (value + next) / 2.0F;
        EXPECT_EQ(f32_to_f16(middle), bits % 2 == 0 ? half : half + 1) << bits;
        EXPECT_EQ(f32_to_f16(std::nextafter(middle, next)), half + 1) << bits;
    }
    EXPECT_EQ(f32_to_f16(1e30F), 0x7bff);
    EXPECT_EQ(f32_to_f16(-65519.0F), 0xfbff);
    EXPECT_EQ(f32_to_f16(1e-30F), 0);
}

}  // namespace
}  // namespace di
