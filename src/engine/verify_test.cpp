#include "engine/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "engine/sampler_reference.h"

namespace di {
namespace {

constexpr int32_t kVocab = 40;

struct Answer {
    std::vector<int32_t> tokens;
    std::vector<float> logprobs;
    std::vector<std::vector<TokenLogprob>> top_logprobs;
    FinishReason finish = FinishReason::kNone;
    int64_t drafted = 0;
    int64_t accepted = 0;
};

struct RunOptions {
    VerifyMode mode = VerifyMode::kExact;
    int32_t drafts = 0;
    bool draws_drafts = true;  // false: any ids, right ones among them
    uint64_t draft_model = 1;
};

// One request from its prompt to its end; `row` holds request, prompt and end ids.
class DraftedRun {
  public:
    DraftedRun(OwnedRow row, RunOptions options)
        : row_(std::move(row)), options_(options), sampler_(kVocab), history_(row_.params, row_.prompt, kVocab) {}

    Answer run() {
        while (answer_.finish == FinishReason::kNone) {
            step();
        }
        return std::move(answer_);
    }

  private:
    void step() {
        const auto index = static_cast<int64_t>(row_.prompt.size() + answer_.tokens.size());
        const int32_t last = answer_.tokens.empty() ? row_.prompt.back() : answer_.tokens.back();
        make_drafts(last, index);
        std::vector<float> logits;
        for (size_t t = 0; t <= drafts_.size(); ++t) {
            const std::vector<float> values =
                model_row(1, t == 0 ? last : drafts_[t - 1], index + static_cast<int64_t>(t), kVocab);
            logits.insert(logits.end(), values.begin(), values.end());
        }
        const VerifyResult result = verify(sampler_, options_.mode,
                                           {.params = &row_.params,
                                            .seed = row_.seed,
                                            .end_token_ids = row_.end_token_ids,
                                            .prompt_length = static_cast<int32_t>(row_.prompt.size()),
                                            .output_length = static_cast<int32_t>(answer_.tokens.size()),
                                            .length_max = static_cast<int32_t>(row_.prompt.size()) + row_.params.max_tokens,
                                            .history = &history_,
                                            .logits = logits,
                                            .drafts = drafts_,
                                            .draft_distributions = distributions_});
        ASSERT_FALSE(result.error);
        ASSERT_LE(static_cast<size_t>(result.accepted_drafts), result.tokens.size());
        answer_.tokens.insert(answer_.tokens.end(), result.tokens.begin(), result.tokens.end());
        answer_.logprobs.insert(answer_.logprobs.end(), result.logprobs.begin(), result.logprobs.end());
        answer_.top_logprobs.insert(answer_.top_logprobs.end(), result.top_logprobs.begin(), result.top_logprobs.end());
        answer_.finish = result.finish;
        answer_.drafted += static_cast<int64_t>(drafts_.size());
        answer_.accepted += result.accepted_drafts;
    }

    void make_drafts(int32_t last, int64_t index) {
        drafts_.clear();
        distributions_.assign(static_cast<size_t>(options_.drafts), {});
        for (int32_t t = 0; t < options_.drafts; ++t) {
            const int32_t previous = t == 0 ? last : drafts_.back();
            const std::vector<float> logits = model_row(options_.draft_model, previous, index + t, kVocab);
            SampleRow row = row_.view();
            row.logits = logits;
            row.index = index + t;
            row.history = &history_;
            drafts_.push_back(options_.draws_drafts
                                  ? draw_draft(sampler_, options_.mode, row, distributions_[static_cast<size_t>(t)]).value()
                                  : static_cast<int32_t>((index * 7 + t) % kVocab));
            history_.push(drafts_.back());
        }
        history_.pop(options_.drafts);
    }

