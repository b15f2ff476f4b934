#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/token_mask.h"
#include "text/state_history.h"

namespace di {

// Where calls may begin in an output that is free otherwise.
struct ToolCallGate {
    int32_t marker_id = -1;
    std::vector<int32_t> end_token_ids{};
    // By id: the token's text ends in `<`. Behind one of these, and nowhere else, the marker opens a block. Shared by all
    // masks of a vocabulary, written before any of them is made.
    std::shared_ptr<const std::vector<bool>> opens_tag{};
    std::optional<int32_t> reasoning_end_id{};  // behind it another mask decides
    bool must_call = false;                     // the free part does not end the answer
};

// Leaves tokens free until a call or, where one is given, the end of the reasoning; then another mask decides.
class ToolCallMask : public TokenMask {
  public:
    // `behind_marker` begins behind `<` and the marker; `behind_reasoning` behind gate.reasoning_end_id, null without one.
    ToolCallMask(std::shared_ptr<const ToolCallGate> gate, std::unique_ptr<TokenMask> behind_marker,
                 std::unique_ptr<TokenMask> behind_reasoning);

    [[nodiscard]] bool accept(int32_t token_id) override;
    void rollback(int32_t count) override;
    [[nodiscard]] bool fill(std::span<uint32_t> words) override;
    [[nodiscard]] bool is_finished() const override;
    [[nodiscard]] std::unique_ptr<TokenMask> clone() const override;

  private:
    enum class Phase : uint8_t { kFree, kBehindMarker, kBehindReasoning, kEnded };
    // Between two tokens.
    struct State {
        Phase phase = Phase::kFree;
        bool is_tag_open = false;  // the last token's text ends in `<`
    };
    [[nodiscard]] TokenMask* inner(Phase phase) const;
    [[nodiscard]] bool is_end(int32_t token_id) const;
    [[nodiscard]] std::optional<State> next_free(int32_t token_id) const;

    std::shared_ptr<const ToolCallGate> gate_;  // with its clones and its source; nobody changes it
    std::unique_ptr<TokenMask> behind_marker_;
    std::unique_ptr<TokenMask> behind_reasoning_;
    State state_;
    StateHistory<State> history_;
};

}  // namespace di
