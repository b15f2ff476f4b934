#include "engine/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/limits.h"
#include "engine/philox.h"

namespace di {

namespace {

// Ids sorted at a time when looking for the end of the top-p set; usually the first part holds it.
constexpr int64_t kFirstOrderedPart = 64;

// Index of the first logit that is not finite, -1 if there is none.
int64_t find_not_finite(std::span<const float> logits) {
    for (size_t i = 0; i < logits.size(); ++i) {
        if (!std::isfinite(logits[i])) {
            return static_cast<int64_t>(i);
        }
    }
    return -1;
}

// Most likely token of `ids`, lowest id on ties; `ids` is not empty.
int32_t arg_max(std::span<const float> logits, std::span<const int32_t> ids) {
    int32_t best = ids.front();
    for (const int32_t id : ids) {
        const float value = logits[static_cast<size_t>(id)];
        const float best_value = logits[static_cast<size_t>(best)];
        if (value > best_value || (value == best_value && id < best)) {
            best = id;
        }
    }
    return best;
}

// In double, summed by ascending id: one order for every row.
float log_probability(std::span<const float> logits, int32_t id) {
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0.0;
    for (const float logit : logits) {
        sum += std::exp(static_cast<double>(logit) - largest);
    }
    return static_cast<float>(static_cast<double>(logits[static_cast<size_t>(id)]) - largest - std::log(sum));
}

}  // namespace

Sampler::Sampler(int64_t vocab_size) : is_banned_(static_cast<size_t>(vocab_size), uint8_t{0}) {
    DI_CHECK(vocab_size > 0, "a vocabulary cannot be empty");
    ids_.reserve(static_cast<size_t>(vocab_size));
}

Result<SampledToken> Sampler::sample(const SampleRow& row) {
    DI_CHECK(row.logits.size() == is_banned_.size(), "logits of another vocabulary");
    const int64_t bad = find_not_finite(row.logits);
    if (bad >= 0) {
        return fail(ErrorCode::kInternal, "the model's logit of token {} at position {} is {}, expected a finite number", bad,
                    row.index, row.logits[static_cast<size_t>(bad)]);
    }
    int32_t id = row.forced_id;
    if (id < 0) {
        const std::span<const int32_t> ids = kept_ids(row);
        if (ids.empty()) {
            return fail(ErrorCode::kInvalidArgument,
                        "every token is an end token, but min_tokens forbids to end before position {}", row.index + 1);
        }
        id = draw(row, ids);
    }
    return SampledToken{.id = id, .logprob = log_probability(row.logits, id)};
}

std::span<const int32_t> Sampler::kept_ids(const SampleRow& row) {
    for (const int32_t id : row.banned_ids) {
        is_banned_[static_cast<size_t>(id)] = 1;
    }
    ids_.clear();
    for (size_t id = 0; id < is_banned_.size(); ++id) {
        if (is_banned_[id] == 0) {
            ids_.push_back(static_cast<int32_t>(id));
        }
    }
    for (const int32_t id : row.banned_ids) {
        is_banned_[static_cast<size_t>(id)] = 0;
    }
    const auto count = static_cast<int64_t>(ids_.size());
    if (row.temperature < kGreedyTemperature || count == 0) {
        return ids_;
    }
    // Both filters keep a beginning of the same order, so that their intersection is the shorter one.
    int64_t kept = row.top_k > 0 ? std::min<int64_t>(row.top_k, count) : count;
    if (row.top_p < 1.0) {
        kept = count_top_p(row, kept);
    } else if (kept < count) {
        order_next(row.logits, 0, kept);
    }
    return std::span(ids_).first(static_cast<size_t>(kept));
}

// Puts the ids of ranks [begin, end) in their places; the ranks before are there already.
void Sampler::order_next(std::span<const float> logits, int64_t begin, int64_t end) {
    const auto comes_before = [logits](int32_t left, int32_t right) {
        const float left_logit = logits[static_cast<size_t>(left)];
        const float right_logit = logits[static_cast<size_t>(right)];
        return left_logit > right_logit || (left_logit == right_logit && left < right);
    };
    const auto first = ids_.begin() + begin;
    const auto last = ids_.begin() + end;
    if (last != ids_.end()) {
        std::nth_element(first, last, ids_.end(), comes_before);
    }
    std::sort(first, last, comes_before);
}

// Size of the smallest beginning of the order that holds a mass of top_p, at most count_max. The mass of a token is its
// share of the full distribution; both sums run in orders that depend on nothing but the row.
int64_t Sampler::count_top_p(const SampleRow& row, int64_t count_max) {
    const double largest = row.logits[static_cast<size_t>(arg_max(row.logits, ids_))];
    const auto weight = [&](int32_t id) {
        return std::exp((static_cast<double>(row.logits[static_cast<size_t>(id)]) - largest) / row.temperature);
    };
    double total = 0.0;
    for (const int32_t id : ids_) {
        total += weight(id);
    }
    const double wanted = row.top_p * total;
    double mass = 0.0;
    int64_t begin = 0;
    for (int64_t part = kFirstOrderedPart; begin < count_max; part *= 8) {
        const int64_t end = std::min(count_max, begin + part);
        order_next(row.logits, begin, end);
        for (int64_t rank = begin; rank < end; ++rank) {
            mass += weight(ids_[static_cast<size_t>(rank)]);
            if (mass >= wanted) {
                return rank + 1;
            }
        }
        begin = end;
    }
    return count_max;
}

int32_t Sampler::draw(const SampleRow& row, std::span<const int32_t> ids) const {
    const int32_t likeliest = arg_max(row.logits, ids);
    const auto temperature = static_cast<float>(row.temperature);
    const float largest = row.logits[static_cast<size_t>(likeliest)] / temperature;
    // Where the quotient leaves the range of float, one step of a logit is worth more than any noise.
    if (row.temperature < kGreedyTemperature || !std::isfinite(largest)) {
        return likeliest;
    }
    // Exact pruning: even with the largest noise such a token stays strictly below what the likeliest has at least
    // (rounding keeps order).
    const float least_best = largest + kGumbelNoiseMin;
    int32_t best = -1;
    float best_score = 0.0F;
    for (const int32_t id : ids) {
        const float scaled = row.logits[static_cast<size_t>(id)] / temperature;
        if (scaled + kGumbelNoiseMax < least_best) {
            continue;
        }
        const auto words = philox({.seed = row.seed,
                                   .index = static_cast<uint64_t>(row.index),
                                   .use = RandomUse::kDraw,
                                   .group = static_cast<uint32_t>(id) / 4});
        const float score = scaled + gumbel_noise(words[static_cast<size_t>(id) % 4]);
        if (best < 0 || score > best_score || (score == best_score && id < best)) {
            best = id;
            best_score = score;
        }
    }
    return best;
}

}  // namespace di
