#include "text/grammar.h"

#include <random>

#include <gtest/gtest.h>

#include "grammar_walk.h"

namespace di {
namespace {

constexpr int64_t kVocabulary = 8192;

const Tokenizer& tokenizer() {
    static const Tokenizer loaded = std::move(Tokenizer::open(DI_MODELS "/v41-mini").value());
    return loaded;
}

int32_t end_token() { return tokenizer().find("<｜end▁of▁sentence｜>").value(); }

GrammarCompiler& compiler() {
    static GrammarCompiler shared(tokenizer(), kVocabulary, {end_token()}, {.timeout_ms = 60'000});
    return shared;
}

std::vector<int32_t> ids_of(std::string_view text) { return tokenizer().encode_plain(text).value(); }

std::vector<uint32_t> filled(TokenMask& mask) {
    std::vector<uint32_t> words(kVocabulary / 32);
    EXPECT_TRUE(mask.fill(words));
    return words;
}

std::unique_ptr<TokenMask> mask_of(const GrammarSpec& spec) {
    Result<std::unique_ptr<TokenMask>> mask = compiled_mask(compiler(), spec);
    EXPECT_TRUE(mask.has_value()) << mask.error().text;
    return std::move(*mask);
}

TEST(Grammar, AcceptsExactlyTheTokensOfItsMask) {
    const auto mask = mask_of({.kind = GrammarSpec::Kind::kRegex, .text = "[a-c]{2,5}x?"});
    const uint64_t seed = 7;
    GrammarWalker walker(tokenizer(), kVocabulary, end_token(), seed);
    for (size_t step = 0; step < 6 && !mask->is_finished(); ++step) {
        const std::vector<uint32_t> words = filled(*mask);
        for (int32_t id = 0; id < kVocabulary; ++id) {
            const auto copy = mask->clone();
            const bool is_set = ((words[static_cast<size_t>(id) / 32] >> (static_cast<uint32_t>(id) % 32)) & 1U) != 0;
            ASSERT_EQ(copy->accept(id), is_set) << "id " << id << " step " << step << " seed " << seed;
        }
        const auto id = walker.pick(*mask, step);
        ASSERT_TRUE(id && mask->accept(*id));
    }
}

TEST(Grammar, TakesBackDraftsAsIfTheyHadNeverBeen) {
    const GrammarSpec spec{.kind = GrammarSpec::Kind::kJsonObject};
    const uint64_t seed = 11;
    std::mt19937_64 random(seed);
    for (int round = 0; round < 30; ++round) {
        const auto mask = mask_of(spec);
        GrammarWalker walker(tokenizer(), kVocabulary, end_token(), seed + static_cast<uint64_t>(round));
        for (size_t step = 0; step < 25 && !mask->is_finished(); ++step) {
            const std::vector<uint32_t> before = filled(*mask);
            int32_t drafts = 0;
            for (const auto wanted = static_cast<int32_t>(random() % (kTokenMaskRollbackMax + 1));
                 drafts < wanted && !mask->is_finished(); ++drafts) {
                const auto id = walker.pick(*mask, step);
                ASSERT_TRUE(id && mask->accept(*id)) << "seed " << seed << " round " << round;
            }
            mask->rollback(drafts);
            ASSERT_EQ(filled(*mask), before) << "seed " << seed << " round " << round;
            const auto id = walker.pick(*mask, step);
            ASSERT_TRUE(id && mask->accept(*id));
        }
    }
}

TEST(Grammar, RefusesEverythingBehindTheEndAndNeverThrows) {
    const auto mask = mask_of({.kind = GrammarSpec::Kind::kChoice, .choices = {"yes"}});
    for (const int32_t id : ids_of("yes")) {
        ASSERT_TRUE(mask->accept(id));
    }
    EXPECT_FALSE(mask->is_finished());
    std::vector<uint32_t> only_end(kVocabulary / 32, 0U);
    only_end[static_cast<size_t>(end_token()) / 32] = 1U << (static_cast<uint32_t>(end_token()) % 32);
    EXPECT_EQ(filled(*mask), only_end);
    ASSERT_TRUE(mask->accept(end_token()));
    EXPECT_TRUE(mask->is_finished());
    EXPECT_FALSE(mask->accept(end_token()));
    EXPECT_FALSE(mask->accept(-1));
    EXPECT_FALSE(mask->accept(kVocabulary));
    EXPECT_EQ(filled(*mask), std::vector<uint32_t>(kVocabulary / 32, 0U));
    mask->rollback(1);
    EXPECT_FALSE(mask->is_finished());
    EXPECT_EQ(filled(*mask), only_end);
}

TEST(Grammar, BeginsBehindTheTriggerInsideADraftRun) {
    const std::vector<int32_t> trigger = {end_token() == 5 ? 6 : 5, 7};
    const auto mask = mask_of({.kind = GrammarSpec::Kind::kRegex, .text = "[0-9]+", .trigger_token_ids = trigger});
    std::vector<uint32_t> words(kVocabulary / 32);
    EXPECT_FALSE(mask->fill(words));
    const int32_t digit = ids_of("7").at(0);
    const int32_t letter = ids_of("a").at(0);
    for (const int32_t id : {letter, trigger[0], trigger[1], digit}) {
        ASSERT_TRUE(mask->accept(id));
    }
    EXPECT_FALSE(mask->accept(letter));
    mask->rollback(2);  // also the second token of the trigger
    EXPECT_FALSE(mask->fill(words));
    ASSERT_TRUE(mask->accept(trigger[1]));
    EXPECT_FALSE(mask->accept(letter));
    EXPECT_TRUE(mask->accept(digit));
}

TEST(GrammarCompiler, CompilesTheSameGrammarOnce) {
    GrammarCompiler fresh(tokenizer(), kVocabulary, {end_token()}, {.timeout_ms = 60'000});
    const GrammarSpec spec{.kind = GrammarSpec::Kind::kRegex, .text = "[a-z]+"};
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(compiled_mask(fresh, spec).has_value());
    }
    EXPECT_EQ(fresh.counts().compiled, 1);
    EXPECT_EQ(fresh.counts().reused, 4);
    EXPECT_GT(fresh.counts().cache_bytes, 0);
}

TEST(GrammarCompiler, KeepsNoMoreThanItsCacheHoldsAndWhatIsInUse) {
    GrammarCompiler fresh(tokenizer(), kVocabulary, {end_token()}, {.timeout_ms = 60'000, .cache_bytes = 1});
    const GrammarSpec spec{.kind = GrammarSpec::Kind::kRegex, .text = "[a-z]+"};
    const auto mask = compiled_mask(fresh, spec);
    ASSERT_TRUE(mask.has_value());
    ASSERT_TRUE(compiled_mask(fresh, {.kind = GrammarSpec::Kind::kRegex, .text = "[0-9]+"}).has_value());
    EXPECT_LE(fresh.counts().cache_bytes, 1);
    EXPECT_TRUE((*mask)->accept(ids_of("a").at(0)));
}

TEST(GrammarCompiler, TimesOutWithAnErrorThatSaysSo) {
    GrammarCompiler fresh(tokenizer(), kVocabulary, {end_token()}, {.timeout_ms = 0});
    const auto source = fresh.submit({.kind = GrammarSpec::Kind::kRegex, .text = "[a-z]+"});
    ASSERT_TRUE(source.has_value());
    EXPECT_TRUE((*source)->is_ready());
    // Compiled in the meantime, or not: both are an answer, and neither is waited for.
    const auto mask = (*source)->create();
    EXPECT_TRUE(mask.has_value() || mask.error().text.find("time-out") != std::string::npos);
}

TEST(GrammarCompiler, SurvivesCancelsAndItsOwnEnd) {
    std::vector<std::shared_ptr<TokenMaskSource>> sources;
    {
        GrammarCompiler fresh(tokenizer(), kVocabulary, {end_token()}, {.thread_count = 1, .timeout_ms = 60'000});
        for (int i = 0; i < 200; ++i) {
            auto source = fresh.submit({.kind = GrammarSpec::Kind::kRegex, .text = fmt::format("a{{{}}}", i + 1)});
            ASSERT_TRUE(source.has_value());
            (*source)->cancel();
            (*source)->cancel();
            sources.push_back(*source);
        }
    }
    for (const auto& source : sources) {
        (void)source->is_ready();
    }
}

TEST(GrammarCompiler, NamesWrongTokens) {
    const auto wrong = [](GrammarSpec spec) {
        spec.kind = GrammarSpec::Kind::kJsonObject;
        const auto source = compiler().submit(spec);
        return source ? std::string() : source.error().text;
    };
    EXPECT_NE(wrong({.trigger_token_ids = {9'000}}).find("trigger_token_ids: 9000"), std::string::npos);
    EXPECT_NE(wrong({.bound_token_id = 3}).find("without trigger_token_ids"), std::string::npos);
    EXPECT_NE(wrong({.trigger_token_ids = {1}, .bound_token_id = -2}).find("bound_token_id: -2"), std::string::npos);
}

}  // namespace
}  // namespace di
