#include "engine/logit_filters.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>

#include "base/check.h"

namespace di {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Blocks whose largest values bound the first candidates for the top-p set: most rows end among them.
constexpr int64_t kTopPBlocks = 64;
// Else the place is narrowed down to one bin of equal width, from the largest value to where weights are 0.
constexpr int64_t kBins = 1024;
// ln of the smallest weight of a vocabulary of two tokens (2^-52); larger vocabularies end sooner.
constexpr double kWeightSpan = 36.1;

// Ascending keys: values descending, then ids ascending.
uint64_t order_key(float value, int32_t id) {
    const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0F);  // -0 becomes 0: they are equal
    const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
    return (static_cast<uint64_t>(~ascending) << 32) | static_cast<uint32_t>(id);
}

int32_t id_of(uint64_t key) { return static_cast<int32_t>(key & 0xFFFFFFFFU); }

}  // namespace

TokenCut tighter(const TokenCut& left, const TokenCut& right) {
    if (left.value != right.value) {
        return left.value > right.value ? left : right;
    }
    return left.token_id < right.token_id ? left : right;
}

LogitFilters::LogitFilters(int64_t vocab_size) {
    keys_.reserve(static_cast<size_t>(vocab_size));
    ids_.reserve(static_cast<size_t>(vocab_size));
}

std::span<const int32_t> LogitFilters::likeliest(const LogitScan& scan, int64_t count) {
    gather_likeliest(scan, count);
    std::sort(keys_.begin(), keys_.end());
    ids_.clear();
    for (const uint64_t key : keys_) {
        ids_.push_back(id_of(key));
    }
    return ids_;
}

TokenCut LogitFilters::min_p(const LogitScan& scan, double min_p, double temperature) {
    TokenCut cut;
    if (min_p > 0.0) {
        const double least = static_cast<double>(scan.largest()) + temperature * std::log(min_p);
        cut.value = static_cast<float>(std::max<double>(least, std::numeric_limits<float>::lowest()));
    }
    return cut;
}

TokenCut LogitFilters::top_k(const LogitScan& scan, int64_t k) {
    gather_likeliest(scan, k);
    if (static_cast<int64_t>(keys_.size()) < k) {
        return {};
    }
    return cut_at(scan, *std::max_element(keys_.begin(), keys_.end()));
}

TokenCut LogitFilters::top_p(const LogitScan& scan, const SoftmaxWeights& weights, const TopP& wanted) {
    const double total = wanted.top_p * weights.total(scan);
    gather(scan, bound_of(scan, kTopPBlocks));
    double before = 0.0;  // weight of what comes before the candidates
    if (weight_of_keys(scan, weights, 0, keys_.size()) < total) {
        before = gather_bin(scan, weights, {.temperature = wanted.temperature, .wanted = total});
    }
    // The end lies in (begin, end]: the keys before `begin` weigh less than wanted, those before `end` do not.
    size_t begin = 0;
    size_t end = keys_.size();
    while (end - begin > 1) {
        const size_t middle = begin + (end - begin) / 2;
        std::nth_element(keys_.begin() + static_cast<std::ptrdiff_t>(begin),
                         keys_.begin() + static_cast<std::ptrdiff_t>(middle), keys_.begin() + static_cast<std::ptrdiff_t>(end));
        const double sum = before + weight_of_keys(scan, weights, begin, middle);
        if (sum >= total) {
            end = middle;
        } else {
            before = sum;
            begin = middle;
        }
    }
    return cut_at(scan, keys_[begin]);
}

double LogitFilters::weight_of_keys(const LogitScan& scan, const SoftmaxWeights& weights, size_t begin, size_t end) const {
    double sum = 0.0;
    for (size_t i = begin; i < end; ++i) {
        sum += weights.of(scan.values()[static_cast<size_t>(id_of(keys_[i]))]);
    }
    return sum;
}

// Makes the candidates those of the bin in which the weight, from the largest value down, reaches what is wanted; returns
// the weight before it. Sums are exact, so that this finds the same token as any other way.
double LogitFilters::gather_bin(const LogitScan& scan, const SoftmaxWeights& weights, const BinSearch& search) {
    const auto scale = static_cast<float>(static_cast<double>(kBins) / (kWeightSpan * search.temperature));
    const auto bin_of = [&](float value) {
        const float place = (scan.largest() - value) * scale;  // values descend, so this never falls
        return place < static_cast<float>(kBins - 1) ? static_cast<int64_t>(place) : kBins - 1;
    };
    bins_.assign(static_cast<size_t>(kBins), 0.0);
    const auto block_count = static_cast<int64_t>(scan.block_tops().size());
    for (int64_t index = 0; index < block_count; ++index) {
        if (weights.of(scan.block_tops()[static_cast<size_t>(index)]) == 0.0) {
            continue;
        }
        const std::span<const float> values = scan.block(index);
        std::array<double, kLogitBlock> parts{};
        weights.of_block(values, parts);
        for (size_t i = 0; i < values.size(); ++i) {
            bins_[static_cast<size_t>(bin_of(values[i]))] += parts[i];
        }
    }
    double before = 0.0;
    int64_t bin = 0;
    while (bin < kBins - 1 && before + bins_[static_cast<size_t>(bin)] < search.wanted) {
        before += bins_[static_cast<size_t>(bin)];
        ++bin;
    }
    keys_.clear();
    for (int64_t index = 0; index < block_count; ++index) {
        if (bin_of(scan.block_tops()[static_cast<size_t>(index)]) > bin) {
            continue;
        }
        auto id = static_cast<int32_t>(index * kLogitBlock);
        for (const float value : scan.block(index)) {
            if (bin_of(value) == bin && value > kNever) {
                keys_.push_back(order_key(value, id));
            }
            ++id;
        }
    }
    return before;
}

// All candidates that have at least this value.
void LogitFilters::gather(const LogitScan& scan, float least) {
    keys_.clear();
    const std::span<const float> tops = scan.block_tops();
    for (int64_t index = 0; index < static_cast<int64_t>(tops.size()); ++index) {
        if (tops[static_cast<size_t>(index)] < least) {
            continue;
        }
        int32_t id = static_cast<int32_t>(index * kLogitBlock);
        for (const float value : scan.block(index)) {
            if (value >= least) {
                keys_.push_back(order_key(value, id));
            }
            ++id;
        }
    }
    DI_CHECK(!keys_.empty(), "a row in which no token may come");
}

// The `count` likeliest, in any order.
void LogitFilters::gather_likeliest(const LogitScan& scan, int64_t count) {
    gather(scan, bound_of(scan, count));
    if (static_cast<int64_t>(keys_.size()) > count) {
        std::nth_element(keys_.begin(), keys_.begin() + (count - 1), keys_.end());
        keys_.resize(static_cast<size_t>(count));
    }
}

// A value that at least `count` tokens reach, or the least of all where blocks do not tell.
float LogitFilters::bound_of(const LogitScan& scan, int64_t count) {
    constexpr float kLeast = std::numeric_limits<float>::lowest();
    const std::span<const float> tops = scan.block_tops();
    if (count > static_cast<int64_t>(tops.size())) {
        return kLeast;
    }
    tops_.assign(tops.begin(), tops.end());
    const auto place = tops_.begin() + (count - 1);
    std::nth_element(tops_.begin(), place, tops_.end(), std::greater<>());
    return std::max(*place, kLeast);
}

TokenCut LogitFilters::cut_at(const LogitScan& scan, uint64_t key) const {
    const int32_t id = id_of(key);
    return {.value = scan.values()[static_cast<size_t>(id)], .token_id = id};
}

}  // namespace di
