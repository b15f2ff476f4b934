#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "engine/gumbel_search.h"
#include "engine/limits.h"

namespace di {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

float uniform(const SampleRow& row) {
    const auto words =
        philox({.seed = row.seed, .index = static_cast<uint64_t>(row.index), .use = RandomUse::kAccept, .group = 0});
    return static_cast<float>(words[0] >> 8) * 0x1p-24F;
}

}  // namespace

float DraftDistribution::probability(int32_t token_id) const {
    const auto end = token_ids.begin() + count;
    const auto at = std::find(token_ids.begin(), end, token_id);
    return at == end ? 0.0F : probabilities[static_cast<size_t>(at - token_ids.begin())];
}

Sampler::Sampler(int64_t vocab_size)
    : vocab_size_(vocab_size),
      editor_(vocab_size),
      scan_(vocab_size),
      filters_(vocab_size),
      draft_mass_(static_cast<size_t>(vocab_size), 0.0F) {}

// --- draws -----------------------------------------------------------------------

Result<int32_t> Sampler::draw(const SampleRow& row) {
    if (row.forced_id >= 0) {
        DI_TRY_STATUS(check_finite(row.logits, row.index));
        return row.forced_id;
    }
    DI_TRY_STATUS(open(row));
    if (is_one_hot_) {
        return scan_.arg_max();
    }
    filter(*row.params);
    return draw_kept(row, RandomUse::kDraw);
}

Result<int32_t> Sampler::draw_draft(const SampleRow& row, DraftDistribution& distribution) {
    distribution.count = 1;
    distribution.probabilities[0] = 1.0F;
    if (row.forced_id >= 0) {
        DI_TRY_STATUS(check_finite(row.logits, row.index));
        distribution.token_ids[0] = row.forced_id;
        return row.forced_id;
    }
    DI_TRY_STATUS(open(row));
    if (is_one_hot_) {
        distribution.token_ids[0] = scan_.arg_max();
        return distribution.token_ids[0];
    }
    filter(*row.params);
    const SoftmaxWeights weights = this->weights();
    const std::span<const float> values = scan_.values();
    double total = 0.0;
    distribution.count = 0;
    for (const int32_t id : filters_.likeliest(scan_, DraftDistribution::kTokensMax)) {
        const float value = values[static_cast<size_t>(id)];
        const double weight = weights.of(value);
        if (weight == 0.0 || !cut_.keeps(value, id)) {
            break;  // and so is everything behind it
        }
        distribution.token_ids[static_cast<size_t>(distribution.count)] = id;
        distribution.probabilities[static_cast<size_t>(distribution.count)] = static_cast<float>(weight);
        ++distribution.count;
        total += weight;
    }
    for (int32_t i = 0; i < distribution.count; ++i) {
        float& probability = distribution.probabilities[static_cast<size_t>(i)];
        probability = static_cast<float>(static_cast<double>(probability) / total);
    }
    const int32_t last = distribution.token_ids[static_cast<size_t>(distribution.count - 1)];
    cut_ = {.value = values[static_cast<size_t>(last)], .token_id = last};
    return draw_kept(row, RandomUse::kDraft);
}

Result<DraftVerdict> Sampler::check_draft(const SampleRow& row, int32_t draft, const DraftDistribution& distribution) {
    if (row.forced_id >= 0) {
        DI_TRY_STATUS(check_finite(row.logits, row.index));
        return DraftVerdict{.token_id = row.forced_id, .is_accepted = row.forced_id == draft};
    }
    DI_TRY_STATUS(open(row));
    if (is_one_hot_) {
        const int32_t id = scan_.arg_max();
        return DraftVerdict{.token_id = id, .is_accepted = id == draft};
    }
    filter(*row.params);
    const float q = draft < 0 ? 0.0F : distribution.probability(draft);
    if (q <= 0.0F) {
        return DraftVerdict{.token_id = draw_kept(row, RandomUse::kDraw), .is_accepted = false};
    }
    const SoftmaxWeights weights = this->weights();
    const double total = kept_weight(weights);
    const float value = scan_.values()[static_cast<size_t>(draft)];
    const double p = cut_.keeps(value, draft) ? weights.of(value) / total : 0.0;
    if (static_cast<double>(uniform(row)) * static_cast<double>(q) < p) {
        return DraftVerdict{.token_id = draft, .is_accepted = true};
    }
    return DraftVerdict{.token_id = draw_residual(row, distribution, total), .is_accepted = false};
}

// --- what the draws are made of --------------------------------------------------------

Status Sampler::check_finite(std::span<const float> logits, int64_t index) {
    DI_CHECK(static_cast<int64_t>(logits.size()) == vocab_size_, "logits of another vocabulary");
    scan_.scan(logits);
    if (scan_.is_finite()) {
        return {};
    }
    const auto bad = std::find_if(logits.begin(), logits.end(), [](float logit) { return !std::isfinite(logit); });
    return fail(ErrorCode::kInternal, "the model's logit of token {} at position {} is {}, expected a finite number",
                bad - logits.begin(), index, *bad);
}

// Steps 1 and 2: afterwards scan_ is of the edited row.
Status Sampler::open(const SampleRow& row) {
    DI_TRY_STATUS(check_finite(row.logits, row.index));
    edit(row);
    if (scan_.largest() == kNever) {
        return fail(ErrorCode::kInvalidArgument, "no token may come at position {}: {} leave none, expected at least one",
                    row.index,
                    row.mask.empty() ? "allowed ids, banned ids and min_tokens" : "the grammar, banned ids and min_tokens");
    }
    return {};
}

