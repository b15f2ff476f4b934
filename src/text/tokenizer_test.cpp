#include "text/tokenizer.h"

#include <functional>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "deepseek_tokenizer.h"
#include "safetensors_fixture.h"

namespace di {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

Tokenizer parse_or_throw(const std::string& text) {
    auto tokenizer = Tokenizer::parse(text);
    if (!tokenizer) {
        throw std::runtime_error(tokenizer.error().text);
    }
    return std::move(*tokenizer);
}

const Tokenizer& deepseek_v41() {
    static const Tokenizer tokenizer = parse_or_throw(deepseek_v41_tokenizer_json());
    return tokenizer;
}

const Json& vectors() {
    static const Json root = Json::parse(read_fixture(DI_TEST_DATA "/tokenizer/deepseek_v41.json"));
    return root;
}

// --- the DeepSeek vectors ---------------------------------------------------

TEST(Tokenizer, EncodesEveryVectorWithAddedTokens) {
    ASSERT_EQ(vectors().at("cases").size(), 294u);
    for (const Json& entry : vectors().at("cases")) {
        const auto text = entry.at("text").get<std::string>();
        const auto ids = deepseek_v41().encode_special(text);
        ASSERT_TRUE(ids.has_value()) << ids.error().text;
        EXPECT_EQ(*ids, entry.at("ids").get<Ids>()) << text;
    }
}

TEST(Tokenizer, EncodesEveryVectorPlainly) {
    size_t different_count = 0;
    for (const Json& entry : vectors().at("cases")) {
        const auto text = entry.at("text").get<std::string>();
        different_count += entry.contains("ids_plain") ? 1 : 0;
        const auto expected = entry.contains("ids_plain") ? entry.at("ids_plain") : entry.at("ids");
        EXPECT_EQ(deepseek_v41().encode_plain(text).value(), expected.get<Ids>()) << text;
    }
    EXPECT_GT(different_count, 10u);
}

TEST(Tokenizer, DecodesEveryVectorBackToItsText) {
    for (const Json& entry : vectors().at("cases")) {
        const auto text = entry.at("text").get<std::string>();
        const auto ids = entry.at("ids").get<Ids>();
        EXPECT_EQ(deepseek_v41().decode(ids), text);
        EXPECT_EQ(deepseek_v41().decode(deepseek_v41().encode_plain(text).value()), text);
        const auto skipped = entry.contains("decode_skip_special") ? entry.at("decode_skip_special").get<std::string>() : text;
        EXPECT_EQ(deepseek_v41().decode(ids, true), skipped);
    }
}

TEST(Tokenizer, EncodesTheV4FileAsItIs) {
    const Tokenizer v4 = parse_or_throw(deepseek_v4_tokenizer_json());
    ASSERT_FALSE(vectors().at("v4_differences").empty());
    for (const Json& entry : vectors().at("v4_differences")) {
        EXPECT_EQ(v4.encode_special(entry.at("text").get<std::string>()).value(), entry.at("ids").get<Ids>())
            << entry.at("text");
    }
}

TEST(Tokenizer, KnowsTheNamedTokensOfDeepSeek) {
    const Tokenizer& tokenizer = deepseek_v41();
    EXPECT_EQ(tokenizer.vocabulary_size(), 129'280);
    EXPECT_EQ(tokenizer.find("<｜User｜>"), 128'803);
    EXPECT_EQ(tokenizer.find("<｜deepseek_image｜>"), 129'264);
    EXPECT_EQ(tokenizer.find("<｜image｜>"), std::nullopt);
    EXPECT_TRUE(tokenizer.is_special(0));
    EXPECT_FALSE(tokenizer.is_special(*tokenizer.find("</think>")));
    EXPECT_TRUE(tokenizer.is_added(*tokenizer.find("</think>")));
    EXPECT_FALSE(tokenizer.is_added(67));
    EXPECT_EQ(tokenizer.piece(223), "Ġ");
    EXPECT_EQ(tokenizer.token_bytes(223), " ");
    EXPECT_EQ(tokenizer.token_bytes(129'280), "");
    EXPECT_EQ(tokenizer.token_bytes(-1), "");
    EXPECT_EQ(tokenizer.decode(Ids{-5, 67, 1 << 30}), "a");
    EXPECT_EQ(tokenizer.bos_id(), std::nullopt);
}

TEST(Tokenizer, EncodesLongRunsAndDecodesThemBack) {
    for (const std::string unit : {"-", "a", " ", "é", "中", "😀", "\n", "0", "Ab9+/", "<", "<｜"}) {
        std::string text;
        while (text.size() < 100'000) {
            text += unit;
        }
        const auto ids = deepseek_v41().encode_special(text);
        ASSERT_TRUE(ids.has_value()) << ids.error().text;
        EXPECT_EQ(deepseek_v41().decode(*ids), text);
    }
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
    for (const char* text : {"ab\xFF", "\xED\xA0\x80", "\xE4\xB8"}) {
        const auto ids = deepseek_v41().encode_special(text);
        ASSERT_FALSE(ids.has_value());
        EXPECT_EQ(ids.error().code, ErrorCode::kInvalidArgument);
        EXPECT_NE(ids.error().text.find("UTF-8"), std::string::npos);
    }
    EXPECT_FALSE(deepseek_v41().encode_plain(std::string((size_t{32} << 20) + 1, 'a')).has_value());
}

// --- model directories ------------------------------------------------------

TEST(Tokenizer, OpensTheTinyModel) {
    const auto tokenizer = Tokenizer::open(DI_TEST_DATA "/v41-tiny");
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text;
    const Json prompts = Json::parse(read_fixture(DI_TEST_DATA "/v41-tiny/prompts.json"));
    const auto text = prompts.at("tokenizer").at("text").get<std::string>();
    const auto ids = prompts.at("tokenizer").at("ids").get<Ids>();
    EXPECT_EQ(tokenizer->encode_special(text).value(), ids);
    EXPECT_EQ(tokenizer->decode(ids), text);
    EXPECT_EQ(tokenizer->vocabulary_size(), 384);
    EXPECT_EQ(tokenizer->bos_id(), 0);
    EXPECT_EQ(tokenizer->eos_id(), 1);
    EXPECT_EQ(tokenizer->pad_id(), 2);
}

TEST(Tokenizer, OpensTheEmbeddedModel) {
    const auto tokenizer = Tokenizer::open(DI_MODELS "/v41-mini");
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text;
    EXPECT_EQ(tokenizer->find("<｜User｜>"), 4164);
    EXPECT_EQ(tokenizer->find("｜DSML｜"), 4184);
    EXPECT_EQ(tokenizer->find("<｜deepseek_image｜>"), 4208);
    EXPECT_EQ(tokenizer->bos_id(), 0);
    EXPECT_EQ(tokenizer->eos_id(), 1);
    EXPECT_EQ(tokenizer->pad_id(), 2);
    for (const Json& entry : vectors().at("cases")) {
        const auto text = entry.at("text").get<std::string>();
        EXPECT_EQ(tokenizer->decode(tokenizer->encode_plain(text).value()), text);
        EXPECT_EQ(tokenizer->decode(tokenizer->encode_special(text).value()), text);
    }
}

TEST(Tokenizer, NamesTheFileThatIsMissing) {
    const auto tokenizer = Tokenizer::open(DI_TEST_DATA "/no-such-model");
    ASSERT_FALSE(tokenizer.has_value());
    EXPECT_EQ(tokenizer.error().code, ErrorCode::kNotFound);
    EXPECT_NE(tokenizer.error().text.find("no-such-model/tokenizer.json"), std::string::npos);
}

// --- small files, right and wrong -------------------------------------------

// A tokenizer of the letters a, b, c and a merge or two; `change` makes it another.
std::string small_json(const std::function<void(Json&)>& change = [](Json&) {}) {
    Json root = {
        {"added_tokens", Json::array({{{"id", 6}, {"content", "<s>"}, {"special", true}, {"normalized", false}}})},
        {"normalizer", nullptr},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
        {"post_processor", nullptr},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model",
         {{"type", "BPE"},
          {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"abc", 4}}},
          {"merges", Json::array({"a b", "ab c"})}}},
    };
    change(root);
    return root.dump();
}

TEST(Tokenizer, LoadsVocabulariesWithHolesAndWithoutNamedTokens) {
    const auto tokenizer =
        Tokenizer::parse(small_json(), R"({"bos_token": null, "eos_token": {"content": "<s>"}, "pad_token": "<no>"})");
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text;
    EXPECT_EQ(tokenizer->vocabulary_size(), 7);
    EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
    EXPECT_EQ(tokenizer->eos_id(), 6);
    EXPECT_EQ(tokenizer->pad_id(), std::nullopt);
    EXPECT_EQ(tokenizer->encode_special("abc<s>ab").value(), (Ids{4, 6, 3}));
    EXPECT_EQ(tokenizer->decode(Ids{4, 5, 6}), "abc<s>");
    EXPECT_EQ(tokenizer->decode(Ids{4, 5, 6}, true), "abc");
    // No newline token: an error for the text that needs it, not for the file.
    EXPECT_EQ(tokenizer->encode_plain("a\n").error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(tokenizer->find("Ċ"), std::nullopt);
}

TEST(Tokenizer, AcceptsMergesAsPairs) {
    const auto tokenizer =
        Tokenizer::parse(small_json([](Json& root) { root["model"]["merges"] = Json::parse(R"([["a","b"],["ab","c"]])"); }));
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text;
    EXPECT_EQ(tokenizer->encode_plain("abc").value(), Ids{4});
}

TEST(Tokenizer, AddedSpellingsAreTextEvenOfStandInCharacters) {
    const Tokenizer tokenizer = parse_or_throw(small_json([](Json& root) { root["added_tokens"][0]["content"] = "é"; }));
    EXPECT_EQ(tokenizer.decode(Ids{6}), "é");
    EXPECT_EQ(tokenizer.encode_special("é").value(), Ids{6});
}

struct BadFile {
    const char* promise;
    std::function<void(Json&)> change;
    const char* named;  // must be in the message
};

class BadTokenizer : public testing::TestWithParam<BadFile> {};

TEST_P(BadTokenizer, IsRefusedWithItsReason) {
    const auto tokenizer = Tokenizer::parse(small_json(GetParam().change));
    ASSERT_FALSE(tokenizer.has_value());
    EXPECT_TRUE(tokenizer.error().text.starts_with("tokenizer.json: ")) << tokenizer.error().text;
    EXPECT_NE(tokenizer.error().text.find(GetParam().named), std::string::npos) << tokenizer.error().text;
}

INSTANTIATE_TEST_SUITE_P(
    Tokenizer, BadTokenizer,
    testing::Values(
        BadFile{"MissingMerges", [](Json& r) { r["model"].erase("merges"); }, "merges is missing"},
        BadFile{"MergesOfAnotherType", [](Json& r) { r["model"]["merges"] = "a b"; }, "merges is \"a b\""},
        BadFile{"MergeOfNumbers",
                [](Json& r) {
                    r["model"]["merges"] = {{1, 2}};
                },
                "merge [1,2]"},
        BadFile{"MergeWithoutBlank", [](Json& r) { r["model"]["merges"] = {"ab"}; }, "merge \"ab\""},
        BadFile{"MergeWithTwoBlanks", [](Json& r) { r["model"]["merges"] = {"a b c"}; }, "merge \"a b c\""},
        BadFile{"MergeOfUnknownToken", [](Json& r) { r["model"]["merges"] = {"a x"}; }, "\"x\", which is not in vocab"},
        BadFile{"MergeIntoUnknownToken", [](Json& r) { r["model"]["merges"] = {"b a"}; }, "\"ba\", which is not in vocab"},
        BadFile{"DuplicateId", [](Json& r) { r["model"]["vocab"]["abc"] = 0; }, "id 0 belongs to two tokens"},
        BadFile{"DuplicateAddedId",
                [](Json& r) {
                    r["added_tokens"].push_back({{"id", 6}, {"content", "<t>"}});
                },
                "id 6 belongs to two"},
        BadFile{"AddedIdOfAVocabularyToken", [](Json& r) { r["added_tokens"][0]["id"] = 1; }, "id 1 belongs to two"},
        BadFile{"AddedTokenTwice", [](Json& r) { r["added_tokens"].push_back(r["added_tokens"][0]); }, "id 6 belongs to two"},
        BadFile{"AddedTokenWithTwoIds",
                [](Json& r) {
                    r["added_tokens"].push_back({{"id", 7}, {"content", "<s>"}});
                },
                "has two ids"},
        BadFile{"NegativeId", [](Json& r) { r["model"]["vocab"]["abc"] = -1; }, "is -1"},
        BadFile{"FractionalId", [](Json& r) { r["model"]["vocab"]["abc"] = 1.5; }, "is 1.5"},
        BadFile{"TextId", [](Json& r) { r["model"]["vocab"]["abc"] = "4"; }, "is \"4\""},
        BadFile{"HugeId", [](Json& r) { r["model"]["vocab"]["abc"] = 4'294'967'296; }, "4294967296"},
        BadFile{"IdFarBeyondTheCount", [](Json& r) { r["model"]["vocab"]["abc"] = 4'000'000; }, "4000000 is out of range"},
        BadFile{"VocabularyOfAnotherType", [](Json& r) { r["model"]["vocab"] = Json::array(); }, "vocab is []"},
        BadFile{"MissingVocabulary", [](Json& r) { r["model"].erase("vocab"); }, "vocab is missing"},
        BadFile{"EmptySpelling", [](Json& r) { r["model"]["vocab"][""] = 5; }, "empty spelling"},
        BadFile{"LongSpelling", [](Json& r) { r["model"]["vocab"][std::string(20'000, 'x')] = 5; }, "20000 bytes"},
        BadFile{"EmptyVocabulary",
                [](Json& r) {
                    r["model"]["vocab"] = Json::object();
                    r["model"]["merges"] = Json::array();
                    r["added_tokens"] = nullptr;
                },
                "vocabulary is empty"},
        BadFile{"MissingModel", [](Json& r) { r.erase("model"); }, "model is missing"},
        BadFile{"OtherModel", [](Json& r) { r["model"]["type"] = "Unigram"; }, "\"Unigram\""},
        BadFile{"ByteFallback", [](Json& r) { r["model"]["byte_fallback"] = true; }, "byte_fallback"},
        BadFile{"IgnoreMerges", [](Json& r) { r["model"]["ignore_merges"] = true; }, "ignore_merges"},
        BadFile{"FlagOfAnotherType", [](Json& r) { r["model"]["byte_fallback"] = 1; }, "byte_fallback is 1"},
        BadFile{"Dropout", [](Json& r) { r["model"]["dropout"] = 0.1; }, "dropout"},
        BadFile{"SubwordPrefix", [](Json& r) { r["model"]["continuing_subword_prefix"] = "##"; }, "##"},
        BadFile{"UnknownToken", [](Json& r) { r["model"]["unk_token"] = "a"; }, "unk_token"},
        BadFile{"Normalizer",
                [](Json& r) {
                    r["normalizer"] = {{"type", "NFC"}};
                },
                "normalizer is {\"type\":\"NFC\"}"},
        BadFile{"NormalizerOfAnotherType", [](Json& r) { r["normalizer"] = "NFC"; }, "normalizer"},
        BadFile{"MissingPreTokenizer", [](Json& r) { r.erase("pre_tokenizer"); }, "pre_tokenizer: is missing"},
        BadFile{"PrefixSpace", [](Json& r) { r["pre_tokenizer"]["add_prefix_space"] = true; }, "add_prefix_space"},
        BadFile{"DefaultRegex", [](Json& r) { r["pre_tokenizer"].erase("use_regex"); }, "use_regex"},
        BadFile{"OtherPreTokenizer",
                [](Json& r) {
                    r["pre_tokenizer"] = {{"type", "Whitespace"}};
                },
                "Whitespace"},
        BadFile{"EmptySequence",
                [](Json& r) {
                    r["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json::array()}};
                },
                "ByteLevel"},
        BadFile{"SequenceOfNothing",
                [](Json& r) {
                    r["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", 3}};
                },
                "is 3"},
        BadFile{"PostProcessor",
                [](Json& r) {
                    r["post_processor"] = {{"type", "TemplateProcessing"}};
                },
                "TemplateProcessing"},
        BadFile{"Decoder",
                [](Json& r) {
                    r["decoder"] = {{"type", "Metaspace"}};
                },
                "Metaspace"},
        BadFile{"Truncation",
                [](Json& r) {
                    r["truncation"] = {{"max_length", 5}};
                },
                "truncation"},
        BadFile{"AddedTokensOfAnotherType", [](Json& r) { r["added_tokens"] = 1; }, "added_tokens is 1"},
        BadFile{"AddedTokenOfAnotherType", [](Json& r) { r["added_tokens"][0] = "x"; }, "\"x\""},
        BadFile{"AddedTokenWithoutId", [](Json& r) { r["added_tokens"][0].erase("id"); }, "has no id"},
        BadFile{"AddedTokenWithoutSpelling", [](Json& r) { r["added_tokens"][0].erase("content"); }, "content is missing"},
        BadFile{"StrippingToken", [](Json& r) { r["added_tokens"][0]["lstrip"] = true; }, "lstrip"}),
    [](const testing::TestParamInfo<BadFile>& bad) { return bad.param.promise; });

Json with_split(Json split) {
    return {{"type", "Sequence"},
            {"pretokenizers",
             Json::array({std::move(split), {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}})}};
}

TEST(Tokenizer, RefusesSplitsThatItCannotDo) {
    const std::pair<Json, const char*> cases[] = {
        {{{"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Isolated"}, {"invert", false}}, "does not compile"},
        {{{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Removed"}, {"invert", false}}, "Removed"},
        {{{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Isolated"}, {"invert", true}}, "invert"},
        {{{"type", "Split"}, {"pattern", "a"}, {"behavior", "Isolated"}}, "pattern of a Split"},
        {{{"type", "Split"}, {"pattern", {{"Regex", 5}}}, {"behavior", "Isolated"}}, "Regex is 5"},
        {{{"type", "Split"}, {"pattern", {{"Glob", "a"}}}, {"behavior", "Isolated"}}, "String is missing"},
        {{{"type", "Split"}, {"behavior", "Isolated"}}, "missing"},
        {{{"type", "Split"}, {"pattern", {{"Regex", "a"}}}}, "behavior"},
        {5, "part 5"},
    };
    for (const auto& [split, named] : cases) {
        const auto tokenizer = Tokenizer::parse(small_json([&](Json& root) { root["pre_tokenizer"] = with_split(split); }));
        ASSERT_FALSE(tokenizer.has_value()) << split;
        EXPECT_NE(tokenizer.error().text.find(named), std::string::npos) << tokenizer.error().text;
    }
}

TEST(Tokenizer, SplitsByLiteralStringsToo) {
    const Tokenizer tokenizer = parse_or_throw(small_json([](Json& root) {
        root["pre_tokenizer"] =
            with_split({{"type", "Split"}, {"pattern", {{"String", "b"}}}, {"behavior", "Isolated"}, {"invert", false}});
    }));
    EXPECT_EQ(tokenizer.encode_plain("abc").value(), (Ids{0, 1, 2}));
}

TEST(Tokenizer, RefusesWhatIsNotJson) {
    const std::string deep_array(100'000, '[');
    const std::string deep_object = [] {
        std::string text;
        for (int i = 0; i < 10'000; ++i) {
            text += "{\"a\":";
        }
        return text;
    }();
    const std::string texts[] = {
        "", "{", "[]", "null", "5", "{\"model\": \"\\ud800\"}", "\xFF", small_json() + "x", deep_array, deep_object};
    for (const std::string& text : texts) {
        const auto tokenizer = Tokenizer::parse(text);
        ASSERT_FALSE(tokenizer.has_value()) << text.substr(0, 80);
        EXPECT_EQ(tokenizer.error().code, ErrorCode::kInvalidFile) << tokenizer.error().text;
    }
}

TEST(Tokenizer, SurvivesACutAtEveryByte) {
    const std::string whole = small_json();
    for (size_t size = 0; size < whole.size(); ++size) {
        EXPECT_FALSE(Tokenizer::parse(std::string_view(whole).substr(0, size)).has_value()) << size;
    }
    EXPECT_TRUE(Tokenizer::parse(whole).has_value());
}

TEST(Tokenizer, RefusesABadConfigAndNamesItsFile) {
    for (const char* config : {"{", "[]", R"({"bos_token": 5})", R"({"eos_token": {"content": 1}})", R"({"pad_token": {}})"}) {
        const auto tokenizer = Tokenizer::parse(small_json(), config);
        ASSERT_FALSE(tokenizer.has_value()) << config;
        EXPECT_TRUE(tokenizer.error().text.starts_with("tokenizer_config.json: ")) << tokenizer.error().text;
    }
}

}  // namespace
}  // namespace di
