#include "model/weight_plan.h"

#include <gtest/gtest.h>

#include "weights/inventory.h"

namespace di {
namespace {

TEST(WeightPlan, FlashKeepsNineGibibytesResident) {
    const auto config = load_model_config(DI_TEST_DATA "/flash");
    ASSERT_TRUE(config) << config.error().text;
    const WeightBytes bytes = weight_bytes(*config);
    EXPECT_EQ(bytes.resident + bytes.on_demand, int64_t{510286023000});
    EXPECT_NEAR(static_cast<double>(bytes.resident) / (1 << 30), 9.17, 0.01);
}

TEST(WeightPlan, EveryByteOfASmallModelIsCountedOnce) {
    const auto config = load_model_config(DI_TEST_DATA "/v41-tiny");
    ASSERT_TRUE(config) << config.error().text;
    const WeightBytes bytes = weight_bytes(*config);
    EXPECT_EQ(bytes.resident + bytes.on_demand, summarise_inventory(*config).total.bytes);
    EXPECT_GT(bytes.resident, 0);
    EXPECT_GT(bytes.on_demand, 0);
}

}  // namespace
}  // namespace di
