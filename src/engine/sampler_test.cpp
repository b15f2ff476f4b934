#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "engine/limits.h"
#include "engine/sampler_reference.h"

namespace di {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

int32_t draw(OwnedRow& row) {
    Sampler sampler(static_cast<int64_t>(row.logits.size()));
    return sampler.draw(row.view()).value();
}

std::vector<int32_t> random_ids(SeededRandom& random, int64_t count, int64_t vocab) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < count; ++i) {
        ids.push_back(static_cast<int32_t>(random.below(vocab)));
    }
    return ids;
}

// Every field of the request takes part in some rows, alone and together.
OwnedRow random_row(uint64_t seed) {
    SeededRandom random(seed);
    constexpr int64_t kVocabs[] = {2, 5, 31, 63, 64, 65, 130, 333, 700};
    const int64_t vocab = kVocabs[random.below(std::size(kVocabs))];
    constexpr double kWidths[] = {0.1, 4.0, 12.0, 60.0};
    OwnedRow row = row_of(random_logits(random, vocab, kWidths[random.below(4)], random.below(3) == 0),
                          0.05 + 0.05 * static_cast<double>(random.below(60)));
    const auto one_in = [&random](int64_t n) { return random.below(n) == 0; };
    SamplingParams& params = row.params;
    row.seed = random.next();
    params.top_p = one_in(2) ? 1.0 : 0.01 + 0.0099 * static_cast<double>(random.below(100));
    params.top_k = one_in(2) ? -1 : static_cast<int32_t>(random.below(vocab + 10));
    params.min_p = one_in(4) ? 0.003 * static_cast<double>(random.below(300)) : 0.0;
    params.repetition_penalty = one_in(4) ? 0.5 + 0.1 * static_cast<double>(random.below(20)) : 1.0;
    params.presence_penalty = one_in(4) ? -2.0 + 0.1 * static_cast<double>(random.below(41)) : 0.0;
    params.frequency_penalty = one_in(4) ? -2.0 + 0.1 * static_cast<double>(random.below(41)) : 0.0;
    row.prompt = random_ids(random, 1 + random.below(20), vocab);
    row.output = random_ids(random, random.below(20), vocab);
    row.end_token_ids = random_ids(random, random.below(3), vocab);
    row.bans_end_tokens = one_in(3);
    if (one_in(4)) {
        params.banned_token_ids = random_ids(random, random.below(vocab), vocab);
    }
    if (one_in(5)) {
        params.allowed_token_ids = random_ids(random, 1 + random.below(vocab), vocab);
    }
    for (int64_t i = one_in(4) ? random.below(8) : 0; i > 0; --i) {
        params.logit_bias.push_back({.token_id = static_cast<int32_t>(random.below(vocab)),
                                     .bias = static_cast<float>(random.below(200) - 100) * 0.1F});
    }
    if (one_in(5)) {
        for (int64_t word = 0; word < (vocab + 31) / 32; ++word) {
            row.mask.push_back(one_in(4) ? 0xFFFFFFFFU : static_cast<uint32_t>(random.next()));
        }
    }
    return row;
}

TEST(Sampler, FollowsThePlainRulesOnTenThousandRandomRows) {
    int64_t compared = 0;
    int64_t empty = 0;
    int64_t cut = 0;
    for (uint64_t seed = 1; seed <= 10000; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        OwnedRow row = random_row(seed);
        const SampleRow view = row.view();
        Sampler sampler(static_cast<int64_t>(row.logits.size()));
        const Result<int32_t> drawn = sampler.draw(view);
        const ReferenceRow wanted = reference_row(row);
        if (wanted.order.empty()) {
            ASSERT_FALSE(drawn);
            ++empty;
            continue;
        }
        ASSERT_TRUE(drawn) << drawn.error().text;
        if (wanted.is_on_edge) {
            continue;
        }
        ++compared;
        cut += wanted.kept < wanted.order.size() ? 1 : 0;
        ASSERT_EQ(*drawn, reference_draw(wanted, view, RandomUse::kDraw));
        row.params.logprobs_mode = LogprobsMode::kProcessed;
        const TokenLogprobs logprobs = sampler.logprobs(row.view(), *drawn, static_cast<int32_t>(row.logits.size()));
        const std::vector<double> p = reference_distribution(wanted);
        EXPECT_NEAR(logprobs.logprob, std::log(p[static_cast<size_t>(*drawn)]), 1e-4);
        ASSERT_EQ(logprobs.top.size(), wanted.kept);
        for (size_t rank = 0; rank < wanted.kept; ++rank) {
            ASSERT_EQ(logprobs.top[rank].token_id, wanted.order[rank]);
        }
    }
    EXPECT_GT(compared, 9000);
    EXPECT_GT(cut, 4000);
    EXPECT_GT(empty, 10);
}

