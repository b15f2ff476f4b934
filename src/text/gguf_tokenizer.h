#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer_file.h"

namespace di {

// The vocabulary inside a GGUF file, the keys tokenizer.ggml.*, as plain values: whoever reads the file fills it in. Does
// not own.
struct GgufVocabulary {
    std::string_view model;                    // "gpt2": byte-level BPE; "llama": SentencePiece
    std::string_view pretokenizer;             // .pre, of BPE only
    std::span<const std::string_view> tokens;  // by id; BPE: in stand-in characters
    std::span<const int32_t> types;            // of each token, or empty: all normal
    std::span<const float> scores;             // of each token, SentencePiece only
    std::span<const std::string_view> merges;  // "a b", best rank first
    std::optional<int64_t> bos_id;
    std::optional<int64_t> eos_id;
    std::optional<int64_t> pad_id;
    std::optional<int64_t> unknown_id;
    std::optional<bool> adds_space_prefix;
};

// Checks and translates it. A pre-tokenizer whose name we do not know is refused: a wrong one is silent damage.
[[nodiscard]] Result<TokenizerFile> tokenizer_of_gguf(const GgufVocabulary& vocabulary);

}  // namespace di
