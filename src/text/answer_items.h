#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer_parser.h"

// What an output is made of before anything is made of it: text, markers and the tags that markers open.
namespace di {

struct AnswerItem {
    enum class Kind : uint8_t {
        kText,
        kThink,
        kThinkEnd,
        kToolMarker,
        // Made of a tool marker and the text around it (tool_tag_scanner.h).
        kBlockOpen,      // `<｜DSML｜ calls>`
        kInvokeOpen,     // `<｜DSML｜ invoke name="`
        kParameterOpen,  // `<｜DSML｜ parameter name="`
        kToolClose,      // `</｜DSML｜`
    };
    Kind kind = Kind::kText;
    std::string text;  // its letters, for wherever it means nothing
};
using AnswerItems = std::vector<AnswerItem>;

// Makes items of what comes, however it is cut: bytes become whole characters (what is none becomes U+FFFD), and the letters
// of markers become markers where they are to be found so.
class AnswerInput {
  public:
    explicit AnswerInput(bool finds_markers) : finds_markers_(finds_markers) {}

    void push_text(std::string_view piece, AnswerItems& items);
    void push_marker(AnswerMarker marker, AnswerItems& items);
    void finish(AnswerItems& items);

  private:
    [[nodiscard]] std::string whole_characters(std::string_view piece);
    void find_markers(std::string_view text, AnswerItems& items);

    bool finds_markers_;
    std::string tail_;  // the start of a character, so far valid
    std::string held_;  // the start of a marker's letters
};

}  // namespace di
