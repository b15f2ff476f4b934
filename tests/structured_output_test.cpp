// Every output under a constraint is valid, every bad constraint is refused at once. The cases are in
// data/grammar_cases.json; outputs are drawn at random from the masks. tests/structured_output_test.py validates them with
// Python's jsonschema and re, which know nothing of our grammars: it runs this program with DEEPINFER_GRAMMAR_OUTPUTS set.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "deepseek_tokenizer.h"
#include "grammar_walk.h"
#include "text/json_text.h"

namespace di {
namespace {

using Json = nlohmann::ordered_json;

const Json& cases() {
    static const Json root = Json::parse(read_fixture(DI_TEST_DATA "/grammar_cases.json"));
    return root;
}

struct Vocabulary {
    Tokenizer tokenizer;
    int64_t size;
    int32_t end;
    GrammarCompiler compiler;

    Vocabulary(Result<Tokenizer> loaded, int64_t vocab_size, std::string_view end_token)
        : tokenizer(std::move(loaded.value())),
          size(vocab_size),
          end(tokenizer.find(end_token).value()),
          compiler(tokenizer, size, {end}, {.timeout_ms = 60'000}) {}
};

Vocabulary& small_vocabulary() {
    static Vocabulary vocabulary(Tokenizer::open(DI_MODELS "/v41-mini"), 8192, "<｜end▁of▁sentence｜>");
    return vocabulary;
}

Vocabulary& large_vocabulary() {
    static Vocabulary vocabulary(Tokenizer::parse(deepseek_v41_tokenizer_json()), 129'280, "<｜end▁of▁sentence｜>");
    return vocabulary;
}

GrammarSpec spec_of(const Json& entry) {
    GrammarSpec spec;
    spec.kind = parse_grammar_kind(entry.at("kind").get<std::string>()).value();
    if (entry.contains("choices")) {
        spec.choices = entry.at("choices").get<std::vector<std::string>>();
    } else if (entry.contains("schema")) {
        spec.text = entry.at("schema").dump();
    } else {
        spec.text = entry.value("text", "");
    }
    return spec;
}

// Outputs go to the file; whatever does not end is a failure here. Free text may be broken UTF-8, which the file replaces.
void walk_all(Vocabulary& vocabulary, std::string_view name, int walks, std::FILE* file) {
    size_t output_count = 0;
    for (const Json& entry : cases().at("good")) {
        const auto label = entry.at("name").get<std::string>();
        GrammarSpec spec = spec_of(entry);
        for (int walk = 0; walk < walks; ++walk) {
            const uint64_t seed = std::hash<std::string>()(label) + static_cast<uint64_t>(walk);
            spec.blanks = walk % 3 == 0 ? JsonBlanks::kSpace : walk % 3 == 1 ? JsonBlanks::kNone : JsonBlanks::kLines;
            const auto mask = compiled_mask(vocabulary.compiler, spec);
            if (!mask) {
                ADD_FAILURE() << label << ": " << mask.error().text;
                break;
            }
            GrammarWalker walker(vocabulary.tokenizer, vocabulary.size, vocabulary.end, seed);
            walker.set_hint(vocabulary.tokenizer.encode_plain(entry.value("hint", "")).value());
            const GrammarWalk result = walker.walk(**mask, 1000);
            EXPECT_TRUE(result.has_ended) << label << " seed " << seed << (result.is_dead ? " dead end: " : ": ")
                                          << result.text.substr(0, 300);
            if (spec.kind == GrammarSpec::Kind::kJsonSchema || spec.kind == GrammarSpec::Kind::kJsonObject) {
                EXPECT_TRUE(parse_json(result.text).has_value()) << label << " seed " << seed << ": " << result.text;
            }
            ++output_count;
            if (file != nullptr) {
                const Json line = {{"name", label}, {"vocabulary", std::string(name)}, {"seed", seed}, {"output", result.text}};
                fmt::print(file, "{}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
            }
        }
    }
    fmt::print("{} outputs\n", output_count);
}

class StructuredOutput : public testing::Test {
  protected:
    void SetUp() override {
        if (const char* path = std::getenv("DEEPINFER_GRAMMAR_OUTPUTS"); path != nullptr) {
            file_ = std::fopen(path, "a");
            ASSERT_NE(file_, nullptr) << path;
        }
    }
    void TearDown() override {
        if (file_ != nullptr) {
            std::fclose(file_);
        }
    }
    std::FILE* file_ = nullptr;
};

TEST_F(StructuredOutput, EndsAndIsTextForEveryCaseWithASmallVocabulary) { walk_all(small_vocabulary(), "small", 3, file_); }

TEST_F(StructuredOutput, EndsAndIsTextForEveryCaseWithARealVocabulary) { walk_all(large_vocabulary(), "large", 1, file_); }

// --- what is refused --------------------------------------------------------

Error refusal(GrammarCompiler& compiler, const GrammarSpec& spec, const std::string& name) {
    const auto begin = std::chrono::steady_clock::now();
    const auto source = compiler.submit(spec);
    const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, 1.0) << name;
    if (source.has_value()) {
        ADD_FAILURE() << name << ": not refused";
        return {ErrorCode::kInternal, ""};
    }
    return source.error();
}

TEST_F(StructuredOutput, RefusesEveryBadConstraintAtOnceAndSaysWhatIsWrong) {
    ASSERT_GE(cases().at("bad").size(), 60U);
    for (const Json& entry : cases().at("bad")) {
        const auto name = entry.at("name").get<std::string>();
        const Error error = refusal(small_vocabulary().compiler, spec_of(entry), name);
        EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << name;
        EXPECT_NE(error.text.find(entry.at("error").get<std::string>()), std::string::npos) << name << ": " << error.text;
    }
}

TEST_F(StructuredOutput, RefusesHugeConstraintsAtOnce) {
    GrammarCompiler& compiler = small_vocabulary().compiler;
    std::string deep;
    for (int i = 0; i < 50'000; ++i) {
        deep += R"({"type":"array","items":)";
    }
    deep += "{}" + std::string(50'000, '}');
    EXPECT_NE(refusal(compiler, {.kind = GrammarSpec::Kind::kJsonSchema, .text = deep}, "deep").text.find("expected"),
              std::string::npos);
    std::string wide = R"({"type":"object","properties":{)";
    while (wide.size() < 20'000'000) {
        wide += fmt::format("\"p{}\":{{\"type\":\"string\"}},", wide.size());
    }
    wide += R"("z":{}}})";
    EXPECT_NE(refusal(compiler, {.kind = GrammarSpec::Kind::kJsonSchema, .text = wide}, "wide").text.find("bytes"),
              std::string::npos);
    const std::string groups = std::string(50'000, '(') + "a" + std::string(50'000, ')');
    EXPECT_NE(refusal(compiler, {.kind = GrammarSpec::Kind::kRegex, .text = groups}, "groups").text.find("expected"),
              std::string::npos);
    EXPECT_NE(
        refusal(compiler, {.kind = GrammarSpec::Kind::kEbnf, .text = "root ::= " + groups}, "rule groups").text.find("deep"),
        std::string::npos);
    std::string rules = "root ::= r0\n";
    for (int i = 0; i < 30'000; ++i) {
        rules += fmt::format("r{} ::= r{} \"a\"\n", i, i + 1);
    }
    EXPECT_NE(refusal(compiler, {.kind = GrammarSpec::Kind::kEbnf, .text = rules}, "rules").text.find("rules"),
              std::string::npos);
    // Every level doubles what the level below unfolds to.
    std::string doubling = R"({"$defs":{"d0":{"type":"string"})";
    for (int i = 1; i < 30; ++i) {
        doubling += fmt::format(R"(,"d{}":{{"allOf":[{{"$ref":"#/$defs/d{}"}},{{"$ref":"#/$defs/d{}"}}]}})", i, i - 1, i - 1);
    }
    doubling += R"(},"allOf":[{"$ref":"#/$defs/d29"}]})";
    EXPECT_NE(refusal(compiler, {.kind = GrammarSpec::Kind::kJsonSchema, .text = doubling}, "doubling").text.find("expected"),
              std::string::npos);
}

}  // namespace
}  // namespace di