void Sampler::edit(const SampleRow& row) {
    const std::span<const float> values = editor_.edit(row);
    if (values.data() != scan_.values().data()) {
        scan_.scan(values);
    }
    temperature_ = std::min<double>(row.params->temperature, std::numeric_limits<float>::max());
    // Where the quotient leaves the range of float, one step of a logit is worth more than any noise.
    is_one_hot_ = temperature_ < kGreedyTemperature || !std::isfinite(scan_.largest() / static_cast<float>(temperature_));
}

void Sampler::filter(const SamplingParams& params) {
    cut_ = LogitFilters::min_p(scan_, params.min_p, temperature_);
    if (params.top_k > 0 && params.top_k < vocab_size_) {
        cut_ = tighter(cut_, filters_.top_k(scan_, params.top_k));
    }
    if (params.top_p < 1.0) {
        cut_ = tighter(cut_, filters_.top_p(scan_, weights(), {.top_p = params.top_p, .temperature = temperature_}));
    }
}

double Sampler::kept_weight(const SoftmaxWeights& weights) const {
    if (cut_.value == TokenCut{}.value) {
        return weights.total(scan_);
    }
    double sum = 0.0;
    const std::span<const float> tops = scan_.block_tops();
    for (int64_t index = 0; index < static_cast<int64_t>(tops.size()); ++index) {
        if (tops[static_cast<size_t>(index)] < cut_.value) {
            continue;
        }
        auto id = static_cast<int32_t>(index * kLogitBlock);
        for (const float value : scan_.block(index)) {
            sum += cut_.keeps(value, id) ? weights.of(value) : 0.0;
            ++id;
        }
    }
    return sum;
}

int32_t Sampler::draw_kept(const SampleRow& row, RandomUse use) const {
    return draw_gumbel(scan_, cut_, static_cast<float>(temperature_),
                       {.seed = row.seed, .index = static_cast<uint64_t>(row.index), .use = use});
}

int32_t Sampler::draw_residual(const SampleRow& row, const DraftDistribution& distribution, double total) {
    for (int32_t i = 0; i < distribution.count; ++i) {
        draft_mass_[static_cast<size_t>(distribution.token_ids[static_cast<size_t>(i)])] =
            distribution.probabilities[static_cast<size_t>(i)];
    }
    const int32_t id =
        draw_gumbel_residual({.scan = scan_, .cut = cut_, .weights = weights(), .total = total}, draft_mass_,
                             {.seed = row.seed, .index = static_cast<uint64_t>(row.index), .use = RandomUse::kResidual});
    for (int32_t i = 0; i < distribution.count; ++i) {
        draft_mass_[static_cast<size_t>(distribution.token_ids[static_cast<size_t>(i)])] = 0.0F;
    }
    // p and q are equal up to rounding: nothing is left over, and p itself is the answer.
    return id >= 0 ? id : draw_kept(row, RandomUse::kResidual);
}

// --- log-probabilities -------------------------------------------------------------

TokenLogprobs Sampler::logprobs(const SampleRow& row, int32_t token_id, int32_t top_count) {
    const Status status = check_finite(row.logits, row.index);
    DI_CHECK(status.has_value(), "log-probabilities of a row that cannot be drawn from");
    if (row.params->logprobs_mode == LogprobsMode::kRaw) {
        return raw_logprobs(token_id, top_count);
    }
    edit(row);
    if (scan_.largest() == kNever) {
        return {.logprob = kNever, .top = {}};  // only a forced token can come here
    }
    if (is_one_hot_) {
        const int32_t id = scan_.arg_max();
        TokenLogprobs result{.logprob = token_id == id ? 0.0F : kNever, .top = {}};
        if (top_count > 0) {
            result.top.push_back({.token_id = id, .logprob = 0.0F});
        }
        return result;
    }
    filter(*row.params);
    return processed_logprobs(token_id, top_count);
}

Result<TokenLogprobs> Sampler::prompt_logprobs(std::span<const float> logits, int64_t index, int32_t token_id,
                                               int32_t top_count) {
    DI_TRY_STATUS(check_finite(logits, index));
    return raw_logprobs(token_id, top_count);
}

TokenLogprobs Sampler::raw_logprobs(int32_t token_id, int32_t top_count) {
    const SoftmaxWeights weights(scan_.largest(), 1.0, vocab_size_);
    const double log_total = std::log(weights.total(scan_));
    const auto of = [&](int32_t id) {
        const double above =
            static_cast<double>(scan_.values()[static_cast<size_t>(id)]) - static_cast<double>(scan_.largest());
        return static_cast<float>(above - log_total);
    };
    TokenLogprobs result{.logprob = of(token_id), .top = {}};
    if (top_count > 0) {
        for (const int32_t id : filters_.likeliest(scan_, top_count)) {
            result.top.push_back({.token_id = id, .logprob = of(id)});
        }
    }
    return result;
}

TokenLogprobs Sampler::processed_logprobs(int32_t token_id, int32_t top_count) {
    const double log_total = std::log(kept_weight(weights()));
    const auto of = [&](int32_t id) {
        const float value = scan_.values()[static_cast<size_t>(id)];
        if (!cut_.keeps(value, id)) {
            return kNever;
        }
        return static_cast<float>((static_cast<double>(value) - static_cast<double>(scan_.largest())) / temperature_ -
                                  log_total);
    };
    TokenLogprobs result{.logprob = of(token_id), .top = {}};
    if (top_count > 0) {
        for (const int32_t id : filters_.likeliest(scan_, top_count)) {
            const float logprob = of(id);
            if (logprob == kNever) {
                break;  // and so is everything behind it
            }
            result.top.push_back({.token_id = id, .logprob = logprob});
        }
    }
    return result;
}

}  // namespace di
