#include "engine/philox.h"

#include <cmath>

#include <gtest/gtest.h>

namespace di {
namespace {

using Words = std::array<uint32_t, 4>;

Words words(uint64_t seed, uint64_t index, uint32_t use, uint32_t group) {
    return philox({.seed = seed, .index = index, .use = static_cast<RandomUse>(use), .group = group});
}

TEST(Philox, GivesTheWordsOfTheSpecification) {
    EXPECT_EQ(words(0, 0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(words(7, 5, 0, 0), (Words{0x56af56bc, 0x5613c9b1, 0xe4c7f903, 0xb825d37c}));
    EXPECT_EQ(words(7, 5, 0, 1), (Words{0x74626b82, 0xdcb824d2, 0x0381bab4, 0x611fcaef}));
    EXPECT_EQ(words(7, 5, 1, 0), (Words{0x8c209be8, 0x413017d8, 0x3e9a511b, 0xacec00c3}));
    EXPECT_EQ(words(7, 5, 2, 0), (Words{0x74d44aec, 0xd45fff50, 0xc5b62227, 0x2b112d3a}));
    EXPECT_EQ(words(0x123456789abcdef0ULL, 1048575, 0, 0), (Words{0x49397d53, 0xb7a71df2, 0x73e89121, 0x78429ca6}));
}

TEST(Philox, HighHalvesOfSeedAndIndexCount) {
    EXPECT_NE(words(0, 0, 0, 0), words(uint64_t{1} << 32, 0, 0, 0));
    EXPECT_NE(words(0, 0, 0, 0), words(0, uint64_t{1} << 32, 0, 0));
}

TEST(GumbelNoise, IsFiniteAtBothEndsAndInsideItsBounds) {
    const float least = gumbel_noise(0);
    const float most = gumbel_noise(0xFFFFFFFFU);
    EXPECT_TRUE(std::isfinite(least));
    EXPECT_TRUE(std::isfinite(most));
    EXPECT_GT(least, kGumbelNoiseMin);
    EXPECT_LT(most, kGumbelNoiseMax);
    EXPECT_NEAR(least, -2.8524, 1e-3);
    EXPECT_NEAR(most, 17.3287, 1e-3);
    EXPECT_NEAR(gumbel_noise(0x80000000U), -std::log(std::log(2.0)), 1e-6);
}

TEST(GumbelNoise, LowBitsOfTheWordDoNotCount) { EXPECT_EQ(gumbel_noise(0x12345600U), gumbel_noise(0x123456FFU)); }

}  // namespace
}  // namespace di
