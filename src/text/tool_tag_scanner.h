#pragma once

#include <string>
#include <string_view>

#include "text/answer_items.h"

namespace di {

// Finds the tags of tool calls among the items of an output, in every spelling that DeepSeek's models have had (V4.1: a blank
// before the name; V4 and V3.2: none, and other names of the block). A marker that no bracket precedes, or no known name
// follows, is text again.
class ToolTagScanner {
  public:
    void push(const AnswerItem& item, AnswerItems& items);
    void finish(AnswerItems& items);

  private:
    void push_text(std::string_view text, AnswerItems& items);
    void push_character(char c, AnswerItems& items);
    void end_run(AnswerItems& items);
    // What was held back is text.
    void release();

    std::string run_;   // text, to be given out with the next item
    std::string held_;  // "<" or "</", or with is_tag_ a bracket, the marker and a beginning of a name
    bool is_tag_ = false;
    size_t name_at_ = 0;  // where in held_ the name begins
};

}  // namespace di
