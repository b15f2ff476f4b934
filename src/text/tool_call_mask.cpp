#include "text/tool_call_mask.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace di {
namespace {

void clear_bit(std::span<uint32_t> words, int32_t token_id) {
    const auto id = static_cast<size_t>(token_id);
    DI_CHECK(id / 32 < words.size(), "a token outside of the vocabulary");
    words[id / 32] &= ~(1U << (id % 32));
}

}  // namespace

ToolCallMask::ToolCallMask(std::shared_ptr<const ToolCallGate> gate, std::unique_ptr<TokenMask> behind_marker,
                           std::unique_ptr<TokenMask> behind_reasoning)
    : gate_(std::move(gate)), behind_marker_(std::move(behind_marker)), behind_reasoning_(std::move(behind_reasoning)) {
    DI_CHECK(behind_marker_ != nullptr && gate_->opens_tag != nullptr, "a gate leads somewhere");
    DI_CHECK(gate_->reasoning_end_id.has_value() == (behind_reasoning_ != nullptr), "the end of the reasoning leads somewhere");
}

TokenMask* ToolCallMask::inner(Phase phase) const {
    return phase == Phase::kBehindMarker      ? behind_marker_.get()
           : phase == Phase::kBehindReasoning ? behind_reasoning_.get()
                                              : nullptr;
}

bool ToolCallMask::is_end(int32_t token_id) const {
    return std::find(gate_->end_token_ids.begin(), gate_->end_token_ids.end(), token_id) != gate_->end_token_ids.end();
}

// None: the token is refused.
std::optional<ToolCallMask::State> ToolCallMask::next_free(int32_t token_id) const {
    if (token_id < 0) {
        return std::nullopt;
    }
    if (token_id == gate_->marker_id) {
        return state_.is_tag_open ? std::optional(State{.phase = Phase::kBehindMarker}) : std::nullopt;
    }
    if (is_end(token_id)) {
        return gate_->must_call ? std::nullopt : std::optional(State{.phase = Phase::kEnded});
    }
    if (gate_->reasoning_end_id == token_id) {
        return State{.phase = Phase::kBehindReasoning};
    }
    const auto id = static_cast<size_t>(token_id);
    return State{.is_tag_open = id < gate_->opens_tag->size() && (*gate_->opens_tag)[id]};
}

bool ToolCallMask::accept(int32_t token_id) {
    State next = state_;
    if (TokenMask* mask = inner(state_.phase)) {
        if (!mask->accept(token_id)) {
            return false;
        }
    } else if (state_.phase == Phase::kEnded) {
        return false;
    } else if (const std::optional<State> free = next_free(token_id)) {
        next = *free;
    } else {
        return false;
    }
    history_.remember(state_);
    state_ = next;
    return true;
}

void ToolCallMask::rollback(int32_t count) {
    // An output passes one of the two masks at most: none leads back to free text.
    TokenMask* mask = inner(state_.phase);
    const int32_t inner_count =
        history_.take_back(count, state_, [this](const State& before) { return inner(before.phase) != nullptr; });
    if (inner_count > 0) {
        mask->rollback(inner_count);
    }
}

bool ToolCallMask::fill(std::span<uint32_t> words) {
    if (TokenMask* mask = inner(state_.phase)) {
        return mask->fill(words);
    }
    if (state_.phase == Phase::kEnded) {
        std::fill(words.begin(), words.end(), 0U);
        return true;
    }
    std::fill(words.begin(), words.end(), ~0U);
    if (!state_.is_tag_open) {
        clear_bit(words, gate_->marker_id);
    }
    if (gate_->must_call) {
        for (const int32_t id : gate_->end_token_ids) {
            clear_bit(words, id);
        }
    }
    return true;
}

bool ToolCallMask::is_finished() const {
    const TokenMask* mask = inner(state_.phase);
    return mask != nullptr ? mask->is_finished() : state_.phase == Phase::kEnded;
}

std::unique_ptr<TokenMask> ToolCallMask::clone() const {
    auto copy = std::make_unique<ToolCallMask>(gate_, behind_marker_->clone(),
                                               behind_reasoning_ == nullptr ? nullptr : behind_reasoning_->clone());
    copy->state_ = state_;
    copy->history_ = history_;
    return copy;
}

}  // namespace di
