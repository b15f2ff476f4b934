#include "engine/gumbel_search.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace di {

namespace {

// Tokens that share one call of the generator.
constexpr int64_t kGroup = 4;

struct Best {
    int32_t id = -1;
    float score = 0.0F;

    void take(int32_t other_id, float other_score) {
        if (id < 0 || other_score > score || (other_score == score && other_id < id)) {
            id = other_id;
            score = other_score;
        }
    }
};

// Room for the rounding of scores of this size: a bound that leaves so much never passes over the best token.
double slack_of(double score, double scaled) { return 1e-5 + 1e-6 * (std::abs(score) + std::abs(scaled) + 20.0); }

// Least random word whose noise can be `noise` or more; on the safe side.
uint32_t least_word(double noise) {
    const double u = std::exp(-std::exp(-noise));
    const double word = std::floor(u * 0x1p24 - 1.5);
    return static_cast<uint32_t>(std::clamp(word, 0.0, 0x1p24 - 1.0)) << 8;
}

std::array<uint32_t, 4> words_of(const GumbelNoise& noise, int32_t token_id) {
    return philox({.seed = noise.seed,
                   .index = noise.index,
                   .use = noise.use,
                   .group = static_cast<uint32_t>(token_id / static_cast<int32_t>(kGroup))});
}

// One draw: what does not change while it looks through the row.
class Search {
  public:
    Search(const LogitScan& scan, const TokenCut& cut, float temperature, const GumbelNoise& noise)
        : scan_(scan), cut_(cut), temperature_(temperature), noise_(noise) {}

    int32_t run() {
        // The block of the largest value first: its best score lets most others be passed over.
        const int64_t first = scan_.arg_max() / kLogitBlock;
        look_at(first);
        const auto count = static_cast<int64_t>(scan_.block_tops().size());
        for (int64_t index = 0; index < count; ++index) {
            if (index != first) {
                look_at(index);
            }
        }
        DI_CHECK(best_.id >= 0, "a draw from nothing");
        return best_.id;
    }

  private:
    void look_at(int64_t block_index) {
        const float top = scan_.block_tops()[static_cast<size_t>(block_index)];
        if (top < cut_.value) {
            return;
        }
        // Tokens below `least` or with a word below `word_least` cannot win any more.
        float least = cut_.value;
        uint32_t word_least = 0;
        if (best_.id >= 0) {
            const double scaled = static_cast<double>(top / temperature_);
            const double wanted = static_cast<double>(best_.score) - scaled - slack_of(best_.score, scaled);
            if (wanted > static_cast<double>(kGumbelNoiseMax)) {
                return;
            }
            word_least = least_word(wanted);
            const double bound =
                (static_cast<double>(best_.score) - static_cast<double>(kGumbelNoiseMax) - slack_of(best_.score, best_.score)) *
                static_cast<double>(temperature_);
            least = std::max(least, static_cast<float>(bound - 1e-6 * std::abs(bound)));
        }
        const std::span<const float> values = scan_.block(block_index);
        for (size_t begin = 0; begin < values.size(); begin += kGroup) {
            const std::span<const float> group = values.subspan(begin, std::min<size_t>(kGroup, values.size() - begin));
            const bool can_win = std::any_of(group.begin(), group.end(), [least](float value) { return value >= least; });
            if (can_win) {
                look_at_group(group, static_cast<int32_t>(block_index * kLogitBlock + static_cast<int64_t>(begin)), word_least);
            }
        }
    }

    void look_at_group(std::span<const float> values, int32_t first_id, uint32_t word_least) {
        const std::array<uint32_t, 4> words = words_of(noise_, first_id);
        for (size_t i = 0; i < values.size(); ++i) {
            const int32_t id = first_id + static_cast<int32_t>(i);
            if (words[i] >= word_least && cut_.keeps(values[i], id)) {
                best_.take(id, values[i] / temperature_ + gumbel_noise(words[i]));
            }
        }
    }

    const LogitScan& scan_;
    const TokenCut& cut_;
    float temperature_;
    const GumbelNoise& noise_;
    Best best_;
};

}  // namespace

float GumbelNoise::of(int32_t token_id) const {
    return gumbel_noise(words_of(*this, token_id)[static_cast<size_t>(token_id) % kGroup]);
}

int32_t draw_gumbel(const LogitScan& scan, const TokenCut& cut, float temperature, const GumbelNoise& noise) {
    return Search(scan, cut, temperature, noise).run();
}

int32_t draw_gumbel_residual(const TargetDistribution& target, std::span<const float> draft_mass, const GumbelNoise& noise) {
    Best best;
    double least = 0.0;  // residual mass with which a token could still win
    const std::span<const float> tops = target.scan.block_tops();
    for (int64_t index = 0; index < static_cast<int64_t>(tops.size()); ++index) {
        const float top = tops[static_cast<size_t>(index)];
        if (top < target.cut.value || target.weights.of(top) / target.total <= least) {
            continue;
        }
        auto id = static_cast<int32_t>(index * kLogitBlock) - 1;
        for (const float value : target.scan.block(index)) {
            ++id;
            if (!target.cut.keeps(value, id)) {
                continue;
            }
            const double mass =
                target.weights.of(value) / target.total - static_cast<double>(draft_mass[static_cast<size_t>(id)]);
            if (mass > least) {
                best.take(id, static_cast<float>(std::log(mass)) + noise.of(id));
                const double wanted = static_cast<double>(best.score) - static_cast<double>(kGumbelNoiseMax);
                least = std::exp(wanted - slack_of(best.score, wanted));
            }
        }
    }
    return best.id;
}

}  // namespace di