TEST(Sampler, PassesOverNoTokenThatWouldWinInALargeRow) {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        SeededRandom random(seed);
        constexpr double kWidths[] = {0.0, 0.5, 8.0, 40.0};
        OwnedRow row = row_of(random_logits(random, 5000, kWidths[seed % 4], seed % 3 == 0), seed % 2 == 0 ? 1.0 : 1.7);
        row.seed = seed;
        row.params.top_p = seed % 5 == 0 ? 0.97 : 1.0;
        const ReferenceRow wanted = reference_row(row);
        if (!wanted.is_on_edge) {
            const SampleRow view = row.view();
            Sampler sampler(5000);
            EXPECT_EQ(sampler.draw(view).value(), reference_draw(wanted, view, RandomUse::kDraw));
        }
    }
}

TEST(Sampler, ZeroTemperatureIsTheLargestLogitAndTheLowestIdOnTies) {
    for (const double temperature : {0.0, 1e-7, 9.9e-6}) {
        OwnedRow row = row_of({1.0F, 5.0F, -2.0F, 5.0F, 5.0F, 4.99F}, temperature);
        row.params.top_p = 0.1;
        row.params.top_k = 50;
        for (row.seed = 0; row.seed < 20; ++row.seed) {  // no random number takes part
            EXPECT_EQ(draw(row), 1);
        }
        row.params.banned_token_ids = {1, 3, 1};
        EXPECT_EQ(draw(row), 4);
    }
    std::vector<float> logits(1000, 0.5F);
    logits[701] = logits[900] = 3.0F;
    OwnedRow row = row_of(logits, 0.0);
    EXPECT_EQ(draw(row), 701);
}

TEST(Sampler, EditsAtZeroTemperatureMoveTheArgMax) {
    OwnedRow row = row_of({3.0F, 2.5F, -1.0F, 2.0F}, 0.0);
    row.prompt = {0};
    row.params.repetition_penalty = 1.25;  // 3 / 1.25 = 2.4
    EXPECT_EQ(draw(row), 1);
    row.output = {1};
    row.params.presence_penalty = 0.5;  // 2.5 / 1.25 - 0.5 = 1.5
    EXPECT_EQ(draw(row), 0);
    row.params.repetition_penalty = 1.0;  // 3, 2, -1, 2
    row.output = {0, 0, 1};
    row.params.frequency_penalty = 0.5;  // 3 - 1.5, 2.5 - 1, -1, 2
    EXPECT_EQ(draw(row), 3);
    row.params.logit_bias = {{.token_id = 2, .bias = 2.0F}, {.token_id = 2, .bias = 1.5F}};  // the two add up
    EXPECT_EQ(draw(row), 2);
    row.mask = {0b0011U};
    EXPECT_EQ(draw(row), 0);  // 1.5 and 1.5
    row.params.allowed_token_ids = {1};
    EXPECT_EQ(draw(row), 1);
    row.end_token_ids = {0};  // end tokens may come besides
    EXPECT_EQ(draw(row), 0);
    row.bans_end_tokens = true;
    EXPECT_EQ(draw(row), 1);
}

TEST(Sampler, FrequenciesAreTheSoftmaxAtTheTemperature) {
    for (const double temperature : {0.5, 1.0, 2.0}) {
        OwnedRow row = row_of({0.0F, 1.0F, 2.0F, -1.0F, 0.5F, 1.5F, -3.0F, 0.25F}, temperature);
        SampleRow view = row.view();
        Sampler sampler(8);
        std::vector<int64_t> seen(8, 0);
        for (int64_t i = 0; i < 40000; ++i) {
            view.seed = static_cast<uint64_t>(i % 7);
            view.index = i;
            ++seen[static_cast<size_t>(sampler.draw(view).value())];
        }
        EXPECT_LT(chi_square_deviation(seen, reference_distribution(reference_row(row))), 4.0) << temperature;
    }
}

