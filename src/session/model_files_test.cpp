#include "session/model_files.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gguf_builder.h"
#include "safetensors_fixture.h"
#include "smollm2_model.h"
#include "temporary_directory.h"

namespace di {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

const Tokenizer& smollm2() {
    static const Tokenizer tokenizer = [] {
        auto opened = open_tokenizer(smollm2_path());
        if (!opened) {
            throw std::runtime_error(opened.error().text);
        }
        return std::move(*opened);
    }();
    return tokenizer;
}

const Json& vectors() {
    static const Json root = Json::parse(read_fixture(DI_TEST_DATA "/tokenizer/smollm2.json"));
    return root;
}

TEST(ModelFiles, SmolLm2EncodesEveryVector) {
    ASSERT_EQ(vectors().at("cases").size(), 301U);
    for (const Json& entry : vectors().at("cases")) {
        const auto text = entry.at("text").get<std::string>();
        EXPECT_EQ(smollm2().encode_special(text).value(), entry.at("ids").get<Ids>()) << text;
        const Json& plain = entry.contains("ids_plain") ? entry.at("ids_plain") : entry.at("ids");
        EXPECT_EQ(smollm2().encode_plain(text).value(), plain.get<Ids>()) << text;
    }
}

TEST(ModelFiles, SmolLm2DecodesEveryVectorBackToItsText) {
    for (const Json& entry : vectors().at("cases")) {
        EXPECT_EQ(smollm2().decode(entry.at("ids").get<Ids>()), entry.at("text").get<std::string>());
    }
}

TEST(ModelFiles, SmolLm2NamesItsTokens) {
    EXPECT_EQ(smollm2().vocabulary_size(), 49'152);
    EXPECT_EQ(smollm2().bos_id(), 1);
    EXPECT_EQ(smollm2().eos_id(), 2);
    EXPECT_EQ(smollm2().pad_id(), 2);
    EXPECT_EQ(smollm2().find("<|im_end|>"), 2);
    EXPECT_TRUE(smollm2().is_special(16));
    EXPECT_FALSE(smollm2().is_special(17));
    const auto generation = open_generation_config(smollm2_path(), smollm2());
    ASSERT_TRUE(generation) << generation.error().text;
    EXPECT_EQ(generation->eos_token_ids, (Ids{0, 2}));  // <|endoftext|> and <|im_end|>
    EXPECT_FALSE(generation->temperature || generation->top_p || generation->top_k);
}

// Texts as they are, and conversations through the template of the file.
TEST(ModelFiles, SmolLm2WritesItsPromptsAsTheGoldensHaveThem) {
    const auto format = open_chat_format(smollm2_path(), smollm2(), false);
    ASSERT_TRUE(format) << format.error().text;
    const Json goldens = Json::parse(read_fixture(DI_TEST_DATA "/smollm2/goldens.json"));
    ASSERT_EQ(goldens.at("prompts").size(), 10U);
    for (const Json& prompt : goldens.at("prompts")) {
        const auto text = prompt.at("text").get<std::string>();
        const Ids expected = prompt.at("prompt_ids").get<Ids>();
        if (prompt.at("kind") == "raw") {
            EXPECT_EQ(smollm2().encode_special(text).value(), expected) << text;
            continue;
        }
        const auto encoded = format->encode(user_conversation(text), smollm2());
        ASSERT_TRUE(encoded) << encoded.error().text;
        EXPECT_EQ(encoded->text, prompt.at("rendered").get<std::string>());
        EXPECT_EQ(tokenise_prompt(*encoded, smollm2()).value(), expected) << text;
    }
}

TEST(ModelFiles, AModelWithoutTemplateSaysSoToConversations) {
    const TemporaryDirectory directory;
    const std::string path = directory.write("m.gguf", GgufBuilder().text("general.architecture", "llama").build());
    const auto format = open_chat_format(path, smollm2(), false);
    ASSERT_TRUE(format) << format.error().text;
    const auto encoded = format->encode(user_conversation("Hi"), smollm2());
    ASSERT_FALSE(encoded);
    EXPECT_NE(encoded.error().text.find("has no chat template"), std::string::npos) << encoded.error().text;
}

TEST(ModelFiles, ReadATemplateBesideTheWeights) {
    const TemporaryDirectory directory;
    const auto text_of = [&] {
        const auto format = open_chat_format(directory.path(), smollm2(), false);
        if (!format) {
            return format.error().text;
        }
        const auto encoded = format->encode(user_conversation("Hi"), smollm2());
        return encoded ? encoded->text : encoded.error().text;
    };
    directory.write("tokenizer_config.json", R"({"chat_template": "A {{ messages[0].content }}"})");
    EXPECT_EQ(text_of(), "A Hi");
    directory.write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"},
                                                                   {"name": "default", "template": "B {{ eos_token }}"}]})");
    EXPECT_EQ(text_of(), "B <|im_end|>");
    directory.write("tokenizer_config.json", R"({"chat_template": 5})");
    EXPECT_NE(text_of().find("chat_template is 5, expected a string"), std::string::npos);
    directory.write("chat_template.jinja", "C {{ messages[0].role }}");
    EXPECT_EQ(text_of(), "C user");
}

