#pragma once

#include <array>
#include <cstdint>

namespace di {

// What a random number is for; numbers of different uses never meet.
enum class RandomUse : uint32_t { kDraw = 0, kResidual = 1, kAccept = 2, kDraft = 3 };

// Counter of one group of four random words of a request.
struct RandomAddress {
    uint64_t seed = 0;   // of the request
    uint64_t index = 0;  // place of the token to be produced in prompt + output, from 0
    RandomUse use = RandomUse::kDraw;
    uint32_t group = 0;  // token id / 4 for the noise of a token, 0 for the accept test
};

// Philox4x32-10: key = (seed low, seed high), counter = (index low, index high, use, group).
[[nodiscard]] std::array<uint32_t, 4> philox(const RandomAddress& address);

// Gumbel noise of a random word: -ln(-ln(u)) with u = ((word >> 8) + 0.5) * 2^-24. In double, rounded once:
// u needs 25 bits, and in float the largest u would be 1 and its noise infinite.
[[nodiscard]] float gumbel_noise(uint32_t word);

// Seed of sample `sample_index` of a request for several samples: seed + sample_index (modulo 2^64), so that every sample can be
// had alone. Philox makes unrelated noise of neighbouring seeds.
[[nodiscard]] uint64_t sample_seed(uint64_t seed, int32_t sample_index);

// All noise lies in between.
inline constexpr float kGumbelNoiseMin = -2.86F;
inline constexpr float kGumbelNoiseMax = 17.33F;

}  // namespace di
