#include "text/trigger_mask.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace di {

TriggerMask::TriggerMask(std::unique_ptr<TokenMask> inner, std::vector<int32_t> trigger, std::optional<int32_t> bound,
                         std::vector<int32_t> end_token_ids)
    : inner_(std::move(inner)),
      trigger_(std::move(trigger)),
      fallback_(trigger_.size(), 0),
      bound_(bound),
      end_token_ids_(std::move(end_token_ids)) {
    DI_CHECK(!trigger_.empty(), "a trigger has at least one token");
    // Knuth, Morris and Pratt.
    for (size_t i = 1; i < trigger_.size(); ++i) {
        size_t length = fallback_[i - 1];
        while (length > 0 && trigger_[length] != trigger_[i]) {
            length = fallback_[length - 1];
        }
        fallback_[i] = length + (trigger_[length] == trigger_[i] ? 1 : 0);
    }
}

TriggerMask::State TriggerMask::next_free(int32_t token_id) const {
    size_t matched = state_.matched;
    while (matched > 0 && trigger_[matched] != token_id) {
        matched = fallback_[matched - 1];
    }
    matched += trigger_[matched] == token_id ? 1 : 0;
    if (matched == trigger_.size()) {
        return {.phase = Phase::kInner, .matched = 0};
    }
    if (bound_ == token_id) {
        return {.phase = Phase::kForced, .matched = 0};
    }
    if (std::find(end_token_ids_.begin(), end_token_ids_.end(), token_id) != end_token_ids_.end()) {
        return {.phase = Phase::kEnded, .matched = 0};
    }
    return {.phase = Phase::kFree, .matched = matched};
}

bool TriggerMask::accept(int32_t token_id) {
    State next = state_;
    switch (state_.phase) {
        case Phase::kFree: next = next_free(token_id); break;
        case Phase::kForced:
            if (token_id != trigger_[state_.matched]) {
                return false;
            }
            next.matched = state_.matched + 1;
            if (next.matched == trigger_.size()) {
                next = {.phase = Phase::kInner, .matched = 0};
            }
            break;
        case Phase::kInner:
            if (!inner_->accept(token_id)) {
                return false;
            }
            break;
        case Phase::kEnded: return false;
    }
    history_.remember(state_);
    state_ = next;
    return true;
}

void TriggerMask::rollback(int32_t count) {
    const int32_t inner_count =
        history_.take_back(count, state_, [](const State& before) { return before.phase == Phase::kInner; });
    if (inner_count > 0) {
        inner_->rollback(inner_count);
    }
}

bool TriggerMask::fill(std::span<uint32_t> words) {
    if (state_.phase == Phase::kFree) {
        return false;
    }
    if (state_.phase == Phase::kInner) {
        return inner_->fill(words);
    }
    std::fill(words.begin(), words.end(), 0U);
    if (state_.phase == Phase::kForced) {
        const auto id = static_cast<size_t>(trigger_[state_.matched]);
        DI_CHECK(id / 32 < words.size(), "a trigger token outside of the vocabulary");
        words[id / 32] |= 1U << (id % 32);
    }
    return true;
}

bool TriggerMask::is_finished() const {
    return state_.phase == Phase::kEnded || (state_.phase == Phase::kInner && inner_->is_finished());
}

std::unique_ptr<TokenMask> TriggerMask::clone() const {
    auto copy = std::make_unique<TriggerMask>(inner_->clone(), trigger_, bound_, end_token_ids_);
    copy->state_ = state_;
    copy->history_ = history_;
    return copy;
}

}  // namespace di
