#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/logit_edits.h"
#include "engine/logit_filters.h"
#include "engine/logit_scan.h"
#include "engine/philox.h"
#include "engine/sample_row.h"

namespace di {

// Log-probability of a token and the likeliest tokens of the same row.
struct TokenLogprobs {
    float logprob = 0.0F;
    std::vector<TokenLogprob> top;  // likeliest first, lower id first among equals
};

// What a draft was drawn from in rejection mode: the likeliest tokens of the drafter's processed row, renormalised.
struct DraftDistribution {
    static constexpr int32_t kTokensMax = 64;

    int32_t count = 0;
    std::array<int32_t, kTokensMax> token_ids{};
    std::array<float, kTokensMax> probabilities{};  // sum 1

    [[nodiscard]] float probability(int32_t token_id) const;  // 0 for what is not held
};

// A draft after its test against the target's row.
struct DraftVerdict {
    int32_t token_id = 0;  // the draft, or what stands in its place
    bool is_accepted = false;
};

// Draws tokens. The rules of one row, in this order:
//   1. edits: bans, bias, penalties, mask (logit_edits.h)
//   2. temperature < kGreedyTemperature: the largest value, lowest id on ties; no filter and no random number
//   3. filters, all on the full softmax of value / temperature, none renormalised for the next; a token stays if all of
//      them keep it: min_p, top_p, top_k (logit_filters.h). Weights of the softmax: logit_scan.h
//   4. draw: the largest of value / temperature + Gumbel noise in float, lowest id on ties. The noise of a token depends on
//      seed, index and id only (philox.h)
// A forced id is taken whatever the rules say. Everything is a function of the row: no call changes another.
// Holds scratch memory only; one thread.
class Sampler {
  public:
    explicit Sampler(int64_t vocab_size);

    [[nodiscard]] int64_t vocab_size() const { return vocab_size_; }

    // Fails when a logit is not finite, or when no token may come.
    [[nodiscard]] Result<int32_t> draw(const SampleRow& row);

    // Draws from the 64 likeliest tokens that the rules leave, renormalised, with noise of its own (kDraft), and says what
    // from. Fails as draw().
    [[nodiscard]] Result<int32_t> draw_draft(const SampleRow& row, DraftDistribution& distribution);

    // The rejection rule: with p of the target's row (after the rules) and q of `distribution`, accepts with probability
    // min(1, p / q), else draws from max(p - q, 0). Tokens that come out follow p. A draft that `distribution` does not hold
    // (or -1: none) is rejected and the token drawn from p. Fails as draw().
    [[nodiscard]] Result<DraftVerdict> check_draft(const SampleRow& row, int32_t draft, const DraftDistribution& distribution);

    // Of a row that draw() took without error; by params->logprobs_mode. kRaw: the softmax of the logits as the model gave
    // them. kProcessed: of what the draw was from; -inf for a token that could not be drawn (a forced one), and `top` holds
    // only tokens that could, so that it may be shorter than `top_count`.
    [[nodiscard]] TokenLogprobs logprobs(const SampleRow& row, int32_t token_id, int32_t top_count);

    // Raw, of a row of the prompt and the prompt token behind it. Fails when a logit is not finite.
    [[nodiscard]] Result<TokenLogprobs> prompt_logprobs(std::span<const float> logits, int64_t index, int32_t token_id,
                                                        int32_t top_count);

  private:
    [[nodiscard]] Status check_finite(std::span<const float> logits, int64_t index);
    [[nodiscard]] Status open(const SampleRow& row);
    void edit(const SampleRow& row);
    void filter(const SamplingParams& params);
    [[nodiscard]] SoftmaxWeights weights() const { return {scan_.largest(), temperature_, vocab_size_}; }
    [[nodiscard]] double kept_weight(const SoftmaxWeights& weights) const;
    [[nodiscard]] int32_t draw_kept(const SampleRow& row, RandomUse use) const;
    [[nodiscard]] int32_t draw_residual(const SampleRow& row, const DraftDistribution& distribution, double total);
    [[nodiscard]] TokenLogprobs raw_logprobs(int32_t token_id, int32_t top_count);
    [[nodiscard]] TokenLogprobs processed_logprobs(int32_t token_id, int32_t top_count);

    int64_t vocab_size_;
    LogitEditor editor_;
    LogitScan scan_;
    LogitFilters filters_;
    std::vector<float> draft_mass_;  // [vocab], all 0 between calls
    // Of the row that is open.
    double temperature_ = 1.0;
    bool is_one_hot_ = false;  // the largest value is the draw
    TokenCut cut_;
};

}  // namespace di
