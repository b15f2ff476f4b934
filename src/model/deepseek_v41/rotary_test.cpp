#include "model/deepseek_v41/rotary.h"

#include <gtest/gtest.h>

#include "safetensors_fixture.h"

namespace di::v41 {
namespace {

ModelConfig flash() {
    ModelConfig config;
    config.rope_dim = 64;
    config.rope_theta = 10000.0;
    config.compress_rope_theta = 160000.0;
    config.rope_scaling = {.factor = 16.0, .beta_fast = 32.0, .beta_slow = 1.0, .original_max_position_embeddings = 65536};
    return config;
}

void expect_relative(const std::vector<float>& got, const std::vector<float>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], want[i], 1e-6F * want[i]) << i;
    }
}

TEST(Rotary, GivesTheReleasedFrequencies) {
    const SafetensorsFixture fixture(DI_TEST_DATA "/units/rope.safetensors");
    expect_relative(base_frequencies(flash()), fixture.at("base.inv_freq").floats());
    expect_relative(yarn_frequencies(flash()), fixture.at("yarn.inv_freq").floats());
}

// tiny.md's small geometry: low 0, high 2, so that the ramp has all three regimes.
TEST(Rotary, RampOfASmallHead) {
    ModelConfig config = flash();
    config.rope_dim = 16;
    config.rope_scaling.original_max_position_embeddings = 64;
    const std::vector<float> values = yarn_frequencies(config);
    const auto plain = [](int i) { return static_cast<float>(std::pow(160000.0, -i / 8.0)); };
    EXPECT_NEAR(values[0], plain(0), 1e-6F);
    EXPECT_NEAR(values[1], plain(1) / 16.0F * 0.5F + plain(1) * 0.5F, 1e-6F);
    EXPECT_NEAR(values[2], plain(2) / 16.0F, 1e-6F);
    EXPECT_NEAR(values[7], plain(7) / 16.0F, 1e-9F);
}

}  // namespace
}  // namespace di::v41
