#include "text/gguf_tokenizer.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "safetensors_fixture.h"
#include "text/byte_level.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"

namespace di {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

// Owns what a GgufVocabulary looks at.
struct Vocabulary {
    std::string model = "gpt2";
    std::string pretokenizer = "gpt-2";
    std::vector<std::string> tokens;
    std::vector<int32_t> types;
    std::vector<float> scores;
    std::vector<std::string> merges;
    GgufVocabulary extra;  // ids and flags

    [[nodiscard]] Result<TokenizerFile> parse() const {
        const std::vector<std::string_view> token_views(tokens.begin(), tokens.end());
        const std::vector<std::string_view> merge_views(merges.begin(), merges.end());
        GgufVocabulary vocabulary = extra;
        vocabulary.model = model;
        vocabulary.pretokenizer = pretokenizer;
        vocabulary.tokens = token_views;
        vocabulary.types = types;
        vocabulary.scores = scores;
        vocabulary.merges = merge_views;
        return tokenizer_of_gguf(vocabulary);
    }
    [[nodiscard]] Tokenizer build() const {
        auto file = parse();
        if (!file) {
            throw std::runtime_error(file.error().text);
        }
        auto tokenizer = Tokenizer::create(*file);
        if (!tokenizer) {
            throw std::runtime_error(tokenizer.error().text);
        }
        return std::move(*tokenizer);
    }
    [[nodiscard]] std::string error() const {
        const auto file = parse();
        if (!file) {
            return file.error().text;
        }
        const auto tokenizer = Tokenizer::create(*file);
        return tokenizer ? "no error" : tokenizer.error().text;
    }
};

// Every byte as a token, ids 0 to 255, then `more`.
Vocabulary bytes_and(const std::vector<std::string>& more) {
    Vocabulary vocabulary;
    for (int byte = 0; byte < 256; ++byte) {
        vocabulary.tokens.emplace_back(stand_in(static_cast<uint8_t>(byte)));
    }
    vocabulary.tokens.insert(vocabulary.tokens.end(), more.begin(), more.end());
    vocabulary.types.assign(vocabulary.tokens.size(), 1);
    return vocabulary;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// --- pre-tokenizers -----------------------------------------------------------------

TEST(GgufPretokenizers, CutAsTheModelsOwnTokenizersDo) {
    const Json golden = Json::parse(read_fixture(DI_TEST_DATA "/gguf/pretokenizers.json"));
    const auto texts = golden.at("texts").get<std::vector<std::string>>();
    ASSERT_GT(texts.size(), 250U);
    ASSERT_EQ(golden.at("kinds").size(), 6U);
    for (const auto& [name, cases] : golden.at("kinds").items()) {
        Vocabulary vocabulary = bytes_and({});
        vocabulary.pretokenizer = name;
        const auto file = vocabulary.parse();
        ASSERT_TRUE(file) << file.error().text;
        const auto pretokenizer = Pretokenizer::create(file->split_patterns);
        ASSERT_TRUE(pretokenizer) << pretokenizer.error().text;
        for (size_t i = 0; i < texts.size(); ++i) {
            const auto pieces = pretokenizer->split(texts[i]);
            ASSERT_TRUE(pieces) << pieces.error().text;
            std::vector<size_t> lengths;
            for (const std::string_view piece : *pieces) {
                lengths.push_back(piece.size());
            }
            EXPECT_EQ(lengths, cases.at(i).get<std::vector<size_t>>()) << name << ": " << texts[i];
        }
    }
}

TEST(GgufPretokenizers, AreRefusedByAnUnknownName) {
    Vocabulary vocabulary = bytes_and({});
    for (const std::string name : {"", "default", "tekken", "GPT-2", "smollm "}) {
        vocabulary.pretokenizer = name;
        EXPECT_TRUE(vocabulary.error().starts_with("tokenizer.ggml.pre is \"" + name + "\", expected one of gpt-2, "))
            << vocabulary.error();
        EXPECT_EQ(vocabulary.parse().error().code, ErrorCode::kUnsupported);
    }
}

// --- byte-level BPE -----------------------------------------------------------------

TEST(GgufTokenizer, ReadsControlTokensOnlyWhereTheyAreRecognized) {
    Vocabulary vocabulary = bytes_and({"<end>", "<tag>", "ab"});
    vocabulary.types[256] = 3;
    vocabulary.types[257] = 4;
    vocabulary.merges = {"a b"};
    vocabulary.extra.eos_id = 256;
    const Tokenizer tokenizer = vocabulary.build();
    EXPECT_EQ(tokenizer.encode_special("ab<end><tag>").value(), (Ids{258, 256, 257}));
    // A user-defined token is found anyway, a control token never in plain text.
    EXPECT_EQ(tokenizer.encode_plain("ab<end><tag>").value(), (Ids{258, '<', 'e', 'n', 'd', '>', 257}));
    EXPECT_EQ(tokenizer.decode(Ids{258, 256, 257}), "ab<end><tag>");
    EXPECT_EQ(tokenizer.decode(Ids{258, 256, 257}, true), "ab<tag>");
    EXPECT_EQ(tokenizer.eos_id(), 256);
    EXPECT_EQ(tokenizer.bos_id(), std::nullopt);
    EXPECT_EQ(tokenizer.pad_id(), std::nullopt);
}

TEST(GgufTokenizer, TakesWholePiecesForLlama3Only) {
    Vocabulary vocabulary = bytes_and({"abc", "bc", "<|x|>", "word"});
    vocabulary.types[258] = 3;
    vocabulary.types[259] = 4;
    vocabulary.merges = {"b c"};  // "abc" cannot be merged
    EXPECT_EQ(vocabulary.build().encode_plain("abc").value(), (Ids{'a', 257}));
    vocabulary.pretokenizer = "llama-bpe";
    const Tokenizer tokenizer = vocabulary.build();
    EXPECT_EQ(tokenizer.encode_plain("abc").value(), (Ids{256}));
    EXPECT_EQ(tokenizer.encode_plain("abcd").value(), (Ids{'a', 257, 'd'}));
    EXPECT_EQ(tokenizer.encode_plain("<|x|>").value(), (Ids{'<', '|', 'x', '|', '>'}));
}

// F08: what others index with -1.
TEST(GgufTokenizer, LoadsWithoutNewlineBeginAndEnd) {
    Vocabulary vocabulary;
    vocabulary.tokens = {"a", "b"};
    const Tokenizer tokenizer = vocabulary.build();
    EXPECT_EQ(tokenizer.encode_plain("ab").value(), (Ids{0, 1}));
    EXPECT_FALSE(tokenizer.bos_id() || tokenizer.eos_id() || tokenizer.pad_id());
    const auto missing = tokenizer.encode_plain("a\n");
    ASSERT_FALSE(missing);
    EXPECT_TRUE(contains(missing.error().text, "0x0a")) << missing.error().text;
}

TEST(GgufTokenizer, LeavesIdsWithoutASpellingEmpty) {
    Vocabulary vocabulary = bytes_and({"", "ab"});
    vocabulary.merges = {"a b"};
    const Tokenizer tokenizer = vocabulary.build();
    EXPECT_EQ(tokenizer.encode_plain("ab").value(), (Ids{257}));
    EXPECT_EQ(tokenizer.decode(Ids{256, 257}), "ab");
    EXPECT_EQ(tokenizer.vocabulary_size(), 258);
}

// F04: wrong counts, types and names.
TEST(GgufTokenizer, RefusesWhatDoesNotFitTogether) {
    Vocabulary vocabulary = bytes_and({"ab"});
    vocabulary.merges = {"a b"};
    ASSERT_EQ(vocabulary.error(), "no error");
    const auto with = [&](const auto& change) {
        Vocabulary changed = vocabulary;
        change(changed);
        return changed.error();
    };
    EXPECT_EQ(with([](Vocabulary& v) { v.tokens.clear(); }), "tokenizer.ggml.tokens has 0 entries, expected 1 to 4194304");
    EXPECT_EQ(with([](Vocabulary& v) { v.types.pop_back(); }),
              "tokenizer.ggml.token_type has 256 entries, expected one for each of the 257 tokens");
    EXPECT_EQ(with([](Vocabulary& v) { v.scores = {1.0F}; }),
              "tokenizer.ggml.scores has 1 entries, expected one for each of the 257 tokens");
    EXPECT_EQ(with([](Vocabulary& v) { v.types[3] = 7; }), "tokenizer.ggml.token_type of token 3 is 7, expected 1 to 6");
    EXPECT_EQ(with([](Vocabulary& v) { v.types[3] = -1; }), "tokenizer.ggml.token_type of token 3 is -1, expected 1 to 6");
    EXPECT_EQ(with([](Vocabulary& v) { v.tokens[256] = "\xff"; }), "token 256 is not valid UTF-8");
    EXPECT_TRUE(contains(with([](Vocabulary& v) { v.merges = {"a c"}; }), "needs the token \"ac\", which is not in vocab"));
    EXPECT_TRUE(contains(with([](Vocabulary& v) { v.merges = {"zz b"}; }), "needs the token \"zz\""));
    for (const std::string merge : {"", "ab", "a ", " ", "  "}) {
        EXPECT_TRUE(contains(with([&](Vocabulary& v) { v.merges = {merge}; }), "expected \"a b\"")) << merge;
    }
    EXPECT_EQ(with([](Vocabulary& v) { v.model = "t5"; }).substr(0, 30), "tokenizer.ggml.model is \"t5\", ");
    EXPECT_EQ(with([](Vocabulary& v) { v.extra.bos_id = 257; }),
              "tokenizer.ggml.bos_token_id is 257, expected an id of the 257 tokens");
    EXPECT_TRUE(contains(with([](Vocabulary& v) { v.extra.eos_id = -1; }), "eos_token_id is -1"));
    EXPECT_TRUE(contains(with([](Vocabulary& v) { v.extra.pad_id = 1LL << 40; }), "padding_token_id is 1099511627776"));
    EXPECT_TRUE(contains(with([](Vocabulary& v) { v.extra.adds_space_prefix = true; }), "add_space_prefix is true"));
}

// --- sentence pieces ----------------------------------------------------------------

Vocabulary vocabulary_of(const Json& model, bool adds_space_prefix) {
    Vocabulary vocabulary;
    vocabulary.model = "llama";
    vocabulary.tokens = model.at("tokens").get<std::vector<std::string>>();
    vocabulary.types = model.at("types").get<Ids>();
    vocabulary.scores = model.at("scores").get<std::vector<float>>();
    vocabulary.extra.unknown_id = 0;
    vocabulary.extra.adds_space_prefix = adds_space_prefix;
    return vocabulary;
}

TEST(GgufSentencePieces, EncodeAsSentencePieceDoes) {
    const Json golden = Json::parse(read_fixture(DI_TEST_DATA "/gguf/sentence_pieces.json"));
    const auto texts = golden.at("texts").get<std::vector<std::string>>();
    ASSERT_GT(texts.size(), 250U);
    for (const auto& [name, model] : golden.at("models").items()) {
        const Tokenizer tokenizer = vocabulary_of(model, name != "no_prefix").build();
        for (size_t i = 0; i < texts.size(); ++i) {
            const Ids ids = model.at("ids").at(i).get<Ids>();
            EXPECT_EQ(tokenizer.encode_plain(texts[i]).value(), ids) << name << ": " << texts[i];
            if (name != "no_bytes") {
                EXPECT_EQ(tokenizer.decode(ids), texts[i]) << name;
            }
        }
    }
}

// Pieces of single characters and bytes, and `more` with descending scores.
Vocabulary pieces(const std::vector<std::string>& more) {
    Vocabulary vocabulary;
    vocabulary.model = "llama";
    vocabulary.tokens = {"<unk>", "<s>", "\u2581", "a", "b", "c", "<0x0A>"};
    vocabulary.types = {2, 3, 1, 1, 1, 1, 6};
    vocabulary.scores.assign(vocabulary.tokens.size(), -100.0F);
    for (size_t i = 0; i < more.size(); ++i) {
        vocabulary.tokens.push_back(more[i]);
        vocabulary.types.push_back(1);
        vocabulary.scores.push_back(-static_cast<float>(i));
    }
    vocabulary.extra.unknown_id = 0;
    vocabulary.extra.adds_space_prefix = false;
    return vocabulary;
}

TEST(GgufSentencePieces, JoinTheBestScoreAndTheLeftmostOfEqualOnes) {
    Vocabulary vocabulary = pieces({"bc", "ab", "aa"});
    EXPECT_EQ(vocabulary.build().encode_plain("abc").value(), (Ids{3, 7}));
    EXPECT_EQ(vocabulary.build().encode_plain("aaa").value(), (Ids{9, 3}));
    vocabulary.scores[7] = vocabulary.scores[8];
    EXPECT_EQ(vocabulary.build().encode_plain("abc").value(), (Ids{8, 5}));
}

TEST(GgufSentencePieces, PutABlankInFrontAndBehindSpecialTokens) {
    Vocabulary vocabulary = pieces({"\u2581a"});
    vocabulary.extra.adds_space_prefix = true;
    const Tokenizer tokenizer = vocabulary.build();
    EXPECT_EQ(tokenizer.encode_plain("a a").value(), (Ids{7, 7}));
    EXPECT_EQ(tokenizer.encode_special("a<s>ab").value(), (Ids{7, 1, 7, 4}));
    EXPECT_EQ(tokenizer.encode_plain("").value(), Ids{});
    EXPECT_EQ(tokenizer.decode(Ids{7, 7}), "a a");
    EXPECT_EQ(tokenizer.decode(Ids{3, 7}), "a a");
}

TEST(GgufSentencePieces, NeverMakeSpecialOrByteTokensOfText) {
    Vocabulary vocabulary = pieces({"<", "s", ">", "0", "x", "A", "<s", "<0", "<0x", "0A", "0A>", "s>"});
    const Tokenizer tokenizer = vocabulary.build();
    for (const std::string text : {"<s>", "<0x0A>", "<unk>"}) {
        const Ids ids = tokenizer.encode_plain(text).value();
        EXPECT_EQ(std::ranges::count(ids, 1) + std::ranges::count(ids, 6), 0) << text;
        EXPECT_GT(ids.size(), 1U) << text;
    }
    EXPECT_EQ(tokenizer.encode_plain("\n").value(), (Ids{6}));
    EXPECT_EQ(tokenizer.decode(Ids{6}), "\n");
}

TEST(GgufSentencePieces, SayWhatTheyCannotExpress) {
    Vocabulary vocabulary = pieces({});
    EXPECT_EQ(vocabulary.build().encode_plain("aéüb").value(), (Ids{3, 0, 4}));
    vocabulary.extra.unknown_id.reset();
    const auto ids = vocabulary.build().encode_plain("aé");
    ASSERT_FALSE(ids);
    EXPECT_TRUE(contains(ids.error().text, "text holds \"é\"")) << ids.error().text;
}

TEST(GgufSentencePieces, AreNotQuadratic) {
    Vocabulary vocabulary = pieces({"aa", "aaaa"});
    const Tokenizer tokenizer = vocabulary.build();
    const std::string text(size_t{1} << 20, 'a');
    EXPECT_EQ(tokenizer.encode_plain(text).value().size(), text.size() / 4);
}

TEST(GgufSentencePieces, RefuseBadScoresAndBytes) {
    Vocabulary vocabulary = pieces({});
    vocabulary.scores[3] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(contains(vocabulary.error(), "tokenizer.ggml.scores of token 3 is nan"));
    vocabulary.scores.clear();
    EXPECT_TRUE(contains(vocabulary.error(), "tokenizer.ggml.scores is missing"));
    vocabulary = pieces({"<0x1G>"});
    vocabulary.types.back() = 6;
    EXPECT_TRUE(contains(vocabulary.error(), "is \"<0x1G>\" and of type 6"));
}

}  // namespace
}  // namespace di
