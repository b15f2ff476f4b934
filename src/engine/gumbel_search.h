#pragma once

#include <cstdint>
#include <span>

#include "engine/logit_filters.h"
#include "engine/logit_scan.h"
#include "engine/philox.h"

namespace di {

// Whose noise it is; the group follows from the token.
struct GumbelNoise {
    uint64_t seed = 0;
    uint64_t index = 0;
    RandomUse use = RandomUse::kDraw;

    [[nodiscard]] float of(int32_t token_id) const;
};

// The kept token with the largest value / temperature + noise (in float), lowest id on ties; at least one is kept.
// Computes noise only where it can still decide; what it returns is that of the plain loop, bit for bit.
[[nodiscard]] int32_t draw_gumbel(const LogitScan& scan, const TokenCut& cut, float temperature, const GumbelNoise& noise);

// The target's distribution of a row: p(token) = weight / total for the tokens that `cut` keeps.
struct TargetDistribution {
    const LogitScan& scan;
    TokenCut cut;
    SoftmaxWeights weights;
    double total = 0.0;
};

// The token with the largest ln(p - q) + noise among those with p > q, lowest id on ties; -1 if there is none.
// draft_mass: q [vocab].
[[nodiscard]] int32_t draw_gumbel_residual(const TargetDistribution& target, std::span<const float> draft_mass,
                                           const GumbelNoise& noise);

}  // namespace di
