#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace di {

// Text of one sequence whose ids arrive one by one. What it gives out never changes later and, joined, equals
// Tokenizer::decode of all ids: a character whose bytes are spread over tokens waits until it is whole (at most 3 bytes are
// held back), bytes that can no longer become one are U+FFFD at once.
// Starts empty at the first generated token, whatever the prompt ended with. One object per sequence, one thread.
class Detokenizer {
  public:
    // The tokenizer must outlive this object.
    explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = false);

    // Takes the next id and returns the text that became final with it, often empty.
    [[nodiscard]] std::string push(int32_t id);
    // The end of the sequence: a held tail becomes one U+FFFD. The object is then as new.
    [[nodiscard]] std::string finish();

  private:
    const Tokenizer* tokenizer_;
    bool skip_special_;
    std::string held_;  // the start of a character, so far valid
};

}  // namespace di
