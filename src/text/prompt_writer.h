#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_encoding.h"

namespace di {

// Collects a prompt and remembers which bytes are special tokens. Text of clients goes through
// plain() only; that alone decides that nobody can type a control token.
class PromptWriter {
  public:
    // Text that never becomes a special token, whatever it spells.
    void plain(std::string_view text) { prompt_.text += text; }

    // A special token by its spelling.
    void special(std::string_view spelling);

    // Text of ours in which `｜DSML｜`, `<think>` and `</think>` are the real tokens.
    void template_text(std::string_view text);

    // The place of an image in the prompt.
    void image(ImageReference reference);

    EncodedPrompt finish(EncodedPrompt ending);

  private:
    EncodedPrompt prompt_;
};

}  // namespace di
