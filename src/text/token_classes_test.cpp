#include "text/token_classes.h"

#include <stdexcept>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "deepseek_tokenizer.h"
#include "safetensors_fixture.h"

namespace di {
namespace {

using Json = nlohmann::json;
using Map = std::vector<int32_t>;

TEST(TokenClasses, EqualTheMapOfTheDeepSeekTokenizer) {
    // The stored map was made from the file as published for V4.
    const auto tokenizer = Tokenizer::parse(deepseek_v4_tokenizer_json());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text;
    const auto map = token_classes(*tokenizer, 129'280);
    ASSERT_TRUE(map.has_value()) << map.error().text;
    const SafetensorsFixture fixture(DI_TEST_DATA "/units/engram_token_map.safetensors");
    EXPECT_EQ(*map, fixture.at("token_map").as<int32_t>());
    EXPECT_EQ(token_class_count(*map), 99'092);
    EXPECT_EQ(map->at(2), 2);
}

TEST(TokenClasses, EqualTheMapOfTheTinyModel) {
    const auto tokenizer = Tokenizer::open(DI_TEST_DATA "/v41-tiny");
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text;
    const Json prompts = Json::parse(read_fixture(DI_TEST_DATA "/v41-tiny/prompts.json"));
    EXPECT_EQ(token_classes(*tokenizer, 384).value(), prompts.at("engram_token_map").get<Map>());
}

TEST(TokenClasses, CountOfTheEmbeddedModelIsItsConfigs) {
    const auto tokenizer = Tokenizer::open(DI_MODELS "/v41-mini");
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text;
    const Json config = Json::parse(read_fixture(DI_MODELS "/v41-mini/config.json")).at("text_config");
    const auto map = token_classes(*tokenizer, config.at("vocab_size").get<int64_t>());
    ASSERT_TRUE(map.has_value()) << map.error().text;
    EXPECT_EQ(token_class_count(*map), config.at("engram_compressed_vocab_size").get<int64_t>());
}

Tokenizer tokenizer_of(const std::vector<std::string>& pieces) {
    Json vocabulary = Json::object();
    for (size_t i = 0; i < pieces.size(); ++i) {
        vocabulary[pieces[i]] = i;
    }
    const Json root = {
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}},
    };
    auto parsed = Tokenizer::parse(root.dump());
    if (!parsed) {
        throw std::runtime_error(parsed.error().text);
    }
    return std::move(*parsed);
}

TEST(TokenClasses, FoldCaseAccentsFormsAndBlanks) {
    // In stand-in characters: "Ġ" is a space, "Ċ" a newline, "Ã©" the bytes of é, "Ã" half a character.
    const Tokenizer tokenizer = tokenizer_of({"The", "Ġthe", "Ġ", "Ċ", "ĠĠ", "e", "Ã©", "Ã", "ÃĊ", "thĠe", "thĠĠe"});
    EXPECT_EQ(token_classes(tokenizer, 11).value(), (Map{0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 5}));
}

TEST(TokenClasses, IdsWithoutATokenShareOneClass) {
    const Tokenizer tokenizer = tokenizer_of({"a", "b"});
    EXPECT_EQ(token_classes(tokenizer, 5).value(), (Map{0, 1, 2, 2, 2}));
    EXPECT_EQ(token_classes(tokenizer, 1).value(), Map{0});
    EXPECT_EQ(token_classes(tokenizer, 0).value(), Map{});
    EXPECT_EQ(token_class_count({}), 0);
    EXPECT_FALSE(token_classes(tokenizer, -1).has_value());
    EXPECT_FALSE(token_classes(tokenizer, int64_t{1} << 40).has_value());
}

}  // namespace
}  // namespace di
