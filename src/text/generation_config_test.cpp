#include "text/generation_config.h"

#include <gtest/gtest.h>

namespace di {
namespace {

TEST(GenerationConfig, ReadsWhatTheShippedModelSays) {
    const auto config = load_generation_config(DI_MODELS "/v41-mini");
    ASSERT_TRUE(config.has_value()) << config.error().text;
    EXPECT_DOUBLE_EQ(config->temperature.value(), 0.7);
    EXPECT_DOUBLE_EQ(config->top_p.value(), 0.9);
    EXPECT_FALSE(config->top_k.has_value());
    EXPECT_EQ(config->eos_token_ids, (std::vector<int32_t>{1}));
}

TEST(GenerationConfig, IsEmptyWithoutAFile) {
    const auto config = load_generation_config(DI_TEST_DATA "/flash");
    ASSERT_TRUE(config.has_value()) << config.error().text;
    EXPECT_FALSE(config->temperature.has_value());
    EXPECT_TRUE(config->eos_token_ids.empty());
}

TEST(GenerationConfig, TakesSeveralEndTokensAndGreedy) {
    const auto config = parse_generation_config(R"({"eos_token_id": [1, 5], "do_sample": false, "top_k": 50, "unknown": {}})");
    ASSERT_TRUE(config.has_value()) << config.error().text;
    EXPECT_EQ(config->eos_token_ids, (std::vector<int32_t>{1, 5}));
    EXPECT_DOUBLE_EQ(config->temperature.value(), 0.0);
    EXPECT_EQ(config->top_k.value(), 50);
}

TEST(GenerationConfig, NamesTheKeyTheValueAndWhatWasExpected) {
    const auto error = [](std::string_view json) { return parse_generation_config(json).error().text; };
    EXPECT_EQ(error(R"({"temperature": -1})"), "temperature: -1, expected a number from 0");
    EXPECT_EQ(error(R"({"top_p": 0})"), "top_p: 0, expected a number in (0, 1]");
    EXPECT_EQ(error(R"({"top_k": "many"})"), "top_k: \"many\", expected an integer from -1");
    EXPECT_EQ(error(R"({"eos_token_id": [1, -2]})"), "eos_token_id: -2, expected a token id");
    EXPECT_EQ(error(R"({"do_sample": 1})"), "do_sample: 1, expected true or false");
    EXPECT_FALSE(parse_generation_config("[").has_value());
    EXPECT_FALSE(parse_generation_config("[]").has_value());
}

}  // namespace
}  // namespace di