    OwnedRow row_;
    RunOptions options_;
    Sampler sampler_;
    TokenHistory history_;
    std::vector<int32_t> drafts_;
    std::vector<DraftDistribution> distributions_;
    Answer answer_;
};

OwnedRow random_request(uint64_t seed) {
    SeededRandom random(seed);
    const auto one_in = [&random](int64_t n) { return random.below(n) == 0; };
    OwnedRow row;
    row.logits.resize(kVocab);
    row.seed = random.next();
    row.prompt = {static_cast<int32_t>(random.below(kVocab)), static_cast<int32_t>(random.below(kVocab))};
    row.end_token_ids = {3};
    row.params.temperature = one_in(4) ? 0.0 : 0.3 * static_cast<double>(1 + random.below(6));
    row.params.top_p = one_in(2) ? 0.9 : 1.0;
    row.params.top_k = one_in(3) ? 10 : -1;
    row.params.max_tokens = static_cast<int32_t>(1 + random.below(40));
    row.params.min_tokens = static_cast<int32_t>(random.below(row.params.max_tokens + 1));
    row.params.repetition_penalty = one_in(3) ? 1.3 : 1.0;
    row.params.frequency_penalty = one_in(3) ? 0.4 : 0.0;
    row.params.logprobs = true;
    row.params.top_logprobs = static_cast<int32_t>(random.below(4));
    row.params.logprobs_mode = one_in(2) ? LogprobsMode::kRaw : LogprobsMode::kProcessed;
    if (one_in(3)) {
        row.params.golden_token_ids = {-1, 8, 9, -1, -1, 4};
    }
    return row;
}

void expect_same(const Answer& left, const Answer& right) {
    ASSERT_EQ(left.tokens, right.tokens);
    ASSERT_EQ(left.finish, right.finish);
    ASSERT_EQ(left.logprobs.size(), right.logprobs.size());
    ASSERT_EQ(std::memcmp(left.logprobs.data(), right.logprobs.data(), left.logprobs.size() * sizeof(float)), 0);
    ASSERT_EQ(left.top_logprobs.size(), right.top_logprobs.size());
    for (size_t i = 0; i < left.top_logprobs.size(); ++i) {
        ASSERT_EQ(left.top_logprobs[i].size(), right.top_logprobs[i].size());
        for (size_t rank = 0; rank < left.top_logprobs[i].size(); ++rank) {
            ASSERT_EQ(left.top_logprobs[i][rank].token_id, right.top_logprobs[i][rank].token_id);
            ASSERT_EQ(left.top_logprobs[i][rank].logprob, right.top_logprobs[i][rank].logprob);
        }
    }
}

TEST(VerifyExact, TokensAndLogprobsDoNotDependOnDrafts) {
    int64_t accepted = 0;
    int64_t refused = 0;
    for (uint64_t seed = 1; seed <= 300; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const OwnedRow request = random_request(seed);
        const Answer plain = DraftedRun(request, {}).run();
        EXPECT_EQ(plain.tokens.size(), plain.logprobs.size());
        for (const int32_t drafts : {1, 2, 5, 9}) {
            for (const uint64_t draft_model : {1U, 2U}) {
                const Answer drafted = DraftedRun(request, {.drafts = drafts, .draft_model = draft_model}).run();
                expect_same(plain, drafted);
                accepted += drafted.accepted;
                refused += drafted.drafted - drafted.accepted;
            }
            expect_same(plain, DraftedRun(request, {.drafts = drafts, .draws_drafts = false}).run());
        }
    }
    EXPECT_GT(accepted, 1000);
    EXPECT_GT(refused, 1000);
}

TEST(VerifyExact, ADrafterThatIsTheTargetIsAlwaysRight) {
    OwnedRow request = random_request(5);
    request.params = {};
    request.params.max_tokens = 60;
    request.end_token_ids.clear();
    const Answer answer = DraftedRun(request, {.drafts = 5}).run();  // shared noise: ten rounds of six tokens
    EXPECT_EQ(answer.tokens.size(), 60U);
    EXPECT_EQ(answer.accepted, 50);
}

TEST(VerifyExact, SharedNoiseAcceptsAboutAsManyAsTheRejectionRule) {
    // Per position: rejection accepts sum min(p, q); independent draws would agree with sum p q.
    int64_t equal = 0;
    double by_rejection = 0.0;
    double by_chance = 0.0;
    Sampler sampler(kVocab);
    constexpr int64_t kRows = 4000;
    for (int64_t i = 0; i < kRows; ++i) {
        OwnedRow target;
        target.logits = model_row(3, 0, i, kVocab);
        OwnedRow drafter = target;
        const std::vector<float> shift = model_row(4, 0, i, kVocab, 2.0);
        std::transform(shift.begin(), shift.end(), target.logits.begin(), drafter.logits.begin(), std::plus<>());
        SampleRow target_row = target.view();
        SampleRow draft_row = drafter.view();
        target_row.index = draft_row.index = i;
        equal += sampler.draw(target_row).value() == sampler.draw(draft_row).value() ? 1 : 0;
        const std::vector<double> p = reference_distribution(reference_row(target));
        const std::vector<double> q = reference_distribution(reference_row(drafter));
        for (size_t id = 0; id < kVocab; ++id) {
            by_rejection += std::min(p[id], q[id]);
            by_chance += p[id] * q[id];
        }
    }
    EXPECT_GT(static_cast<double>(equal), 0.9 * by_rejection);
    EXPECT_LT(by_chance, 0.6 * by_rejection);
}

// --- both --------------------------------------------------------------------------

// Three drafts of a request at temperature 0 whose rows want 5, 6, 7, 8.
class VerifyRows : public testing::TestWithParam<VerifyMode> {
  protected:
    VerifyRows() : sampler_(kVocab), logits_(4 * kVocab, 0.0F), distributions_(3) {
        params_.temperature = 0.0;
        for (size_t t = 0; t < 4; ++t) {
            logits_[t * kVocab + 5 + t] = 3.0F;
        }
        args_.params = &params_;
        args_.prompt_length = 10;
        args_.length_max = 100;
        args_.logits = logits_;
        args_.drafts = drafts_;
        args_.draft_distributions = distributions_;
    }

