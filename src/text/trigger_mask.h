#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/token_mask.h"
#include "text/state_history.h"

namespace di {

// Leaves tokens free until a sequence of them, the trigger, has come; from the very next token on another mask decides.
// Where a bound token comes first, the trigger is then forced token by token. The answer may end before the trigger.
class TriggerMask : public TokenMask {
  public:
    // `trigger` is not empty. `end_token_ids` end an answer that is still free.
    TriggerMask(std::unique_ptr<TokenMask> inner, std::vector<int32_t> trigger, std::optional<int32_t> bound,
                std::vector<int32_t> end_token_ids);

    [[nodiscard]] bool accept(int32_t token_id) override;
    void rollback(int32_t count) override;
    [[nodiscard]] bool fill(std::span<uint32_t> words) override;
    [[nodiscard]] bool is_finished() const override;
    [[nodiscard]] std::unique_ptr<TokenMask> clone() const override;

  private:
    enum class Phase : uint8_t { kFree, kForced, kInner, kEnded };
    // Between two tokens: `matched` tokens of the trigger have come (kFree) or been forced (kForced).
    struct State {
        Phase phase = Phase::kFree;
        size_t matched = 0;
    };
    [[nodiscard]] State next_free(int32_t token_id) const;

    std::unique_ptr<TokenMask> inner_;
    std::vector<int32_t> trigger_;
    std::vector<size_t> fallback_;  // [i]: the longest proper beginning of the trigger that ends its first i + 1 tokens
    std::optional<int32_t> bound_;
    std::vector<int32_t> end_token_ids_;
    State state_;
    StateHistory<State> history_;
};

}  // namespace di
