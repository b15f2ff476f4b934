#include "text/image_plan.h"

#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "safetensors_fixture.h"

namespace di {
namespace {

ImageGeometry flash() {
    return {.patch_size = 14, .downsample_ratio = 3, .max_image_tokens = 1024, .min_pixels = 295'936, .max_wh_ratio = {}};
}

struct Row {
    int64_t width, height, canvas_width, canvas_height, grid_width, grid_height, columns, rows, tokens;
};

void expect_plan(const Row& row) {
    const auto plan = plan_image(row.width, row.height, flash());
    ASSERT_TRUE(plan.has_value()) << plan.error().text;
    const std::string size = std::to_string(row.width) + "x" + std::to_string(row.height);
    EXPECT_EQ(plan->canvas_width, row.canvas_width) << size;
    EXPECT_EQ(plan->canvas_height, row.canvas_height) << size;
    EXPECT_EQ(plan->grid_width, row.grid_width) << size;
    EXPECT_EQ(plan->grid_height, row.grid_height) << size;
    EXPECT_EQ(plan->token_columns, row.columns) << size;
    EXPECT_EQ(plan->token_rows, row.rows) << size;
    EXPECT_EQ(plan->token_count, row.tokens) << size;
}

TEST(ImagePlan, EqualsTheStoredRows) {
    const auto root = nlohmann::json::parse(read_fixture(DI_TEST_DATA "/units/image_plan.json"));
    ASSERT_EQ(root.at("rows").size(), 21u);
    for (const auto& row : root.at("rows")) {
        const auto number = [&](const char* key, int index) {
            return row.at(key).at(static_cast<size_t>(index)).get<int64_t>();
        };
        expect_plan({row.at("width"), row.at("height"), number("resized", 0), number("resized", 1), number("vit", 0),
                     number("vit", 1), number("llm", 0), number("llm", 1), row.at("tokens")});
    }
}

TEST(ImagePlan, HandlesStripsAndPoints) {
    expect_plan({640, 480, 644, 490, 46, 35, 16, 12, 206});
    expect_plan({100, 100, 546, 546, 39, 39, 13, 13, 184});
    expect_plan({333, 777, 364, 840, 26, 60, 9, 20, 202});
    expect_plan({1280, 720, 1288, 728, 92, 52, 31, 18, 578});
    expect_plan({3000, 4000, 1134, 1512, 81, 108, 27, 36, 1010});
    expect_plan({30'000, 100, 12'600, 42, 900, 3, 300, 1, 303});
    expect_plan({1, 100'000, 42, 21'462, 3, 1533, 1, 511, 1024});
    expect_plan({100'000, 1, 42'882, 42, 3063, 3, 1021, 1, 1024});
}

TEST(ImagePlan, EverySizeFitsTheLimitAndItsCanvas) {
    const unsigned seed = 4;
    std::mt19937 random(seed);
    for (int i = 0; i < 20'000; ++i) {
        ImageGeometry geometry{.patch_size = static_cast<int>(1 + random() % 20),
                               .downsample_ratio = static_cast<int>(1 + random() % 4),
                               .max_image_tokens = static_cast<int>(4 + random() % 1500),
                               .min_pixels = static_cast<int64_t>(random() % 500'000),
                               .max_wh_ratio = {}};
        if (random() % 3 == 0) {
            geometry.max_wh_ratio = 0.01 + static_cast<double>(random() % 1000) / 50.0;
        }
        const auto width = static_cast<int64_t>(1 + random() % (i % 2 == 0 ? 3000 : 30));
        const auto height = static_cast<int64_t>(1 + random() % (i % 5 == 0 ? 20'000 : 300));
        const auto plan = plan_image(width, height, geometry);
        ASSERT_TRUE(plan.has_value()) << plan.error().text << " seed " << seed << " round " << i;
        ASSERT_LE(plan->token_count, geometry.max_image_tokens) << width << "x" << height << " seed " << seed << " round " << i;
        ASSERT_EQ(plan->token_count, plan->token_rows * (plan->token_columns + 1) + 2);
        ASSERT_GE(plan->token_columns * plan->token_rows, 1);
        ASSERT_EQ(plan->canvas_width, plan->grid_width * geometry.patch_size);
        ASSERT_GE(plan->resized_width, 1);
        ASSERT_GE(plan->resized_height, 1);
        ASSERT_LE(plan->left + plan->resized_width, plan->canvas_width);
        ASSERT_LE(plan->top + plan->resized_height, plan->canvas_height);
    }
}

TEST(ImagePlan, ClampsWideImagesToTheRatioAndStretchesThem) {
    ImageGeometry geometry = flash();
    geometry.max_wh_ratio = 2.0;
    const ImagePlan plan = plan_image(4000, 1000, geometry).value();
    const ImagePlan clamped = plan_image(2000, 1000, flash()).value();
    EXPECT_EQ(plan.canvas_width, clamped.canvas_width);
    EXPECT_EQ(plan.canvas_height, clamped.canvas_height);
    EXPECT_EQ(plan.resized_width, plan.canvas_width);
    EXPECT_EQ(plan.resized_height, plan.canvas_height);
}

TEST(ImagePlan, RefusesSizesAndGeometriesOutOfRange) {
    EXPECT_FALSE(plan_image(0, 5, flash()).has_value());
    EXPECT_FALSE(plan_image(5, -1, flash()).has_value());
    EXPECT_FALSE(plan_image(std::numeric_limits<int64_t>::max(), 5, flash()).has_value());
    const auto refused = [](auto change, const char* named) {
        ImageGeometry geometry = flash();
        change(geometry);
        const auto plan = plan_image(100, 100, geometry);
        ASSERT_FALSE(plan.has_value()) << named;
        EXPECT_NE(plan.error().text.find(named), std::string::npos) << plan.error().text;
    };
    refused([](ImageGeometry& g) { g.patch_size = 0; }, "patch_size is 0");
    refused([](ImageGeometry& g) { g.downsample_ratio = -3; }, "downsample_ratio is -3");
    refused([](ImageGeometry& g) { g.max_image_tokens = 3; }, "max_image_tokens is 3");
    refused([](ImageGeometry& g) { g.min_pixels = -1; }, "min_pixels is -1");
    refused([](ImageGeometry& g) { g.max_wh_ratio = 0.0; }, "max_wh_ratio is 0");
    refused([](ImageGeometry& g) { g.max_wh_ratio = std::numeric_limits<double>::quiet_NaN(); }, "max_wh_ratio is nan");
}

}  // namespace
}  // namespace di