    VerifyResult run() { return verify(sampler_, GetParam(), args_); }

    Sampler sampler_;
    SamplingParams params_;
    std::vector<float> logits_;
    std::vector<int32_t> drafts_{5, 6, 7};
    std::vector<DraftDistribution> distributions_;
    VerifyArgs args_;
};

INSTANTIATE_TEST_SUITE_P(Modes, VerifyRows, testing::Values(VerifyMode::kExact, VerifyMode::kRejection),
                         [](const testing::TestParamInfo<VerifyMode>& mode) {
                             return mode.param == VerifyMode::kExact ? "Exact" : "Rejection";
                         });

TEST_P(VerifyRows, RightDraftsGiveOneTokenMore) {
    const VerifyResult result = run();
    EXPECT_EQ(result.tokens, (std::vector<int32_t>{5, 6, 7, 8}));
    EXPECT_EQ(result.accepted_drafts, 3);
    EXPECT_EQ(result.finish, FinishReason::kNone);
    EXPECT_TRUE(result.logprobs.empty());  // nobody asked
}

TEST_P(VerifyRows, AWrongDraftEndsTheRound) {
    drafts_[1] = 9;
    logits_[2 * kVocab] = std::numeric_limits<float>::quiet_NaN();  // behind it nothing is looked at
    const VerifyResult result = run();
    EXPECT_EQ(result.tokens, (std::vector<int32_t>{5, 6}));
    EXPECT_EQ(result.accepted_drafts, 1);
    EXPECT_FALSE(result.error);
}

TEST_P(VerifyRows, NothingIsTakenBehindAnEndToken) {
    const std::vector<int32_t> ends{6};
    args_.end_token_ids = ends;
    const VerifyResult result = run();
    EXPECT_EQ(result.tokens, (std::vector<int32_t>{5, 6}));
    EXPECT_EQ(result.accepted_drafts, 2);
    EXPECT_EQ(result.finish, FinishReason::kStop);
}

TEST_P(VerifyRows, EndTokensAreBannedRowByRowBeforeMinTokens) {
    const std::vector<int32_t> ends{6, 7};
    args_.end_token_ids = ends;
    args_.output_length = 1;
    params_.min_tokens = 3;  // rows 0 and 1 may not end, row 2 may
    logits_[1 * kVocab + 8] = 2.0F;
    drafts_[1] = 8;
    const VerifyResult result = run();
    EXPECT_EQ(result.tokens, (std::vector<int32_t>{5, 8, 7}));
    EXPECT_EQ(result.finish, FinishReason::kStop);
}

TEST_P(VerifyRows, NothingIsTakenBehindTheLengthLimit) {
    args_.output_length = 4;
    args_.length_max = 16;
    const VerifyResult result = run();
    EXPECT_EQ(result.tokens, (std::vector<int32_t>{5, 6}));
    EXPECT_EQ(result.finish, FinishReason::kLength);
    const std::vector<int32_t> ends{6};
    args_.end_token_ids = ends;  // both at once: it stopped by itself
    EXPECT_EQ(run().finish, FinishReason::kStop);
}

TEST_P(VerifyRows, ForcedTokensDecideAboutDrafts) {
    params_.golden_token_ids = {-1, -1, 5, 30, -1};
    args_.output_length = 2;
    const VerifyResult result = run();
    EXPECT_EQ(result.tokens, (std::vector<int32_t>{5, 30}));
    EXPECT_EQ(result.accepted_drafts, 1);
    params_.golden_token_ids = {-1, -1, 5, 6, 7, 20};
    EXPECT_EQ(run().tokens, (std::vector<int32_t>{5, 6, 7, 20}));
}

TEST_P(VerifyRows, ARowOfNoNumbersIsAnErrorBehindTheTokensBeforeIt) {
    logits_[1 * kVocab + 33] = std::numeric_limits<float>::quiet_NaN();
    const VerifyResult result = run();
    EXPECT_EQ(result.tokens, (std::vector<int32_t>{5}));
    EXPECT_EQ(result.finish, FinishReason::kError);
    ASSERT_TRUE(result.error);
    EXPECT_NE(result.error->text.find("logit of token 33 at position 11"), std::string::npos) << result.error->text;
}

TEST_P(VerifyRows, MasksHoldForTheirOwnRowOnly) {
    constexpr size_t kWords = (kVocab + 31) / 32;
    std::vector<uint32_t> masks(4 * kWords, 0U);
    const std::vector<uint8_t> has_mask{0, 1, 0, 1};
    masks[1 * kWords] = 1U << 20;
    args_.masks = masks;
    args_.has_mask = has_mask;
    const VerifyResult refused = run();
    EXPECT_EQ(refused.tokens, (std::vector<int32_t>{5, 20}));
    masks[1 * kWords] |= 1U << 6;
    const VerifyResult dead = run();  // the mask of the last row allows nothing
    EXPECT_EQ(dead.tokens, (std::vector<int32_t>{5, 6, 7}));
    EXPECT_EQ(dead.finish, FinishReason::kError);
    masks[3 * kWords + 1] = 1U << 4;
    EXPECT_EQ(run().tokens, (std::vector<int32_t>{5, 6, 7, 36}));
}

TEST_P(VerifyRows, PenaltiesCountTheDraftsAcceptedInTheSameStep) {
    params_.presence_penalty = 2.0;
    for (size_t t = 1; t < 4; ++t) {  // every row likes 5 a little more than its own token
        logits_[t * kVocab + 5] = 3.5F;
    }
    TokenHistory history(params_, std::vector<int32_t>{5}, kVocab);
    args_.history = &history;
    const VerifyResult result = run();
    EXPECT_EQ(result.tokens, (std::vector<int32_t>{5, 6, 7, 8}));
    EXPECT_EQ(history.output_count(7), 1U);
    EXPECT_EQ(history.token_ids().size(), 4U);
}

TEST_P(VerifyRows, LogprobsComeOneATokenWhenAskedFor) {
    params_.top_logprobs = 2;
    drafts_[2] = 0;
    const VerifyResult result = run();
    EXPECT_EQ(result.tokens, (std::vector<int32_t>{5, 6, 7}));
    ASSERT_EQ(result.logprobs.size(), 3U);
    ASSERT_EQ(result.top_logprobs.size(), 3U);
    for (size_t t = 0; t < 3; ++t) {
        ASSERT_EQ(result.top_logprobs[t].size(), 2U);
        EXPECT_EQ(result.top_logprobs[t][0].token_id, result.tokens[t]);
        EXPECT_EQ(result.top_logprobs[t][0].logprob, result.logprobs[t]);
        EXPECT_EQ(result.top_logprobs[t][1].token_id, 0);
    }
}

}  // namespace
}  // namespace di
