#include "engine/philox.h"

#include <cmath>
namespace di {

namespace {

// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
constexpr uint32_t kMultiplier0 = 0xD2511F53U;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57U;
constexpr uint32_t kWeyl0 = 0x9E3779B9U;
constexpr uint32_t kWeyl1 = 0xBB67AE85U;
constexpr int kRounds = 10;

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

}  // namespace

std::array<uint32_t, 4> philox(const RandomAddress& address) {
    // Words in variables of their own: an array would go through memory in every round.
    uint32_t word0 = low(address.index);
    uint32_t word1 = high(address.index);
    auto word2 = static_cast<uint32_t>(address.use);
    uint32_t word3 = address.group;
    uint32_t key0 = low(address.seed);
    uint32_t key1 = high(address.seed);
    for (int round = 0; round < kRounds; ++round) {
        const uint64_t product0 = uint64_t{kMultiplier0} * word0;
        const uint64_t product1 = uint64_t{kMultiplier1} * word2;
        word0 = high(product1) ^ word1 ^ key0;
        word1 = low(product1);
        word2 = high(product0) ^ word3 ^ key1;
        word3 = low(product0);
        key0 += kWeyl0;
        key1 += kWeyl1;
    }
    return {word0, word1, word2, word3};
}

float gumbel_noise(uint32_t word) {
    const double u = (static_cast<double>(word >> 8) + 0.5) * 0x1p-24;
    return static_cast<float>(-std::log(-std::log(u)));
}

uint64_t sample_seed(uint64_t seed, int32_t sample_index) { return seed + static_cast<uint64_t>(sample_index); }

}  // namespace di
