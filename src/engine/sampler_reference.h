#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "engine/philox.h"
#include "engine/sampler.h"

// For tests: the rules of a draw in the plainest words, without scratch memory, blocks or bounds.
namespace di {

// A row with all that it points to.
struct OwnedRow {
    std::vector<float> logits;
    SamplingParams params;
    uint64_t seed = 0;
    std::vector<int32_t> prompt;
    std::vector<int32_t> output;
    std::vector<int32_t> end_token_ids;
    bool bans_end_tokens = false;
    std::vector<uint32_t> mask;
    TokenHistory history{};

    [[nodiscard]] SampleRow view() {
        history = TokenHistory(params, prompt, static_cast<int64_t>(logits.size()), output);
        return {.logits = logits,
                .params = &params,
                .seed = seed,
                .index = static_cast<int64_t>(prompt.size() + output.size()),
                .end_token_ids = end_token_ids,
                .bans_end_tokens = bans_end_tokens,
                .history = &history,
                .mask = mask,
                .forced_id = -1};
    }
};

inline OwnedRow row_of(std::vector<float> logits, double temperature = 1.0) {
    OwnedRow row;
    row.logits = std::move(logits);
    row.params.temperature = temperature;
    return row;
}

struct ReferenceRow {
    std::vector<float> values;          // after edits
    std::vector<int32_t> order;         // of what may come, likeliest first
    std::vector<double> probabilities;  // [vocab] after temperature, before filters
    size_t kept = 0;                    // the first of `order`
    bool is_on_edge = false;            // a filter ends so near a token that rounding decides
};

inline bool holds(const std::vector<int32_t>& ids, int32_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

inline std::vector<float> reference_edits(const OwnedRow& row) {
    const SamplingParams& params = row.params;
    std::vector<float> values;
    for (int32_t id = 0; id < static_cast<int32_t>(row.logits.size()); ++id) {
        auto value = static_cast<double>(row.logits[static_cast<size_t>(id)]);
        for (const TokenBias& entry : params.logit_bias) {
            value =
                entry.token_id == id ? static_cast<double>(static_cast<float>(value + static_cast<double>(entry.bias))) : value;
        }
        const auto count = std::count(row.output.begin(), row.output.end(), id);
        if (count > 0 || holds(row.prompt, id)) {
            value = value > 0.0 ? value / params.repetition_penalty : value * params.repetition_penalty;
        }
        if (count > 0) {
            value -= params.presence_penalty + params.frequency_penalty * static_cast<double>(count);
        }
        const bool is_end = holds(row.end_token_ids, id);
        const bool is_banned = holds(params.banned_token_ids, id) || (row.bans_end_tokens && is_end) ||
                               (!params.allowed_token_ids.empty() && !holds(params.allowed_token_ids, id) && !is_end) ||
                               (!row.mask.empty() && (row.mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) == 0);
        values.push_back(is_banned ? -std::numeric_limits<float>::infinity() : static_cast<float>(value));
    }
    return values;
}

// For temperatures that are not greedy.
inline ReferenceRow reference_row(const OwnedRow& row) {
    constexpr double kEdge = 3e-6;
    const SamplingParams& params = row.params;
    ReferenceRow result{.values = reference_edits(row), .order = {}, .probabilities = {}, .kept = 0, .is_on_edge = false};
    for (int32_t id = 0; id < static_cast<int32_t>(result.values.size()); ++id) {
        if (std::isfinite(result.values[static_cast<size_t>(id)])) {
            result.order.push_back(id);
        }
    }
    const auto value_of = [&](int32_t id) { return static_cast<double>(result.values[static_cast<size_t>(id)]); };
    std::stable_sort(result.order.begin(), result.order.end(), [&](int32_t a, int32_t b) { return value_of(a) > value_of(b); });
    result.probabilities.resize(result.values.size(), 0.0);
    double total = 0.0;
    for (const int32_t id : result.order) {
        const double weight = std::exp((value_of(id) - value_of(result.order.front())) / params.temperature);
        result.probabilities[static_cast<size_t>(id)] = weight;
        total += weight;
    }
    for (double& probability : result.probabilities) {
        probability /= total;
    }
    result.kept = result.order.size();
    if (params.top_k > 0) {
        result.kept = std::min(result.kept, static_cast<size_t>(params.top_k));
    }
    double mass = 0.0;
    for (size_t rank = 0; rank < result.order.size() && params.top_p < 1.0; ++rank) {
        mass += result.probabilities[static_cast<size_t>(result.order[rank])];
        result.is_on_edge = result.is_on_edge || std::abs(mass - params.top_p) < kEdge;
        if (mass >= params.top_p) {
            result.kept = std::min(result.kept, rank + 1);
            break;
        }
    }
    for (size_t rank = 0; rank < result.order.size() && params.min_p > 0.0; ++rank) {
        const double share = result.probabilities[static_cast<size_t>(result.order[rank])] /
                             result.probabilities[static_cast<size_t>(result.order.front())];
        result.is_on_edge = result.is_on_edge || (share != 1.0 && std::abs(share / params.min_p - 1.0) < kEdge);
        if (share < params.min_p) {
            result.kept = std::min(result.kept, rank);
            break;
        }
    }
    return result;
}

// The largest value / temperature + noise of the kept ones, every one looked at.
inline int32_t reference_draw(const ReferenceRow& row, const SampleRow& view, RandomUse use) {
    int32_t best = -1;
    float best_score = 0.0F;
    for (size_t rank = 0; rank < row.kept; ++rank) {
        const int32_t id = row.order[rank];
        const auto words = philox({.seed = view.seed,
                                   .index = static_cast<uint64_t>(view.index),
                                   .use = use,
                                   .group = static_cast<uint32_t>(id) / 4});
        const float score = row.values[static_cast<size_t>(id)] / static_cast<float>(view.params->temperature) +
                            gumbel_noise(words[static_cast<size_t>(id) % 4]);
        if (best < 0 || score > best_score || (score == best_score && id < best)) {
            best = id;
            best_score = score;
        }
    }
    return best;
}

// Probabilities of the kept ones, renormalised.
inline std::vector<double> reference_distribution(const ReferenceRow& row) {
    std::vector<double> result(row.values.size(), 0.0);
    double total = 0.0;
    for (size_t rank = 0; rank < row.kept; ++rank) {
        total += row.probabilities[static_cast<size_t>(row.order[rank])];
    }
    for (size_t rank = 0; rank < row.kept; ++rank) {
        const auto id = static_cast<size_t>(row.order[rank]);
        result[id] = row.probabilities[id] / total;
    }
    return result;
}

// Pearson's statistic in standard deviations above its mean (Wilson and Hilferty): 4 is passed once in 30,000. Cells that
// expect fewer than 5 are taken together.
inline double chi_square_deviation(const std::vector<int64_t>& seen, const std::vector<double>& probabilities) {
    int64_t draws = 0;
    for (const int64_t count : seen) {
        draws += count;
    }
    double statistic = 0.0;
    double rest_wanted = 0.0;
    double rest_seen = 0.0;
    int64_t cells = 0;
    const auto add = [&](double wanted, double count) {
        statistic += (count - wanted) * (count - wanted) / wanted;
        ++cells;
    };
    for (size_t i = 0; i < seen.size(); ++i) {
        const double wanted = probabilities[i] * static_cast<double>(draws);
        if (wanted < 5.0) {
            rest_wanted += wanted;
            rest_seen += static_cast<double>(seen[i]);
        } else {
            add(wanted, static_cast<double>(seen[i]));
        }
    }
    if (rest_wanted >= 1.0) {
        add(rest_wanted, rest_seen);
    } else if (rest_seen > 3.0) {
        return std::numeric_limits<double>::infinity();  // what hardly ever happens happened again and again
    }
    const double freedom = static_cast<double>(cells) - 1.0;
    if (freedom < 1.0) {
        return 0.0;
    }
    return (std::cbrt(statistic / freedom) - (1.0 - 2.0 / (9.0 * freedom))) / std::sqrt(2.0 / (9.0 * freedom));
}

inline std::vector<float> random_logits(SeededRandom& random, int64_t count, double width, bool has_ties) {
    std::vector<float> logits;
    for (int64_t i = 0; i < count; ++i) {
        const double unit = static_cast<double>(random.below(1 << 24)) * 0x1p-24;
        const double value = (unit - 0.5) * width;
        logits.push_back(static_cast<float>(has_ties ? std::round(value * 2.0) / 2.0 : value));
    }
    return logits;
}

// Rows of a make-believe model: the logits behind a token depend on it and on its place.
inline std::vector<float> model_row(uint64_t model, int32_t token, int64_t index, int64_t vocab, double width = 8.0) {
    SeededRandom random(model * 1000003 + static_cast<uint64_t>(token) * 7919 + static_cast<uint64_t>(index));
    return random_logits(random, vocab, width, false);
}

}  // namespace di
