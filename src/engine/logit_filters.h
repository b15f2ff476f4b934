#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/logit_scan.h"

namespace di {

// The tokens of a row in their order, likeliest first, lower id first among equals, cut behind one of them.
struct TokenCut {
    float value = std::numeric_limits<float>::lowest();  // of the last token kept; what may not come (-inf) never is
    int32_t token_id = std::numeric_limits<int32_t>::max();

    [[nodiscard]] bool keeps(float token_value, int32_t id) const {
        return token_value > value || (token_value == value && id <= token_id);
    }
};

// Keeps what both keep.
[[nodiscard]] TokenCut tighter(const TokenCut& left, const TokenCut& right);

// Finds the beginnings of a row's order without sorting the row. Holds scratch memory only.
class LogitFilters {
  public:
    explicit LogitFilters(int64_t vocab_size);

    // Ids of the `count` likeliest tokens (fewer if fewer may come), in order. Valid until the next call.
    [[nodiscard]] std::span<const int32_t> likeliest(const LogitScan& scan, int64_t count);

    // Tokens at least min_p times as likely as the likeliest: value >= largest + temperature * ln(min_p).
    [[nodiscard]] static TokenCut min_p(const LogitScan& scan, double min_p, double temperature);
    // The first k.
    [[nodiscard]] TokenCut top_k(const LogitScan& scan, int64_t k);
    // The smallest beginning whose weight is at least top_p of all; never empty.
    struct TopP {
        double top_p = 1.0;
        double temperature = 1.0;  // of `weights`
    };
    [[nodiscard]] TokenCut top_p(const LogitScan& scan, const SoftmaxWeights& weights, const TopP& wanted);

  private:
    struct BinSearch {
        double temperature = 1.0;
        double wanted = 0.0;  // weight
    };

    [[nodiscard]] double gather_bin(const LogitScan& scan, const SoftmaxWeights& weights, const BinSearch& search);
    [[nodiscard]] double weight_of_keys(const LogitScan& scan, const SoftmaxWeights& weights, size_t begin, size_t end) const;
    void gather(const LogitScan& scan, float least);
    void gather_likeliest(const LogitScan& scan, int64_t count);
    [[nodiscard]] float bound_of(const LogitScan& scan, int64_t count);
    [[nodiscard]] TokenCut cut_at(const LogitScan& scan, uint64_t key) const;

    std::vector<uint64_t> keys_;  // candidates; ascending keys are the order of tokens
    std::vector<float> tops_;
    std::vector<double> bins_;
    std::vector<int32_t> ids_;
};

}  // namespace di
