#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_file.h"

namespace di {

// The encoder of SentencePiece's BPE models: start from single characters, join the neighbours whose joined piece has the
// best score (the leftmost of equal score) until no pair makes a piece. Characters without a piece become the tokens of their
// bytes, or the unknown token. O(n log n). Immutable; encode() may be called from many threads.
class SentencePieces {
  public:
    // Bytes of pieces that become part of others are those of `file.vocabulary`; byte tokens are never made by joining.
    explicit SentencePieces(const TokenizerFile& file);

    // Appends the ids of `text`. `has_prefix`: a blank goes in front where the file asks for it (at the start of a text and
    // behind special tokens). Fails on a character that neither pieces nor bytes nor an unknown token express.
    [[nodiscard]] Status encode(std::string_view text, bool has_prefix, std::vector<int32_t>& ids) const;

    [[nodiscard]] bool adds_space_prefix() const { return adds_space_prefix_; }

    // What a piece stands for: blanks for U+2581.
    [[nodiscard]] static std::string bytes_of_piece(std::string_view piece);

  private:
    struct Piece {
        int32_t id;
        float score;
    };
    struct Word;

    [[nodiscard]] const Piece* find(std::string_view spelling) const;
    void consider(Word& word, int32_t position) const;
    void join_all(Word& word) const;
    [[nodiscard]] Status append(std::string_view spelling, bool& was_unknown, std::vector<int32_t>& ids) const;

    std::vector<std::string> spellings_;  // what the keys of pieces_ point into
    std::unordered_map<std::string_view, Piece> pieces_;
    size_t spelling_bytes_max_ = 0;
    std::array<int32_t, 256> byte_ids_;
    std::optional<int32_t> unknown_id_;
    bool adds_space_prefix_;
};

}  // namespace di
