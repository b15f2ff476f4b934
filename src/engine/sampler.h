#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace di {

// One row to draw a token from. Everything a draw depends on is here: nothing else in the process can change it.
struct SampleRow {
    std::span<const float> logits;  // [vocab] as the model gave them
    double temperature = 1.0;       // below kGreedyTemperature: arg-max, filters off
    double top_p = 1.0;
    int32_t top_k = -1;
    uint64_t seed = 0;
    int64_t index = 0;                      // place of the new token in prompt + output
    std::span<const int32_t> banned_ids{};  // never drawn; may hold an id twice
    int32_t forced_id = -1;                 // >= 0: this token, whatever the logits say
};

struct SampledToken {
    int32_t id = 0;
    float logprob = 0.0F;  // ln softmax of the unchanged logits at `id`
};

// Draws tokens by the rules of one row: ban, temperature, top-p and top-k (both on the full distribution, intersected),
// then the largest of logit / temperature + Gumbel noise, lowest id on ties. Holds scratch memory only; one thread.
class Sampler {
  public:
    explicit Sampler(int64_t vocab_size);

    // Fails when a logit is not finite or every token is banned.
    [[nodiscard]] Result<SampledToken> sample(const SampleRow& row);

    // The ids that filters and bans leave. Where they leave fewer than all: most likely first (ties: lower id first).
    // Valid until the next call.
    [[nodiscard]] std::span<const int32_t> kept_ids(const SampleRow& row);

  private:
    [[nodiscard]] int64_t count_top_p(const SampleRow& row, int64_t count_max);
    void order_next(std::span<const float> logits, int64_t begin, int64_t end);
    [[nodiscard]] int32_t draw(const SampleRow& row, std::span<const int32_t> ids) const;

    std::vector<int32_t> ids_;        // candidates of the row
    std::vector<uint8_t> is_banned_;  // [vocab], all 0 between calls
};

}  // namespace di
