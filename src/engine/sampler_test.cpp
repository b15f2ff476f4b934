#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/philox.h"

namespace di {
namespace {

std::vector<float> random_logits(uint64_t seed, int64_t count, bool has_ties) {
    SeededRandom random(seed);
    std::vector<float> logits;
    for (int64_t i = 0; i < count; ++i) {
        const float value = static_cast<float>(random.below(1 << 20)) * 0x1p-20F * 12.0F - 6.0F;
        logits.push_back(has_ties ? std::round(value) : value);
    }
    return logits;
}

// The definition, in the plainest words: softmax of what is not banned after temperature, sorted, cut.
std::vector<int32_t> kept_by_definition(const SampleRow& row) {
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < static_cast<int32_t>(row.logits.size()); ++id) {
        if (std::find(row.banned_ids.begin(), row.banned_ids.end(), id) == row.banned_ids.end()) {
            ids.push_back(id);
        }
    }
    std::vector<double> probabilities(row.logits.size(), 0.0);
    double largest = -1e30;
    double total = 0.0;
    for (const int32_t id : ids) {
        largest = std::max(largest, static_cast<double>(row.logits[static_cast<size_t>(id)]));
    }
    for (const int32_t id : ids) {
        const auto at = static_cast<size_t>(id);
        probabilities[at] = std::exp((static_cast<double>(row.logits[at]) - largest) / row.temperature);
        total += probabilities[at];
    }
    std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
        return row.logits[static_cast<size_t>(a)] > row.logits[static_cast<size_t>(b)];
    });
    size_t by_mass = ids.size();
    double mass = 0.0;
    for (size_t rank = 0; rank < ids.size() && row.top_p < 1.0; ++rank) {
        mass += probabilities[static_cast<size_t>(ids[rank])] / total;
        if (mass >= row.top_p) {
            by_mass = rank + 1;
            break;
        }
    }
    const size_t by_count = row.top_k > 0 ? static_cast<size_t>(row.top_k) : ids.size();
    ids.resize(std::min({by_mass, by_count, ids.size()}));
    return ids;
}

TEST(Sampler, ZeroTemperatureIsTheLargestLogitAndTheLowestIdOnTies) {
    const std::vector<float> logits{1.0F, 5.0F, -2.0F, 5.0F, 5.0F, 4.99F};
    Sampler sampler(6);
    for (const double temperature : {0.0, 1e-7, 9.9e-6}) {
        const auto token = sampler.sample({.logits = logits, .temperature = temperature, .top_p = 0.1, .top_k = 1, .seed = 3});
        ASSERT_TRUE(token);
        EXPECT_EQ(token->id, 1);
        EXPECT_TRUE(std::isfinite(token->logprob));
    }
    const std::vector<int32_t> banned{1, 3, 1};
    EXPECT_EQ(sampler.sample({.logits = logits, .temperature = 0.0, .banned_ids = banned})->id, 4);
    EXPECT_EQ(sampler.sample({.logits = logits, .temperature = 0.0})->id, 1);  // bans do not last
}

TEST(Sampler, DrawFollowsTheGumbelRule) {
    const std::vector<float> logits = random_logits(1, 40, false);
    Sampler sampler(40);
    for (int64_t index = 0; index < 200; ++index) {
        int32_t best = -1;
        float best_score = 0.0F;
        for (int32_t id = 0; id < 40; ++id) {  // without pruning
            const auto words =
                philox({.seed = 99, .index = static_cast<uint64_t>(index), .group = static_cast<uint32_t>(id / 4)});
            const float score = logits[static_cast<size_t>(id)] / 0.7F + gumbel_noise(words[static_cast<size_t>(id % 4)]);
            if (best < 0 || score > best_score) {
                best = id;
                best_score = score;
            }
        }
        EXPECT_EQ(sampler.sample({.logits = logits, .temperature = 0.7, .seed = 99, .index = index})->id, best);
    }
}

TEST(Sampler, FrequenciesAreTheSoftmaxAtTheTemperature) {
    const std::vector<float> logits{0.0F, 1.0F, 2.0F, -1.0F, 0.5F, 1.5F, -3.0F, 0.25F};
    constexpr int64_t kDraws = 40000;
    Sampler sampler(8);
    for (const double temperature : {0.5, 1.0, 2.0}) {
        std::vector<double> expected;
        for (const float logit : logits) {
            expected.push_back(std::exp(static_cast<double>(logit) / temperature));
        }
        const double total = std::accumulate(expected.begin(), expected.end(), 0.0);
        std::vector<int64_t> seen(8, 0);
        for (int64_t draw = 0; draw < kDraws; ++draw) {
            const auto token = sampler.sample(
                {.logits = logits, .temperature = temperature, .seed = static_cast<uint64_t>(draw % 7), .index = draw});
            ++seen[static_cast<size_t>(token->id)];
        }
        double chi_square = 0.0;
        for (size_t id = 0; id < 8; ++id) {
            const double wanted = expected[id] / total * static_cast<double>(kDraws);
            chi_square += (static_cast<double>(seen[id]) - wanted) * (static_cast<double>(seen[id]) - wanted) / wanted;
        }
        EXPECT_LT(chi_square, 24.3) << temperature;  // 7 degrees of freedom: exceeded once in a thousand; the seeds are fixed
    }
}

