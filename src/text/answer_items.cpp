#include "text/answer_items.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/chat_tokens.h"
#include "text/unicode.h"

namespace di {
namespace {

using Kind = AnswerItem::Kind;

struct MarkerSpelling {
    std::string_view letters;
    Kind kind;
};

// By AnswerMarker. None is the beginning of another, each begins a character.
constexpr std::array kMarkers = {
    MarkerSpelling{kThinkToken, Kind::kThink},
    MarkerSpelling{kThinkEndToken, Kind::kThinkEnd},
    MarkerSpelling{kToolMarkerToken, Kind::kToolMarker},
};

void append_item(AnswerItems& items, Kind kind, std::string text) {
    if (!text.empty()) {
        items.push_back({.kind = kind, .text = std::move(text)});
    }
}

bool begins_marker(std::string_view text) {
    return std::any_of(kMarkers.begin(), kMarkers.end(),
                       [text](const MarkerSpelling& marker) { return marker.letters.starts_with(text); });
}

}  // namespace

void AnswerInput::push_text(std::string_view piece, AnswerItems& items) {
    std::string text = whole_characters(piece);
    if (finds_markers_) {
        find_markers(text, items);
    } else {
        append_item(items, Kind::kText, std::move(text));
    }
}

void AnswerInput::push_marker(AnswerMarker marker, AnswerItems& items) {
    finish(items);
    const MarkerSpelling& spelling = kMarkers[static_cast<size_t>(marker)];
    append_item(items, spelling.kind, std::string(spelling.letters));
}

void AnswerInput::finish(AnswerItems& items) {
    std::string rest = std::exchange(held_, {});
    if (!tail_.empty()) {
        append_utf8(rest, 0xFFFD);
        tail_.clear();
    }
    append_item(items, Kind::kText, std::move(rest));
}

std::string AnswerInput::whole_characters(std::string_view piece) {
    if (tail_.empty() && is_valid_utf8(piece)) {
        return std::string(piece);
    }
    const std::string bytes = std::exchange(tail_, {}) + std::string(piece);
    std::string text;
    for (std::string_view rest = bytes; !rest.empty();) {
        const Utf8Step step = utf8_step(rest);
        if (step.kind == Utf8Step::Kind::kIncomplete) {
            tail_ = rest;
            break;
        }
        append_utf8(text, step.code_point);
        rest.remove_prefix(step.length);
    }
    return text;
}

void AnswerInput::find_markers(std::string_view text, AnswerItems& items) {
    std::string run;
    for (const char byte : text) {
        held_ += byte;
        size_t dropped = 0;
        while (dropped < held_.size() && !begins_marker(std::string_view(held_).substr(dropped))) {
            ++dropped;
        }
        run.append(held_, 0, dropped);
        held_.erase(0, dropped);
        for (const MarkerSpelling& marker : kMarkers) {
            if (held_ == marker.letters) {
                append_item(items, Kind::kText, std::exchange(run, {}));
                append_item(items, marker.kind, std::exchange(held_, {}));
                break;
            }
        }
    }
    append_item(items, Kind::kText, std::move(run));
}

}  // namespace di
