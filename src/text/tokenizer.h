#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/sentence_pieces.h"
#include "text/tokenizer_file.h"

namespace di {

struct EncodeOptions {
    // True: spellings of added tokens become their ids. False: they are ordinary text, which is how text from
    // outside enters a prompt (a user who types `<｜User｜>` must not open a turn); a GGUF's user-defined tokens are found anyway.
    bool recognize_added_tokens = false;
};

// A tokenizer as Hugging Face's tokenizer.json (byte-level BPE) or a GGUF file (that, or sentence pieces) describes it. No
// normalisation, no template: encode adds nothing to what the text says, but the blank that sentence pieces begin with.
// Immutable after loading; all members may be called from many threads.
class Tokenizer {
  public:
    // Reads tokenizer.json of a model directory, and tokenizer_config.json where there is one.
    [[nodiscard]] static Result<Tokenizer> open(const std::string& model_directory);
    // From the text of the two files; `tokenizer_config_json` may be empty.
    [[nodiscard]] static Result<Tokenizer> parse(std::string_view tokenizer_json, std::string_view tokenizer_config_json = {});
    // From any file's parsed content.
    [[nodiscard]] static Result<Tokenizer> create(const TokenizerFile& file);

    // Ids of valid UTF-8. Fails on ill-formed text, on text beyond the limit (limits.h), and on a byte that the
    // vocabulary lacks.
    [[nodiscard]] Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options) const;
    [[nodiscard]] Result<std::vector<int32_t>> encode_special(std::string_view text) const {
        return encode(text, {.recognize_added_tokens = true});
    }
    [[nodiscard]] Result<std::vector<int32_t>> encode_plain(std::string_view text) const {
        return encode(text, {.recognize_added_tokens = false});
    }

    // Where encode_special() finds added tokens: the stretches of `text` in order.
    [[nodiscard]] std::vector<TextSegment> find_added_tokens(std::string_view text) const { return added_tokens_.split(text); }

    // Text of all ids together; bytes that are no UTF-8 become U+FFFD. Ids without a token give nothing. The blank that
    // encoding puts in front of sentence pieces is taken away again.
    // For ids that arrive one by one use Detokenizer.
    [[nodiscard]] std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

    // Bytes that the token stands for, possibly half a character; empty for an id without a token.
    [[nodiscard]] std::string_view token_bytes(int32_t id) const;
    // As the vocabulary spells it, in stand-in characters (`Ġthe`).
    [[nodiscard]] std::string_view piece(int32_t id) const;
    // Id of a piece or an added token with exactly this spelling.
    [[nodiscard]] std::optional<int32_t> find(std::string_view spelling) const;
    // Added and marked special: decode(ids, skip_special = true) leaves it out.
    [[nodiscard]] bool is_special(int32_t id) const;
    [[nodiscard]] bool is_added(int32_t id) const;

    // One more than the highest id. Below it there may be ids without a token.
    [[nodiscard]] int64_t vocabulary_size() const { return static_cast<int64_t>(tokens_.size()); }

    // Named by tokenizer_config.json (or the GGUF file) and found in the vocabulary, else none.
    [[nodiscard]] std::optional<int32_t> bos_id() const { return bos_id_; }
    [[nodiscard]] std::optional<int32_t> eos_id() const { return eos_id_; }
    [[nodiscard]] std::optional<int32_t> pad_id() const { return pad_id_; }

  private:
    struct Token {
        std::string piece;
        std::string bytes;
        bool is_added = false;
        bool is_special = false;
    };
    // Keys point into tokens_[id].piece.
    using IdsByPiece = std::unordered_map<std::string_view, int32_t>;
    struct ByteLevelBpe {
        Pretokenizer pretokenizer;
        Bpe bpe;
        bool takes_whole_pieces;
    };
    using Model = std::variant<ByteLevelBpe, SentencePieces>;

    Tokenizer(std::vector<Token> tokens, IdsByPiece ids, const TokenizerFile& file, Model model);
    [[nodiscard]] static Result<Model> create_model(const TokenizerFile& file, const IdsByPiece& ids);
    [[nodiscard]] static Status add_token(const AddedToken& added, std::vector<Token>& tokens, IdsByPiece& ids);
    [[nodiscard]] const Token* token(int32_t id) const;
    [[nodiscard]] Status encode_text(std::string_view text, bool has_prefix, std::vector<int32_t>& ids) const;
    [[nodiscard]] Status encode_piece(const ByteLevelBpe& model, std::string_view piece, std::vector<int32_t>& ids) const;

    std::vector<Token> tokens_;
    IdsByPiece ids_;
    AddedTokens added_tokens_;
    AddedTokens plain_text_tokens_;  // those that are found in plain text, too
    Model model_;
    std::optional<int32_t> bos_id_;
    std::optional<int32_t> eos_id_;
    std::optional<int32_t> pad_id_;
};

}  // namespace di