TEST(Sampler, FiltersKeepTheSetOfTheDefinition) {
    int64_t cut_rows = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const int64_t vocab = seed % 3 == 0 ? 700 : 37;
        const std::vector<float> logits = random_logits(seed, vocab, seed % 2 == 0);
        const std::vector<int32_t> banned = seed % 5 == 0 ? std::vector<int32_t>{3, 20} : std::vector<int32_t>{};
        Sampler sampler(vocab);
        for (const double top_p : {1.0, 0.999, 0.9, 0.5, 0.01}) {
            for (const int32_t top_k : {-1, 0, 1, 3, 50, 100000}) {
                const SampleRow row{.logits = logits,
                                    .temperature = 0.4 + 0.4 * static_cast<double>(seed % 6),
                                    .top_p = top_p,
                                    .top_k = top_k,
                                    .banned_ids = banned};
                const auto kept = sampler.kept_ids(row);
                std::vector<int32_t> ids(kept.begin(), kept.end());
                std::vector<int32_t> wanted = kept_by_definition(row);
                if (wanted.size() == static_cast<size_t>(vocab) - banned.size()) {  // nothing was cut: any order
                    std::sort(ids.begin(), ids.end());
                    std::sort(wanted.begin(), wanted.end());
                } else {
                    ++cut_rows;
                }
                ASSERT_EQ(ids, wanted) << top_p << " " << top_k;
            }
        }
    }
    EXPECT_GT(cut_rows, 500);
}

TEST(Sampler, TiesAtTheEdgeOfAFilterTakeTheLowerId) {
    const std::vector<float> logits{0.0F, 1.0F, 1.0F, 1.0F, 0.0F};
    Sampler sampler(5);
    auto kept = sampler.kept_ids({.logits = logits, .top_k = 2});
    EXPECT_EQ(std::vector<int32_t>(kept.begin(), kept.end()), (std::vector<int32_t>{1, 2}));
    kept = sampler.kept_ids({.logits = logits, .top_p = 0.3});  // one of the three holds 0.267
    EXPECT_EQ(std::vector<int32_t>(kept.begin(), kept.end()), (std::vector<int32_t>{1, 2}));
}

TEST(Sampler, NothingOutsideTheKeptSetIsDrawn) {
    const std::vector<float> logits = random_logits(4, 50, false);
    Sampler sampler(50);
    for (int64_t index = 0; index < 2000; ++index) {
        const SampleRow row{.logits = logits, .temperature = 3.0, .top_p = 0.6, .top_k = 12, .seed = 1, .index = index};
        const std::vector<int32_t> wanted = kept_by_definition(row);
        EXPECT_NE(std::find(wanted.begin(), wanted.end(), sampler.sample(row)->id), wanted.end());
    }
}

TEST(Sampler, LogprobIsThatOfTheModelWhateverTheSampling) {
    const std::vector<float> logits = random_logits(5, 30, false);
    double sum = 0.0;
    for (const float logit : logits) {
        sum += std::exp(static_cast<double>(logit));
    }
    Sampler sampler(30);
    const std::vector<int32_t> banned{1, 2, 3};
    for (int64_t index = 0; index < 20; ++index) {
        const auto token = sampler.sample(
            {.logits = logits, .temperature = 2.5, .top_p = 0.9, .top_k = 20, .seed = 8, .index = index, .banned_ids = banned});
        EXPECT_NEAR(token->logprob, static_cast<double>(logits[static_cast<size_t>(token->id)]) - std::log(sum), 1e-5);
    }
}

TEST(Sampler, ForcedTokenIsTakenEvenIfBanned) {
    const std::vector<float> logits{0.0F, 9.0F};
    const std::vector<int32_t> banned{0, 1};
    Sampler sampler(2);
    const auto token = sampler.sample({.logits = logits, .banned_ids = banned, .forced_id = 0});
    ASSERT_TRUE(token);
    EXPECT_EQ(token->id, 0);
    EXPECT_NEAR(token->logprob, -9.0, 1e-3);
    EXPECT_FALSE(sampler.sample({.logits = logits, .banned_ids = banned}));
}

TEST(Sampler, DrawDependsOnNothingButTheRow) {
    const std::vector<float> logits = random_logits(6, 300, true);
    const std::vector<float> others = random_logits(7, 300, false);
    const SampleRow row{.logits = logits, .temperature = 0.9, .top_p = 0.95, .top_k = 40, .seed = 42, .index = 17};
    Sampler fresh(300);
    const SampledToken first = *fresh.sample(row);
    Sampler used(300);
    const std::vector<int32_t> banned{5, 6, 7};
    for (int64_t i = 0; i < 50; ++i) {
        (void)used.sample({.logits = others, .temperature = 1.3, .top_p = 0.5, .seed = 9, .index = i, .banned_ids = banned});
        const SampledToken again = *used.sample(row);
        EXPECT_EQ(again.id, first.id);
        EXPECT_EQ(again.logprob, first.logprob);
    }
}

TEST(Sampler, HugeLogitsAndExtremeTemperaturesStayNumbers) {
    const float huge = std::numeric_limits<float>::max();
    const std::vector<float> logits{-huge, huge, 0.0F, huge};
    Sampler sampler(4);
    for (const double temperature : {0.0, 1e-7, 1e-5, 1.0, 1e30, 1e300}) {
        for (const double top_p : {1.0, 0.5}) {
            const auto token =
                sampler.sample({.logits = logits, .temperature = temperature, .top_p = top_p, .seed = 1, .index = 2});
            ASSERT_TRUE(token);
            EXPECT_FALSE(std::isnan(token->logprob));
            if (temperature <= 1e-5) {
                EXPECT_EQ(token->id, 1);
            }
        }
    }
}

TEST(Sampler, LogitsThatAreNoNumbersAreAnError) {
    Sampler sampler(3);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
        const std::vector<float> logits{0.0F, 1.0F, bad};
        for (const double temperature : {0.0, 1.0}) {
            const auto token = sampler.sample({.logits = logits, .temperature = temperature, .index = 12});
            ASSERT_FALSE(token);
            EXPECT_NE(token.error().text.find("logit of token 2 at position 12"), std::string::npos) << token.error().text;
        }
    }
}

}  // namespace
}  // namespace di
