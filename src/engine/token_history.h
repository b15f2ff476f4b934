#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace di {

// Whether a request's draws depend on which tokens came before.
[[nodiscard]] bool has_penalties(const SamplingParams& params);

// Which tokens a sequence holds and how often, as penalties need it. Without penalties it keeps nothing and costs nothing.
class TokenHistory {
  public:
    struct Entry {
        int32_t token_id = 0;
        uint32_t output_count = 0;  // 0: only in the prompt
    };

    // Of a request without penalties.
    TokenHistory() = default;
    // `output` is what the sequence has produced already (a request that is computed again).
    TokenHistory(const SamplingParams& params, std::span<const int32_t> prompt, int64_t vocab_size,
                 std::span<const int32_t> output = {});

    // One more token of the output.
    void push(int32_t token_id);
    // Takes back the last `count` tokens pushed.
    void pop(int32_t count);

    // Every distinct token once, in order of first appearance. Ids outside the vocabulary have no logit and are left out.
    [[nodiscard]] std::span<const int32_t> token_ids() const { return token_ids_; }
    [[nodiscard]] uint32_t output_count(int32_t token_id) const { return counts_[static_cast<size_t>(token_id)] & kCountBits; }

  private:
    static constexpr uint32_t kInPrompt = 1U << 31;
    static constexpr uint32_t kCountBits = kInPrompt - 1;

    [[nodiscard]] bool is_counted(int32_t token_id) const {
        return token_id >= 0 && static_cast<size_t>(token_id) < counts_.size();
    }

    std::vector<uint32_t> counts_;    // [vocab] times in the output, and a bit for the prompt; empty: nothing is kept
    std::vector<int32_t> token_ids_;  // those whose count is not 0
    std::vector<int32_t> output_;
};

}  // namespace di
