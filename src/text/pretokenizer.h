#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace di {

// One split of a pre-tokenizer, behaviour "Isolated": matches and the gaps between them become pieces.
struct SplitPattern {
    std::string text;
    bool is_regex = true;  // otherwise a literal string
};

// Cuts text into the pieces that BPE never merges across. The patterns apply in order, each to
// every piece that the one before left, and see nothing outside that piece. Regular expressions
// are in the dialect of tokenizer.json (Oniguruma); what would mean something else here is refused.
// Immutable after creation: one object may serve many threads.
class Pretokenizer {
  public:
    // No pattern at all is allowed: then a text is one piece.
    [[nodiscard]] static Result<Pretokenizer> create(const std::vector<SplitPattern>& patterns);

    // The pieces of `text` in order, none empty, together the whole text; they point into it. `text` must be valid
    // UTF-8. Fails only when a pattern backtracks beyond its limit.
    [[nodiscard]] Result<std::vector<std::string_view>> split(std::string_view text) const;

    Pretokenizer(Pretokenizer&&) noexcept;
    Pretokenizer& operator=(Pretokenizer&&) noexcept;
    ~Pretokenizer();

  private:
    struct Program;
    struct Scratch;
    Pretokenizer();
    static Status split_piece(const Program& program, std::string_view piece, Scratch& scratch,
                              std::vector<std::string_view>& pieces);

    std::vector<std::unique_ptr<const Program>> programs_;
};

}  // namespace di
