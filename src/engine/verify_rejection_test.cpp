#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "engine/sampler_reference.h"
#include "engine/verify.h"

namespace di {
namespace {

constexpr int32_t kVocab = 40;

// Counts of (token before, token) for every output place against the chain's own probabilities.
void expect_lossless(const SamplingParams& params, int32_t drafts, int64_t vocab, double width) {
    constexpr int32_t kTokens = 4;
    constexpr int64_t kSeeds = 20000;
    const auto cells = static_cast<size_t>(vocab * vocab);
    const auto rows_of = [&](uint64_t model) {  // the same at every place, so that the chain can be computed
        std::vector<std::vector<float>> rows;
        for (int32_t token = 0; token < vocab; ++token) {
            rows.push_back(model_row(model, token, 0, vocab, width));
        }
        return rows;
    };
    const auto target_rows = rows_of(11);
    const auto draft_rows = rows_of(12);
    std::vector<std::vector<int64_t>> seen(kTokens, std::vector<int64_t>(cells, 0));
    Sampler sampler(vocab);
    std::vector<float> logits;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
        std::vector<int32_t> tokens{0};
        while (static_cast<int32_t>(tokens.size()) <= kTokens) {
            std::vector<int32_t> ids;
            std::vector<DraftDistribution> distributions(static_cast<size_t>(drafts));
            logits = target_rows[static_cast<size_t>(tokens.back())];
            for (int32_t t = 0; t < drafts; ++t) {
                const SampleRow row{.logits = draft_rows[static_cast<size_t>(t == 0 ? tokens.back() : ids.back())],
                                    .params = &params,
                                    .seed = seed,
                                    .index = static_cast<int64_t>(tokens.size()) + t};
                ids.push_back(draw_draft(sampler, VerifyMode::kRejection, row, distributions[static_cast<size_t>(t)]).value());
                const auto& next = target_rows[static_cast<size_t>(ids.back())];
                logits.insert(logits.end(), next.begin(), next.end());
            }
            const VerifyResult result = verify(sampler, VerifyMode::kRejection,
                                               {.params = &params,
                                                .seed = seed,
                                                .prompt_length = 1,
                                                .output_length = static_cast<int32_t>(tokens.size()) - 1,
                                                .length_max = 100,
                                                .logits = logits,
                                                .drafts = ids,
                                                .draft_distributions = distributions});
            ASSERT_FALSE(result.error);
            tokens.insert(tokens.end(), result.tokens.begin(), result.tokens.end());
        }
        for (size_t place = 0; place < kTokens; ++place) {
            ++seen[place][static_cast<size_t>(tokens[place] * vocab + tokens[place + 1])];
        }
    }
    std::vector<double> before(static_cast<size_t>(vocab), 0.0);
    before[0] = 1.0;
    for (size_t place = 0; place < kTokens; ++place) {
        std::vector<double> wanted(cells, 0.0);
        std::vector<double> behind(static_cast<size_t>(vocab), 0.0);
        for (size_t token = 0; token < static_cast<size_t>(vocab); ++token) {
            OwnedRow row;
            row.logits = target_rows[token];
            row.params = params;
            const std::vector<double> p = reference_distribution(reference_row(row));
            for (size_t next = 0; next < p.size(); ++next) {
                wanted[token * static_cast<size_t>(vocab) + next] = before[token] * p[next];
                behind[next] += before[token] * p[next];
            }
        }
        EXPECT_LT(chi_square_deviation(seen[place], wanted), 4.0) << "place " << place << ", drafts " << drafts;
        before = behind;
    }
}

TEST(VerifyRejection, IsLosslessAtEveryPlace) {
    for (const int32_t drafts : {0, 1, 3}) {
        expect_lossless({}, drafts, 6, 4.0);
    }
}

TEST(VerifyRejection, IsLosslessWhereFiltersKeepOtherTokensThanTheDraftersDo) {
    SamplingParams params;
    params.temperature = 0.8;
    params.top_p = 0.85;
    params.min_p = 0.05;
    expect_lossless(params, 2, 8, 5.0);
}

TEST(VerifyRejection, IsLosslessBeyondTheTokensThatDraftsAreDrawnFrom) { expect_lossless({}, 1, 150, 2.0); }

TEST(VerifyRejection, AcceptsWithTheMassThatBothShare) {
    OwnedRow target;
    target.logits = model_row(21, 0, 0, kVocab, 4.0);
    OwnedRow drafter;
    drafter.logits = model_row(22, 0, 0, kVocab, 4.0);
    double shared = 0.0;
    const std::vector<double> p = reference_distribution(reference_row(target));
    const std::vector<double> q = reference_distribution(reference_row(drafter));
    for (size_t id = 0; id < kVocab; ++id) {
        shared += std::min(p[id], q[id]);
    }
    Sampler sampler(kVocab);
    constexpr int64_t kDraws = 20000;
    int64_t accepted = 0;
    for (int64_t i = 0; i < kDraws; ++i) {
        SampleRow row = drafter.view();
        row.index = i;
        DraftDistribution distribution;
        const int32_t draft = sampler.draw_draft(row, distribution).value();
        row.logits = target.logits;
        accepted += sampler.check_draft(row, draft, distribution).value().is_accepted ? 1 : 0;
    }
    const double deviation = std::sqrt(shared * (1.0 - shared) / kDraws);
    EXPECT_NEAR(static_cast<double>(accepted) / kDraws, shared, 4.0 * deviation);
}

TEST(VerifyRejection, ADraftOfNoDistributionIsRefusedAndTheTokenIsTheTargetsDraw) {
    OwnedRow target;
    target.logits = model_row(31, 0, 0, kVocab);
    Sampler sampler(kVocab);
    const DraftDistribution distribution{.count = 1, .token_ids = {7}, .probabilities = {1.0F}};
    for (uint64_t seed = 0; seed < 200; ++seed) {
        target.seed = seed;
        for (const int32_t draft : {-1, 9}) {
            const DraftVerdict verdict = sampler.check_draft(target.view(), draft, distribution).value();
            EXPECT_FALSE(verdict.is_accepted);
            EXPECT_EQ(verdict.token_id, sampler.draw(target.view()).value());
        }
    }
}

TEST(VerifyRejection, ZeroTemperatureAcceptsTheArgMaxOnlyAndUsesNoRandomNumber) {
    OwnedRow target;
    target.logits = {1.0F, 4.0F, 4.0F, 0.0F};
    target.params.temperature = 0.0;
    Sampler sampler(4);
    const DraftDistribution distribution{.count = 1, .token_ids = {2}, .probabilities = {1.0F}};
    for (target.seed = 0; target.seed < 50; ++target.seed) {
        EXPECT_TRUE(sampler.check_draft(target.view(), 1, {}).value().is_accepted);
        const DraftVerdict verdict = sampler.check_draft(target.view(), 2, distribution).value();
        EXPECT_FALSE(verdict.is_accepted);
        EXPECT_EQ(verdict.token_id, 1);
    }
}

}  // namespace
}  // namespace di
