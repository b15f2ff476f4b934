#include "text/json_fence.h"

#include <utility>

namespace di {
namespace {

constexpr std::string_view kOpening = "```json\n";
constexpr std::string_view kPlainOpening = "```\n";
constexpr std::string_view kClosing = "\n```";

// Drops from the front of `held` what cannot belong to a fence, and returns it.
template <typename Begins>
std::string drop_front(std::string& held, const Begins& begins) {
    size_t dropped = 0;
    while (dropped < held.size() && !begins(std::string_view(held).substr(dropped))) {
        ++dropped;
    }
    std::string front = held.substr(0, dropped);
    held.erase(0, dropped);
    return front;
}

}  // namespace

std::string JsonFence::push(std::string_view piece) {
    if (state_ == State::kBefore) {
        piece.remove_prefix(push_before(piece));
    }
    switch (state_) {
        case State::kBare: return std::string(piece);
        case State::kFenced: return push_fenced(piece);
        case State::kBefore:
        case State::kAfter: break;
    }
    return {};
}

std::string JsonFence::finish() { return state_ == State::kFenced ? std::exchange(held_, {}) : std::string(); }

// How many bytes are no part of the JSON.
size_t JsonFence::push_before(std::string_view piece) {
    for (size_t i = 0; i < piece.size(); ++i) {
        if (piece[i] == '{' || piece[i] == '[') {
            state_ = State::kBare;
            return i;
        }
        held_ += piece[i];
        (void)drop_front(held_,
                         [](std::string_view text) { return kOpening.starts_with(text) || kPlainOpening.starts_with(text); });
        if (held_ == kOpening || held_ == kPlainOpening) {
            held_.clear();
            state_ = State::kFenced;
            return i + 1;
        }
    }
    return piece.size();
}

std::string JsonFence::push_fenced(std::string_view piece) {
    std::string out;
    for (const char c : piece) {
        held_ += c;
        out += drop_front(held_, [](std::string_view text) { return kClosing.starts_with(text); });
        if (held_ == kClosing) {
            state_ = State::kAfter;
            break;
        }
    }
    return out;
}

}  // namespace di
