#pragma once

#include <cstdint>

namespace di {

// Source of seeds. Passed in, so that tests own it. Not for secrets.
class Random {
  public:
    virtual ~Random() = default;
    [[nodiscard]] virtual uint64_t next() = 0;
};

// Different numbers in every process.
class SystemRandom : public Random {
  public:
    [[nodiscard]] uint64_t next() override;
};

// The same numbers for the same seed on every machine (SplitMix64).
class SeededRandom : public Random {
  public:
    explicit SeededRandom(uint64_t seed) : state_(seed) {}
    [[nodiscard]] uint64_t next() override {
        state_ += 0x9E3779B97F4A7C15ULL;
        uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return z ^ (z >> 31);
    }
    // Uniform enough for tests in [0, count); count >= 1.
    [[nodiscard]] int64_t below(int64_t count) { return static_cast<int64_t>(next() % static_cast<uint64_t>(count)); }

  private:
    uint64_t state_;
};

}  // namespace di