TEST(Sampler, RawLogprobsAreTheModelsWhateverTheSampling) {
    SeededRandom random(5);
    OwnedRow row = row_of(random_logits(random, 300, 12.0, false), 2.5);
    row.params.top_p = 0.9;
    row.params.top_k = 20;
    row.params.banned_token_ids = {1, 2, 3};
    row.params.repetition_penalty = 1.3;
    row.prompt = {4, 5};
    double sum = 0.0;
    for (const float logit : row.logits) {
        sum += std::exp(static_cast<double>(logit));
    }
    Sampler sampler(300);
    const TokenLogprobs logprobs = sampler.logprobs(row.view(), 2, 30);
    EXPECT_NEAR(logprobs.logprob, static_cast<double>(row.logits[2]) - std::log(sum), 1e-5);
    ASSERT_EQ(logprobs.top.size(), 30U);
    std::vector<float> sorted = row.logits;
    std::sort(sorted.rbegin(), sorted.rend());
    for (size_t rank = 0; rank < 30; ++rank) {
        const TokenLogprob& entry = logprobs.top[rank];
        EXPECT_EQ(row.logits[static_cast<size_t>(entry.token_id)], sorted[rank]);
        EXPECT_NEAR(entry.logprob, static_cast<double>(sorted[rank]) - std::log(sum), 1e-5);
    }
    const auto prompt = sampler.prompt_logprobs(row.logits, 7, 2, 3);
    ASSERT_TRUE(prompt);
    EXPECT_EQ(prompt->logprob, logprobs.logprob);
    EXPECT_EQ(prompt->top.size(), 3U);
}

TEST(Sampler, ProcessedLogprobsUnderAMaskOfOneTokenHoldThatToken) {
    OwnedRow row = row_of(std::vector<float>(40, 1.0F));
    row.mask = {0, 0b100U};
    Sampler sampler(40);
    EXPECT_EQ(sampler.draw(row.view()).value(), 34);
    row.params.logprobs_mode = LogprobsMode::kProcessed;
    const TokenLogprobs processed = sampler.logprobs(row.view(), 34, 20);
    EXPECT_EQ(processed.logprob, 0.0F);
    ASSERT_EQ(processed.top.size(), 1U);
    EXPECT_EQ(processed.top[0].token_id, 34);
    EXPECT_EQ(sampler.logprobs(row.view(), 3, 20).logprob, kNever);  // forced against the mask
    row.params.logprobs_mode = LogprobsMode::kRaw;
    const TokenLogprobs raw = sampler.logprobs(row.view(), 34, 20);
    EXPECT_NEAR(raw.logprob, -std::log(40.0), 1e-6);
    EXPECT_EQ(raw.top.size(), 20U);
    row.params.logprobs_mode = LogprobsMode::kProcessed;
    row.params.temperature = 0.0;
    EXPECT_EQ(sampler.logprobs(row.view(), 34, 20).logprob, 0.0F);
    EXPECT_EQ(sampler.logprobs(row.view(), 33, 20).logprob, kNever);
}

TEST(Sampler, ForcedTokenIsTakenEvenIfNothingMayCome) {
    OwnedRow row = row_of({0.0F, 9.0F});
    row.params.banned_token_ids = {0, 1};
    Sampler sampler(2);
    SampleRow view = row.view();
    const Result<int32_t> none = sampler.draw(view);
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().text.find("no token may come at position 0"), std::string::npos) << none.error().text;
    view.forced_id = 0;
    EXPECT_EQ(sampler.draw(view).value(), 0);
    EXPECT_NEAR(sampler.logprobs(view, 0, 0).logprob, -9.0, 1e-3);
    row.params.logprobs_mode = LogprobsMode::kProcessed;
    EXPECT_EQ(sampler.logprobs(view, 0, 2).logprob, kNever);
}

TEST(Sampler, DrawDependsOnNothingButTheRow) {
    OwnedRow row = random_row(77);
    row.params.banned_token_ids.clear();
    row.mask.clear();
    const int64_t vocab = static_cast<int64_t>(row.logits.size());
    Sampler fresh(vocab);
    const int32_t first = fresh.draw(row.view()).value();
    const float logprob = fresh.logprobs(row.view(), first, 0).logprob;
    Sampler used(vocab);
    for (uint64_t seed = 1; seed < 3000; ++seed) {
        OwnedRow other = random_row(seed);
        if (static_cast<int64_t>(other.logits.size()) != vocab) {
            continue;
        }
        DraftDistribution distribution;
        (void)used.draw_draft(other.view(), distribution);
        (void)used.check_draft(other.view(), 1, distribution);
        ASSERT_EQ(used.draw(row.view()).value(), first);
        ASSERT_EQ(used.logprobs(row.view(), first, 0).logprob, logprob);
    }
}

