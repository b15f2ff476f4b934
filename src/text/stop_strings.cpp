#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/limits.h"

namespace di {

Status validate_stop_strings(std::span<const std::string> stops) {
    if (stops.size() > kStopStringsMax) {
        return fail(ErrorCode::kInvalidArgument, "stop: {} strings, expected at most {}", stops.size(), kStopStringsMax);
    }
    for (size_t i = 0; i < stops.size(); ++i) {
        if (stops[i].empty()) {
            return fail(ErrorCode::kInvalidArgument, "stop[{}] is empty, expected at least one character", i);
        }
        if (stops[i].size() > kStopStringBytesMax) {
            return fail(ErrorCode::kInvalidArgument, "stop[{}] has {} bytes, expected at most {}", i, stops[i].size(),
                        kStopStringBytesMax);
        }
    }
    return {};
}

StopStrings::StopStrings(std::span<const std::string> stops) {
    for (const std::string& stop : stops) {
        DI_CHECK(!stop.empty(), "an empty stop string was not refused");
        Pattern pattern{.text = stop, .border = std::vector<uint32_t>(stop.size() + 1, 0)};
        for (size_t i = 1, length = 0; i < stop.size(); ++i) {
            while (length > 0 && stop[i] != stop[length]) {
                length = pattern.border[length];
            }
            length += stop[i] == stop[length] ? 1 : 0;
            pattern.border[i + 1] = static_cast<uint32_t>(length);
        }
        patterns_.push_back(std::move(pattern));
    }
}

// Knuth-Morris-Pratt: afterwards `length` is that of the longest start of the pattern that the input ends with.
void StopStrings::advance(Pattern& pattern, char byte) {
    while (pattern.length > 0 && pattern.text[pattern.length] != byte) {
        pattern.length = pattern.border[pattern.length];
    }
    pattern.length += pattern.text[pattern.length] == byte ? 1 : 0;
}

std::string StopStrings::push(std::string_view piece) {
    if (is_matched()) {
        return {};
    }
    for (const char byte : piece) {
        held_ += byte;
        for (size_t i = 0; i < patterns_.size(); ++i) {
            advance(patterns_[i], byte);
            if (patterns_[i].length == patterns_[i].text.size() && !is_matched()) {
                matched_ = static_cast<int>(i);
            }
        }
        if (is_matched()) {
            // A match lies wholly in what is held: its start was the start of a possible match ever since.
            held_.resize(held_.size() - patterns_[static_cast<size_t>(matched_)].text.size());
            return std::move(held_);
        }
    }
    size_t undecided = 0;
    for (const Pattern& pattern : patterns_) {
        undecided = std::max(undecided, pattern.length);
    }
    std::string released = held_.substr(0, held_.size() - undecided);
    held_.erase(0, released.size());
    return released;
}

std::string StopStrings::finish() {
    if (is_matched()) {
        return {};
    }
    std::string released = std::move(held_);
    held_.clear();
    return released;
}

}  // namespace di