// --- small files ------------------------------------------------------------------

GgufBuilder small_vocabulary() {
    GgufBuilder file;
    file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
    file.texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<|im_end|>"});
    file.numbers<int32_t>("tokenizer.ggml.token_type", {1, 1, 1, 3}).texts("tokenizer.ggml.merges", {"a b"});
    return file;
}

std::string error_of(const GgufBuilder& file) {
    const TemporaryDirectory directory;
    const std::string path = directory.write("m.gguf", file.build());
    const auto tokenizer = open_tokenizer(path);
    if (!tokenizer) {
        EXPECT_TRUE(tokenizer.error().text.starts_with(path + ": "));
        return tokenizer.error().text.substr(path.size() + 2);
    }
    const auto generation = open_generation_config(path, *tokenizer);
    return generation ? "no error" : generation.error().text.substr(path.size() + 2);
}

TEST(ModelFiles, ReadAVocabularyAlone) {
    const TemporaryDirectory directory;
    GgufBuilder file = small_vocabulary();
    file.number<float>("general.sampling.temp", 0.6F).number<int32_t>("general.sampling.top_k", 20);
    file.number<uint32_t>("tokenizer.ggml.eot_token_id", 1);
    const std::string path = directory.write("m.gguf", file.build());
    const auto tokenizer = open_tokenizer(path);
    ASSERT_TRUE(tokenizer) << tokenizer.error().text;
    EXPECT_EQ(tokenizer->encode_special("aab<|im_end|>").value(), (Ids{0, 2, 3}));
    EXPECT_FALSE(tokenizer->bos_id() || tokenizer->eos_id());
    const auto generation = open_generation_config(path, *tokenizer);
    ASSERT_TRUE(generation) << generation.error().text;
    EXPECT_FLOAT_EQ(static_cast<float>(generation->temperature.value()), 0.6F);
    EXPECT_EQ(generation->top_k, 20);
    EXPECT_EQ(generation->eos_token_ids, (Ids{1, 3}));
}

// F04: the types are looked at before the values.
TEST(ModelFiles, RefuseKeysOfOtherTypes) {
    EXPECT_EQ(error_of(small_vocabulary()), "no error");
    EXPECT_EQ(error_of(GgufBuilder().text("general.architecture", "llama")),
              "tokenizer.ggml.model is missing, expected a string");
    GgufBuilder types;
    types.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2").texts("tokenizer.ggml.tokens", {"a", "b"});
    types.numbers<uint8_t>("tokenizer.ggml.token_type", {1, 1}).texts("tokenizer.ggml.merges", {});
    EXPECT_EQ(error_of(types), "tokenizer.ggml.token_type is array of 2 u8, expected an array of at most 4194304 i32");
    GgufBuilder scores;
    scores.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", {"a", "b"});
    scores.numbers<uint8_t>("tokenizer.ggml.scores", {1, 1});
    EXPECT_EQ(error_of(scores), "tokenizer.ggml.scores is array of 2 u8, expected an array of at most 4194304 f32");
    EXPECT_EQ(error_of(small_vocabulary().text("tokenizer.ggml.bos_token_id", "a")).substr(0, 44),
              "tokenizer.ggml.bos_token_id is string \"a\", e");
    EXPECT_EQ(error_of(small_vocabulary().number<uint32_t>("tokenizer.ggml.bos_token_id", 4)),
              "tokenizer.ggml.bos_token_id is 4, expected an id of the 4 tokens");
    EXPECT_EQ(error_of(small_vocabulary().number<uint32_t>("tokenizer.ggml.eot_token_id", 4)),
              "tokenizer.ggml.eot_token_id is u32 4, expected an integer from 0 to 3");
    EXPECT_EQ(error_of(small_vocabulary().number<float>("general.sampling.top_p", 0.0F)).substr(0, 31),
              "general.sampling.top_p is f32 0");
}

TEST(ModelFiles, ReadADirectoryAsBefore) {
    const auto tokenizer = open_tokenizer(DI_MODELS "/v41-mini");
    ASSERT_TRUE(tokenizer) << tokenizer.error().text;
    const auto generation = open_generation_config(DI_MODELS "/v41-mini", *tokenizer);
    ASSERT_TRUE(generation) << generation.error().text;
    EXPECT_FALSE(open_tokenizer("/nonexistent/model.gguf"));
    EXPECT_FALSE(open_tokenizer("/nonexistent/model"));
}

}  // namespace
}  // namespace di