TEST(Sampler, HugeLogitsAndExtremeTemperaturesStayNumbers) {
    const float huge = std::numeric_limits<float>::max();
    for (const double temperature : {0.0, 1e-7, 1e-5, 1.0, 1e30, 1e300}) {
        for (const double top_p : {1.0, 0.5}) {
            OwnedRow row = row_of({-huge, huge, 0.0F, huge}, temperature);
            row.params.top_p = top_p;
            row.params.min_p = 0.5;
            row.params.logit_bias = {{.token_id = 1, .bias = 100.0F}};
            row.params.repetition_penalty = 1e-300;
            row.prompt = {3};
            for (const LogprobsMode mode : {LogprobsMode::kRaw, LogprobsMode::kProcessed}) {
                row.params.logprobs_mode = mode;
                Sampler sampler(4);
                const auto token = sampler.draw(row.view());
                ASSERT_TRUE(token);
                EXPECT_FALSE(std::isnan(sampler.logprobs(row.view(), *token, 0).logprob));
                if (temperature <= 1e-5) {
                    EXPECT_EQ(*token, 1);
                }
            }
        }
    }
}

TEST(Sampler, LogitsThatAreNoNumbersAreAnErrorOfTheirRow) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), kNever}) {
        for (size_t place = 0; place < 130; ++place) {
            OwnedRow row = row_of(std::vector<float>(130, 0.5F));
            row.logits[place] = bad;
            row.prompt.resize(12);
            Sampler sampler(130);
            for (row.params.temperature = 0.0; row.params.temperature < 2.0; row.params.temperature += 1.0) {
                for (const int32_t forced : {-1, 3}) {
                    SampleRow view = row.view();
                    view.forced_id = forced;
                    const auto token = sampler.draw(view);
                    ASSERT_FALSE(token);
                    EXPECT_NE(token.error().text.find(fmt::format("logit of token {} at position 12", place)),
                              std::string::npos)
                        << token.error().text;
                }
            }
            EXPECT_FALSE(sampler.prompt_logprobs(row.logits, 3, 0, 1));
            OwnedRow next = row_of(std::vector<float>(130, 0.5F));
            EXPECT_TRUE(sampler.draw(next.view()));
        }
    }
}

TEST(Sampler, DraftsComeFromTheRenormalisedBestOfTheRow) {
    SeededRandom random(3);
    OwnedRow row = row_of(random_logits(random, 400, 6.0, false), 0.9);
    row.params.banned_token_ids = {5};
    Sampler sampler(400);
    ReferenceRow reference = reference_row(row);
    reference.kept = DraftDistribution::kTokensMax;
    const std::vector<double> wanted = reference_distribution(reference);
    std::vector<int64_t> seen(400, 0);
    DraftDistribution distribution;
    SampleRow view = row.view();
    for (view.index = 0; view.index < 20000; ++view.index) {
        const int32_t id = sampler.draw_draft(view, distribution).value();
        ++seen[static_cast<size_t>(id)];
        if (view.index < 200) {
            ASSERT_EQ(id, reference_draw(reference, view, RandomUse::kDraft));
        }
    }
    EXPECT_LT(chi_square_deviation(seen, wanted), 4.0);
    ASSERT_EQ(distribution.count, DraftDistribution::kTokensMax);
    for (int32_t id = 0; id < 400; ++id) {
        EXPECT_NEAR(distribution.probability(id), wanted[static_cast<size_t>(id)], 1e-6);
    }
    row.params.top_k = 3;
    (void)sampler.draw_draft(row.view(), distribution);
    EXPECT_EQ(distribution.count, 3);
    row.params.temperature = 0.0;
    EXPECT_EQ(sampler.draw_draft(row.view(), distribution).value(), reference.order[0]);
    EXPECT_EQ(distribution.count, 1);
}

TEST(Sampler, SamplesOfOneRequestHaveSeedsOfTheirOwn) {
    std::set<uint64_t> seeds;
    for (int32_t i = 0; i < kSamplesMax; ++i) {
        seeds.insert(sample_seed(7, i));
        EXPECT_EQ(sample_seed(7, i), sample_seed(7, i));
    }
    EXPECT_EQ(seeds.size(), static_cast<size_t>(kSamplesMax));
    EXPECT_EQ(sample_seed(7, 0), 7U);
    EXPECT_EQ(sample_seed(7, 3), sample_seed(10, 0));  // one sample alone answers the same
    // Four samples of one prompt, twelve tokens each: all different, and the same again.
    std::set<std::vector<int32_t>> answers;
    for (int32_t repeat = 0; repeat < 2; ++repeat) {
        for (int32_t i = 0; i < 4; ++i) {
            OwnedRow row = row_of(std::vector<float>(50, 0.0F), 0.8);
            row.seed = sample_seed(7, i);
            std::vector<int32_t> answer;
            for (; row.output.size() < 12; row.output.push_back(answer.back())) {
                answer.push_back(draw(row));
            }
            answers.insert(answer);
        }
        EXPECT_EQ(answers.size(), 4U);
    }
}

}  // namespace
}  // namespace di
