#include "model/deepseek_v41/engram_hash.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "weights/engram_primes.h"

namespace di::v41 {

namespace {

__extension__ using uint128 = unsigned __int128;

// numpy's SeedSequence: four 64-bit words of state from one small integer.
std::array<uint64_t, 4> seed_words(uint64_t entropy) {
    uint32_t hash = 0x43b0d7e5U;
    const auto hashmix = [&hash](uint32_t value) {
        value ^= hash;
        hash *= 0x931e8875U;
        value *= hash;
        return value ^ (value >> 16);
    };
    const auto mix = [](uint32_t x, uint32_t y) {
        const uint32_t r = 0xca01f9ddU * x - 0x4973f715U * y;
        return r ^ (r >> 16);
    };
    std::array<uint32_t, 4> pool{hashmix(static_cast<uint32_t>(entropy)), hashmix(static_cast<uint32_t>(entropy >> 32)),
                                 hashmix(0), hashmix(0)};
    for (size_t s = 0; s < 4; ++s) {
        for (size_t d = 0; d < 4; ++d) {
            if (s != d) {
                pool[d] = mix(pool[d], hashmix(pool[s]));
            }
        }
    }
    hash = 0x8b51f9ddU;
    std::array<uint32_t, 8> out{};
    for (size_t i = 0; i < out.size(); ++i) {
        uint32_t value = pool[i % 4] ^ hash;
        hash *= 0x58f38dedU;
        value *= hash;
        out[i] = value ^ (value >> 16);
    }
    std::array<uint64_t, 4> words{};
    for (size_t k = 0; k < 4; ++k) {
        words[k] = out[2 * k] | static_cast<uint64_t>(out[2 * k + 1]) << 32;
    }
    return words;
}

// numpy's PCG64 and its bounded integers.
class Pcg64 {
  public:
    explicit Pcg64(const std::array<uint64_t, 4>& words)
        : increment_((((static_cast<uint128>(words[2]) << 64) | words[3]) << 1) | 1) {
        step();
        state_ += (static_cast<uint128>(words[0]) << 64) | words[1];
        step();
    }

    uint64_t below(uint64_t bound) {
        uint128 product = static_cast<uint128>(next()) * bound;
        if (static_cast<uint64_t>(product) < bound) {
            const uint64_t threshold = (0 - bound) % bound;
            while (static_cast<uint64_t>(product) < threshold) {
                product = static_cast<uint128>(next()) * bound;
            }
        }
        return static_cast<uint64_t>(product >> 64);
    }

  private:
    void step() {
        constexpr uint128 kMultiplier = (static_cast<uint128>(0x2360ED051FC65DA4U) << 64) | 0x4385DF649FCCF645U;
        state_ = state_ * kMultiplier + increment_;
    }
    uint64_t next() {
        step();
        const uint64_t x = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
        const auto turn = static_cast<unsigned>(state_ >> 122);
        return (x >> turn) | (x << ((64 - turn) & 63));
    }

    uint128 state_ = 0;
    uint128 increment_;
};

std::vector<int64_t> multipliers_of(int32_t layer, int32_t count, int64_t compressed_vocab) {
    const int64_t bound = std::max<int64_t>(1, INT64_MAX / compressed_vocab / 2);
    Pcg64 generator(seed_words(static_cast<uint64_t>(10007) * static_cast<uint64_t>(layer)));
    std::vector<int64_t> values;
    for (int32_t i = 0; i < count; ++i) {
        values.push_back(static_cast<int64_t>(generator.below(static_cast<uint64_t>(bound))) * 2 + 1);
    }
    return values;
}

}  // namespace

std::vector<EngramHash> engram_hashes(const EngramConfig& config) {
    const auto layer_count = static_cast<int64_t>(config.layer_ids.size());
    const int64_t per_layer = config.rows_per_token();
    const std::vector<int64_t> primes = primes_from(config.vocab_size, layer_count * per_layer);
    std::vector<EngramHash> hashes;
    for (int64_t i = 0; i < layer_count; ++i) {
        EngramHash hash;
        hash.primes.assign(primes.begin() + i * per_layer, primes.begin() + (i + 1) * per_layer);
        int64_t offset = 0;
        for (const int64_t prime : hash.primes) {
            hash.offsets.push_back(offset);
            offset += prime;
        }
        hash.multipliers =
            multipliers_of(config.layer_ids[static_cast<size_t>(i)], config.max_ngram_size, config.compressed_vocab_size);
        hashes.push_back(std::move(hash));
    }
    return hashes;
}

void engram_rows(const EngramHash& hash, std::span<const int32_t> classes, std::span<int64_t> rows) {
    DI_CHECK(classes.size() == hash.multipliers.size() && rows.size() == hash.primes.size(), "an n-gram has the wrong size");
    const size_t heads = rows.size() / (classes.size() - 1);
    // A class times its multiplier stays below 2^63: the multiplier's bound is made so.
    int64_t mixed = classes[0] * hash.multipliers[0];
    for (size_t i = 1; i < classes.size(); ++i) {
        mixed ^= classes[i] * hash.multipliers[i];
        for (size_t head = 0; head < heads; ++head) {
            const size_t k = (i - 1) * heads + head;
            rows[k] = mixed % hash.primes[k] + hash.offsets[k];
        }
    }
}

void engram_step_rows(const EngramHash& hash, const EngramConfig& config, std::span<const int32_t> token_classes,
                      const Batch& batch, std::vector<int64_t>& rows) {
    const auto per_token = static_cast<size_t>(config.rows_per_token());
    rows.resize(batch.token_ids.size() * per_token);
    std::vector<int32_t> classes(static_cast<size_t>(config.max_ngram_size));
    for (const SequenceRows& sequence : batch.sequences) {
        // The id `back` places before row i: in the step or before it; kImageHistory inside an image and before the start.
        const auto id_before = [&](int32_t i, int32_t back) {
            const int32_t at = i - back;
            if (at >= 0) {
                const auto row = static_cast<size_t>(sequence.first_row + at);
                return !batch.is_image.empty() && batch.is_image[row] != 0 ? kImageHistory : batch.token_ids[row];
            }
            const int32_t place = static_cast<int32_t>(sequence.history.size()) + at;
            return place >= 0 ? sequence.history[static_cast<size_t>(place)] : kImageHistory;
        };
        for (int32_t i = 0; i < sequence.row_count; ++i) {
            std::fill(classes.begin(), classes.end(), token_classes[static_cast<size_t>(config.pad_token_id)]);
            for (size_t back = 0; back < classes.size(); ++back) {
                const int32_t token = id_before(i, static_cast<int32_t>(back));
                if (token < 0) {
                    break;
                }
                classes[back] = token_classes[static_cast<size_t>(token)];
            }
            engram_rows(hash, classes, {rows.data() + static_cast<size_t>(sequence.first_row + i) * per_token, per_token});
        }
    }
}

}  // namespace di::v41
