#include "engine/load.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace di {
namespace {

// Any map with the right number of classes serves here.
Result<std::vector<int32_t>> some_classes(int64_t vocab_size, int64_t class_count) {
    std::vector<int32_t> classes;
    for (int64_t id = 0; id < vocab_size; ++id) {
        classes.push_back(static_cast<int32_t>(id % class_count));
    }
    return classes;
}

Result<std::vector<int32_t>> tiny_classes(int64_t vocab_size) { return some_classes(vocab_size, 320); }

EngineOptions tiny_options() {
    EngineOptions options;
    options.model_directory = DI_TEST_DATA "/v41-tiny";
    options.backend = "ref";
    options.threads = 1;
    options.max_model_len = 256;
    options.max_num_seqs = 3;
    options.max_num_batched_tokens = 64;
    return options;
}

std::map<uint64_t, std::vector<int32_t>> generate(LoadedEngine& loaded, const std::vector<std::vector<int32_t>>& prompts) {
    for (size_t i = 0; i < prompts.size(); ++i) {
        TokenRequest request;
        request.id = i;
        request.prompt_token_ids = prompts[i];
        request.sampling.max_tokens = 6;
        request.sampling.seed = 11;
        request.sampling.ignore_eos = true;
        loaded.engine->add_request(request);
    }
    std::map<uint64_t, std::vector<int32_t>> tokens;
    while (loaded.engine->has_unfinished()) {
        for (const StepOutput& output : loaded.engine->step()) {
            EXPECT_FALSE(output.error) << output.error->text;
            auto& all = tokens[output.request_id];
            all.insert(all.end(), output.token_ids.begin(), output.token_ids.end());
        }
    }
    return tokens;
}

TEST(LoadEngine, RealWeightsAnswerTheSameBatchedCutAndAlone) {
    std::vector<std::vector<int32_t>> prompts;
    for (const int32_t length : {1, 19, 40, 7}) {
        auto& ids = prompts.emplace_back();
        for (int32_t i = 0; i < length; ++i) {
            ids.push_back((i * 37 + length * 11) % 384);
        }
    }
    auto loaded = load_engine(tiny_options(), tiny_classes);
    ASSERT_TRUE(loaded) << loaded.error().text;
    const auto together = generate(**loaded, prompts);
    ASSERT_EQ(together.size(), prompts.size());
    EngineOptions options = tiny_options();
    options.max_num_batched_tokens = 5;
    auto cut = load_engine(options, tiny_classes);
    ASSERT_TRUE(cut) << cut.error().text;
    EXPECT_EQ(generate(**cut, prompts), together);
    for (size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(generate(**loaded, {prompts[i]}).at(0), together.at(i));
    }
}

TEST(LoadEngine, DummyWeightsNeedOnlyTheConfig) {
    EngineOptions options = tiny_options();
    options.load_format = LoadFormat::kDummy;
    options.seed = 3;
    auto first = load_engine(options, tiny_classes);
    ASSERT_TRUE(first) << first.error().text;
    EXPECT_TRUE((*first)->checkpoint->is_dummy());
    const auto tokens = generate(**first, {{1, 2, 3}});
    EXPECT_EQ(tokens.at(0).size(), 6U);
    auto second = load_engine(options, tiny_classes);
    ASSERT_TRUE(second) << second.error().text;
    EXPECT_EQ(generate(**second, {{1, 2, 3}}), tokens);
}

TEST(LoadEngine, BadOptionsAndTokenClassesAreNamed) {
    const auto error = [](const EngineOptions& options, const TokenClasses& classes) {
        const auto loaded = load_engine(options, classes);
        return loaded ? std::string("none") : loaded.error().text;
    };
    EXPECT_EQ(error(tiny_options(), [](int64_t vocab) { return some_classes(vocab, 300); }),
              "the tokenizer gives 300 Engram classes, expected 320 (engram_compressed_vocab_size)");
    EXPECT_EQ(error(tiny_options(), [](int64_t vocab) { return some_classes(vocab - 1, 320); }),
              "the tokenizer gives Engram classes for 383 ids, expected 384 (vocab_size)");
    const auto negative = [](int64_t vocab) {
        auto classes = some_classes(vocab, 320);
        classes->front() = -1;
        return classes;
    };
    EXPECT_EQ(error(tiny_options(), negative), "the tokenizer gives the Engram class -1, expected >= 0");
    EXPECT_EQ(
        error(tiny_options(), [](int64_t) -> Result<std::vector<int32_t>> { return fail(ErrorCode::kInvalidFile, "no file"); }),
        "no file");
    EngineOptions options = tiny_options();
    options.threads = -1;
    EXPECT_EQ(error(options, tiny_classes).substr(0, 13), "threads is -1");
    options = tiny_options();
    options.max_model_len = 5000;
    EXPECT_EQ(error(options, tiny_classes), "max_model_len is 5000, expected 1 .. 4096 (or 0: default)");
    options = tiny_options();
    options.model_directory = DI_TEST_DATA "/not-there";
    EXPECT_NE(error(options, tiny_classes).find("not-there"), std::string::npos);
    options = tiny_options();
    options.backend = "abacus";
    EXPECT_NE(error(options, tiny_classes).find("abacus"), std::string::npos);
}

}  // namespace
}  // namespace di
