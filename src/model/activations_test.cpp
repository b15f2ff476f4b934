#include "model/activations.h"

#include <array>

#include <gtest/gtest.h>

#include "model/block_parts.h"

namespace di {
namespace {

TEST(ActivationLayout, PlacesBuffersBehindEachOther) {
    std::array<char, 512> memory{};
    ActivationLayout layout(DType::kF32, memory.data());
    const Tensor first = layout.activations({3, 7});  // 84 bytes
    const Tensor none = layout.activations({0, 7});
    const Tensor second = layout.take(DType::kI32, {5});
    EXPECT_EQ(first.data, memory.data());
    EXPECT_EQ(first.dtype, DType::kF32);
    EXPECT_TRUE(none.empty());
    EXPECT_EQ(second.data, memory.data() + 128);
    EXPECT_EQ(layout.bytes(), 192);
}

TEST(ActivationLayout, TakesAsManyBytesWithoutMemory) {
    ActivationLayout layout(DType::kF32, nullptr);
    EXPECT_EQ(layout.activations({3, 7}).data, nullptr);
    EXPECT_EQ(layout.bytes(), 128);
}

TEST(StepSizes, MustBeAtLeastOneEach) {
    ModelOptions good;
    good.rows_max = good.logit_rows_max = good.sequences_max = 1;
    EXPECT_TRUE(check_step_sizes(good));
    for (int32_t ModelOptions::*size : {&ModelOptions::rows_max, &ModelOptions::logit_rows_max, &ModelOptions::sequences_max}) {
        ModelOptions bad = good;
        bad.*size = 0;
        EXPECT_FALSE(check_step_sizes(bad));
    }
}

TEST(BlockParts, RowsHaveTheirScalesBehindTheirData) {
    CacheGeometry geometry;
    geometry.block_tokens = 128;
    geometry.block_bytes = 5;
    add_row_part(geometry, {.name = "layers.3.kv", .layer = 3, .ratio = 2, .dim = 64, .format = RowFormat::kFp8});
    const BlockPart& part = geometry.blocks.front();
    EXPECT_EQ(part.offset, 16);
    EXPECT_EQ(part.data_stride, 66);
    EXPECT_EQ(part.bytes, 64 * 66);
    EXPECT_EQ(geometry.block_bytes, 16 + 64 * 66);
    std::array<uint8_t, 8> blocks{};
    const CacheView view = block_view(geometry, part, blocks.data());
    EXPECT_EQ(view.rows_per_block, 64);
    EXPECT_EQ(view.data(0, 1) - blocks.data(), 16 + 66);
    EXPECT_EQ(view.scale(0, 1) - blocks.data(), 16 + 66 + 64);
}

}  // namespace
}  // namespace di
