#include "engine/token_history.h"

#include "base/check.h"

namespace di {

bool has_penalties(const SamplingParams& params) {
    return params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 || params.frequency_penalty != 0.0;
}

TokenHistory::TokenHistory(const SamplingParams& params, std::span<const int32_t> prompt, int64_t vocab_size,
                           std::span<const int32_t> output) {
    if (!has_penalties(params)) {
        return;
    }
    counts_.resize(static_cast<size_t>(vocab_size), 0);
    if (params.repetition_penalty != 1.0) {  // the others count the output only
        for (const int32_t id : prompt) {
            if (is_counted(id) && counts_[static_cast<size_t>(id)] == 0) {
                counts_[static_cast<size_t>(id)] = kInPrompt;
                token_ids_.push_back(id);
            }
        }
    }
    for (const int32_t id : output) {
        push(id);
    }
}

void TokenHistory::push(int32_t token_id) {
    if (counts_.empty()) {
        return;
    }
    output_.push_back(token_id);
    if (!is_counted(token_id)) {
        return;
    }
    uint32_t& count = counts_[static_cast<size_t>(token_id)];
    if (count == 0) {
        token_ids_.push_back(token_id);
    }
    ++count;
}

void TokenHistory::pop(int32_t count) {
    if (counts_.empty()) {
        return;
    }
    DI_CHECK(count >= 0 && static_cast<size_t>(count) <= output_.size(), "more tokens taken back than were pushed");
    for (; count > 0; --count) {
        const int32_t id = output_.back();
        output_.pop_back();
        if (is_counted(id) && --counts_[static_cast<size_t>(id)] == 0) {
            // Last in, first out: an id that is gone now was listed by the push that is taken back.
            DI_CHECK(token_ids_.back() == id, "the order of distinct tokens is broken");
            token_ids_.pop_back();
        }
    }
}

}  // namespace di
