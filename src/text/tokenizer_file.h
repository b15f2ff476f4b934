#pragma once

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

// What a byte-level BPE tokenizer.json says, types checked, before anything is built from it.
struct TokenizerFile {
    struct Piece {
        std::string spelling;  // in stand-in characters
        int32_t id;
    };
    std::vector<Piece> vocabulary;                            // in no particular order
    std::vector<std::pair<std::string, std::string>> merges;  // best rank first
    bool has_unknown_token = false;                           // the file names one: right only if it can never come out
    std::vector<AddedToken> added_tokens;
    std::vector<SplitPattern> split_patterns;
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

}  // namespace di
