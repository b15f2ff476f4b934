#include "engine/logit_filters.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "engine/sampler_reference.h"

namespace di {
namespace {

// The ids that bans and filters leave, likeliest first: those of the processed distribution.
std::vector<int32_t> kept_ids(Sampler& sampler, OwnedRow row) {
    row.params.logprobs_mode = LogprobsMode::kProcessed;
    std::vector<int32_t> ids;
    for (const TokenLogprob& entry : sampler.logprobs(row.view(), 0, static_cast<int32_t>(row.logits.size())).top) {
        ids.push_back(entry.token_id);
    }
    return ids;
}

TEST(LogitFilters, TiesAtTheEdgeOfAFilterTakeTheLowerId) {
    Sampler sampler(5);
    OwnedRow row = row_of({0.0F, 1.0F, 1.0F, 1.0F, 0.0F});
    row.params.top_k = 2;
    EXPECT_EQ(kept_ids(sampler, row), (std::vector<int32_t>{1, 2}));
    row.params.top_k = 0;
    row.params.top_p = 0.3;  // one of the three holds 0.267
    EXPECT_EQ(kept_ids(sampler, row), (std::vector<int32_t>{1, 2}));
    row.params.top_p = 1.0;
    row.params.min_p = 0.5;  // the others hold 1 / e of the likeliest
    EXPECT_EQ(kept_ids(sampler, row), (std::vector<int32_t>{1, 2, 3}));
}

TEST(LogitFilters, FiltersAreOfTheFullDistributionAndIntersected) {
    // Probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625.
    std::vector<float> logits;
    for (const double p : {0.5, 0.25, 0.125, 0.0625, 0.0625}) {
        logits.push_back(static_cast<float>(std::log(p)));
    }
    Sampler sampler(5);
    OwnedRow row = row_of(logits);
    row.params.top_p = 0.8;  // of what top_k leaves it would be two
    row.params.top_k = 3;
    EXPECT_EQ(kept_ids(sampler, row), (std::vector<int32_t>{0, 1, 2}));
    row.params.top_k = 2;
    EXPECT_EQ(kept_ids(sampler, row), (std::vector<int32_t>{0, 1}));
    row.params.top_k = -1;
    row.params.min_p = 0.3;
    EXPECT_EQ(kept_ids(sampler, row), (std::vector<int32_t>{0, 1}));
    row.params.top_p = 1e-9;
    EXPECT_EQ(kept_ids(sampler, row), (std::vector<int32_t>{0}));
}

TEST(LogitFilters, FlatLargeRowsAreCutWhereTheMassSays) {
    Sampler sampler(20000);
    OwnedRow row = row_of(std::vector<float>(20000, 0.25F));
    row.params.top_p = 0.75;
    const std::vector<int32_t> kept = kept_ids(sampler, row);
    ASSERT_EQ(kept.size(), 15000U);
    EXPECT_EQ(kept.back(), 14999);
    row.params.top_k = 5000;
    EXPECT_EQ(kept_ids(sampler, row).size(), 5000U);
}

TEST(LogitFilters, LargeRowsAreCutAtTheTokenOfTheDefinition) {
    Sampler sampler(20000);
    int64_t compared = 0;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        SeededRandom random(seed);
        constexpr double kWidths[] = {0.01, 0.5, 5.0, 25.0};
        OwnedRow row =
            row_of(random_logits(random, 20000, kWidths[seed % 4], seed % 7 == 0), 0.5 + 0.25 * static_cast<double>(seed % 5));
        row.params.top_p = 0.3 + 0.01 * static_cast<double>(random.below(70));
        row.mask.assign(625, seed % 3 == 0 ? 0x7FFFFFFFU : 0xFFFFFFFFU);
        const ReferenceRow wanted = reference_row(row);
        if (!wanted.is_on_edge) {
            ++compared;
            const std::vector<int32_t> kept = kept_ids(sampler, row);
            ASSERT_EQ(kept.size(), wanted.kept);
            EXPECT_EQ(kept.back(), wanted.order[wanted.kept - 1]);
        }
    }
    EXPECT_GT(compared, 20);
}

}  // namespace
}  // namespace di
