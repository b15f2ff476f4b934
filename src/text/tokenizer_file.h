#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/pretokenizer.h"

namespace di {

enum class TokenizerModel : uint8_t {
    kByteLevelBpe,    // merges by rank, on bytes in stand-in characters
    kSentencePieces,  // merges by score, on characters, blanks as U+2581; unknown characters by their bytes
};

// What a tokenizer.json, or the vocabulary in a GGUF file, says: types checked, before anything is built from it.
struct TokenizerFile {
    struct Piece {
        std::string spelling;  // in stand-in characters; sentence pieces: with U+2581
        int32_t id;
        float score = 0.0F;  // of sentence pieces: the higher goes first
    };
    TokenizerModel model = TokenizerModel::kByteLevelBpe;
    std::vector<Piece> vocabulary;                            // in no particular order
    std::vector<std::pair<std::string, std::string>> merges;  // best rank first
    bool takes_whole_pieces = false;                          // a piece that is a token needs no merges
    bool has_unknown_token = false;                           // the file names one: right only if it can never come out
    std::vector<AddedToken> added_tokens;
    std::vector<SplitPattern> split_patterns;
    // Of sentence pieces: tokens of single bytes (-1: none), and whether text begins with a blank of its own.
    std::array<int32_t, 256> byte_ids{};
    bool adds_space_prefix = false;
    // Named by the file itself; a tokenizer.json leaves that to tokenizer_config.json.
    std::optional<int32_t> bos_id;
    std::optional<int32_t> eos_id;
    std::optional<int32_t> pad_id;
    std::optional<int32_t> unknown_id;
};

// Parses tokenizer.json. A part that would change the result and that we do not do (a normaliser, other model types, other
// pre-tokenizers, ...) is an error that names it, never ignored.
[[nodiscard]] Result<TokenizerFile> parse_tokenizer_file(std::string_view tokenizer_json);

// The spellings of tokenizer_config.json: bos_token, eos_token, pad_token, each absent, null, a string or an object
// with "content".
struct NamedTokens {
    std::optional<std::string> bos;
    std::optional<std::string> eos;
    std::optional<std::string> pad;
};
[[nodiscard]] Result<NamedTokens> parse_tokenizer_config(std::string_view tokenizer_config_json);

// The "chat_template" of tokenizer_config.json: a string, or of a list of {name, template} the one named "default"; none where
// there is none.
[[nodiscard]] Result<std::optional<std::string>> parse_chat_template(std::string_view tokenizer_config_json);

}  // namespace di
