#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace di {

// At most kStopStringsMax strings, none empty, none longer than kStopStringBytesMax (limits.h).
[[nodiscard]] Status validate_stop_strings(std::span<const std::string> stops);

// Cuts a text that arrives piece by piece before the first stop string in it. What was given out never contains any
// byte of a stop string that is found: text that may be the start of one waits until that is decided, and is then
// given out exactly once. The match that ends first wins; of several that end together the one listed first.
// How the text is cut into pieces changes nothing. One object per text.
class StopStrings {
  public:
    // The strings must have passed validate_stop_strings(). None: every piece is given out at once.
    explicit StopStrings(std::span<const std::string> stops);

    // Takes the next piece and returns the text that became final with it. After a match nothing more comes out.
    [[nodiscard]] std::string push(std::string_view piece);
    // The end of the text: what was held back, as no stop string was completed.
    [[nodiscard]] std::string finish();

    [[nodiscard]] bool is_matched() const { return matched_ >= 0; }
    // Index of the stop string that was found, -1 if none was.
    [[nodiscard]] int matched_index() const { return matched_; }

  private:
    struct Pattern {
        std::string text;
        std::vector<uint32_t> border;  // [length + 1] longest proper prefix of text[0, i) that is also its suffix
        size_t length = 0;             // bytes of `text` that the end of the input equals
    };
    static void advance(Pattern& pattern, char byte);

    std::vector<Pattern> patterns_;
    std::string held_;
    int matched_ = -1;
};

}  // namespace di
