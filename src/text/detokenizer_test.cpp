#include "text/detokenizer.h"

#include <random>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "deepseek_tokenizer.h"
#include "safetensors_fixture.h"
#include "text/unicode.h"

namespace di {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

constexpr std::string_view kReplacement = "\uFFFD";

const Tokenizer& deepseek_v41() {
    static const Tokenizer tokenizer = [] {
        auto parsed = Tokenizer::parse(deepseek_v41_tokenizer_json());
        if (!parsed) {
            throw std::runtime_error(parsed.error().text);
        }
        return std::move(*parsed);
    }();
    return tokenizer;
}

const Json& vectors() {
    static const Json root = Json::parse(read_fixture(DI_TEST_DATA "/tokenizer/deepseek_v41.json"));
    return root;
}

TEST(Detokenizer, GivesEveryPrefixWithoutItsIncompleteTail) {
    ASSERT_FALSE(vectors().at("incremental_decode").empty());
    for (const Json& entry : vectors().at("incremental_decode")) {
        Detokenizer detokenizer(deepseek_v41());
        std::string text;
        Ids so_far;
        for (const Json& id : entry.at("ids")) {
            so_far.push_back(id.get<int32_t>());
            text += detokenizer.push(so_far.back());
            const auto decoded = entry.at("prefix_decodes").at(so_far.size() - 1).get<std::string>();
            // The fixture marks a tail that may still become a character; the stream waits for it.
            EXPECT_EQ(deepseek_v41().decode(so_far), decoded);
            EXPECT_TRUE(text == decoded || text + std::string(kReplacement) == decoded) << decoded;
            EXPECT_TRUE(decoded.starts_with(text));
        }
        text += detokenizer.finish();
        EXPECT_EQ(text, entry.at("text").get<std::string>());
    }
}

TEST(Detokenizer, JoinedTextEqualsDecodeForEveryVector) {
    for (const bool skip_special : {false, true}) {
        for (const Json& entry : vectors().at("cases")) {
            const auto ids = entry.at("ids").get<Ids>();
            Detokenizer detokenizer(deepseek_v41(), skip_special);
            std::string text;
            for (const int32_t id : ids) {
                text += detokenizer.push(id);
                ASSERT_TRUE(is_valid_utf8(text));
            }
            text += detokenizer.finish();
            EXPECT_EQ(text, deepseek_v41().decode(ids, skip_special));
        }
    }
}

TEST(Detokenizer, JoinedTextEqualsDecodeForRandomIds) {
    const unsigned seed = 77;
    std::mt19937 random(seed);
    for (int round = 0; round < 300; ++round) {
        Ids ids;
        Detokenizer detokenizer(deepseek_v41());
        std::string text;
        for (int i = 0; i < 60; ++i) {
            // Mostly single bytes (ids 3 to 258): broken UTF-8 of every kind.
            const auto range = random() % 4 == 0 ? 131'000u : 259u;
            ids.push_back(static_cast<int32_t>(random() % range));
            text += detokenizer.push(ids.back());
        }
        text += detokenizer.finish();
        ASSERT_EQ(text, deepseek_v41().decode(ids)) << "seed " << seed << " round " << round;
    }
}

TEST(Detokenizer, HoldsAtMostThreeBytesAndReplacesBrokenOnesAtOnce) {
    const Tokenizer& tokenizer = deepseek_v41();
    const auto byte_id = [&](std::string_view piece) { return tokenizer.find(piece).value(); };
    const int32_t lead = byte_id("ð");  // F0
    const int32_t next = byte_id("Ł");  // 9F is the stand-in U+0141
    ASSERT_EQ(tokenizer.token_bytes(lead), "\xF0");
    ASSERT_EQ(tokenizer.token_bytes(next), "\x9F");
    Detokenizer detokenizer(tokenizer);
    EXPECT_EQ(detokenizer.push(lead), "");
    EXPECT_EQ(detokenizer.push(next), "");
    EXPECT_EQ(detokenizer.push(byte_id("a")), "\uFFFDa");
    EXPECT_EQ(detokenizer.push(next), "\uFFFD");
    EXPECT_EQ(detokenizer.push(lead), "");
    EXPECT_EQ(detokenizer.finish(), "\uFFFD");
    EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, IdsWithoutATokenGiveNothing) {
    Detokenizer detokenizer(deepseek_v41());
    EXPECT_EQ(detokenizer.push(-1), "");
    EXPECT_EQ(detokenizer.push(129'280), "");
    EXPECT_EQ(detokenizer.finish(), "");
}

}  // namespace
}  // namespace di
