#include "text/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "text/limits.h"
#include "text/unicode.h"

namespace di {

namespace {

constexpr ErrorCode kBadFile = ErrorCode::kInvalidFile;

// Numbers of tokenizer.ggml.token_type.
enum class TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// --- pre-tokenizers by name -------------------------------------------------------

constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr std::string_view kLlama3 =
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kLineEnd = R"([\r\n])";
constexpr std::string_view kHanAndHangul = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kDeepseekCased =
    R"(\s?[)"
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59})"
    R"(\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC})"
    R"(\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D})"
    R"(\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B})"
    R"(\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"
    R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2})"
    R"(\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)";
constexpr std::string_view kDeepseekPunctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr std::string_view kDeepseekV3Han = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kDeepseekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array kGpt2Splits{kGpt2};
constexpr std::array kSmollmSplits{kDigit, kGpt2};
constexpr std::array kLlama3Splits{kLlama3};
constexpr std::array kQwen2Splits{kQwen2};
constexpr std::array<std::string_view, 6> kDeepseekLlmSplits{kLineEnd,  kDeepseekCased, kDeepseekPunctuation,
                                                             R"(\s+$)", kHanAndHangul,  R"(\p{N}+)"};
constexpr std::array<std::string_view, 5> kDeepseekCoderSplits{kLineEnd, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kHanAndHangul, kDigit};
constexpr std::array<std::string_view, 3> kDeepseekV3Splits{R"(\p{N}{1,3})", kDeepseekV3Han, kDeepseekV3};

struct NamedPretokenizer {
    std::string_view name;
    std::span<const std::string_view> splits;
    bool takes_whole_pieces = false;
};

constexpr std::array kPretokenizers{
    NamedPretokenizer{.name = "gpt-2", .splits = kGpt2Splits},
    NamedPretokenizer{.name = "phi-2", .splits = kGpt2Splits},
    NamedPretokenizer{.name = "smollm", .splits = kSmollmSplits},
    NamedPretokenizer{.name = "starcoder", .splits = kSmollmSplits},
    NamedPretokenizer{.name = "refact", .splits = kSmollmSplits},
    NamedPretokenizer{.name = "command-r", .splits = kSmollmSplits},
    NamedPretokenizer{.name = "codeshell", .splits = kSmollmSplits},
    NamedPretokenizer{.name = "exaone", .splits = kSmollmSplits},
    NamedPretokenizer{.name = "minerva-7b", .splits = kSmollmSplits},
    NamedPretokenizer{.name = "llama-bpe", .splits = kLlama3Splits, .takes_whole_pieces = true},
    NamedPretokenizer{.name = "llama3", .splits = kLlama3Splits, .takes_whole_pieces = true},
    NamedPretokenizer{.name = "llama-v3", .splits = kLlama3Splits, .takes_whole_pieces = true},
    NamedPretokenizer{.name = "qwen2", .splits = kQwen2Splits},
    NamedPretokenizer{.name = "deepseek-r1-qwen", .splits = kQwen2Splits},
    NamedPretokenizer{.name = "deepseek-llm", .splits = kDeepseekLlmSplits},
    NamedPretokenizer{.name = "deepseek-coder", .splits = kDeepseekCoderSplits},
    NamedPretokenizer{.name = "deepseek-v3", .splits = kDeepseekV3Splits},
};

Status set_pretokenizer(std::string_view name, TokenizerFile& file) {
    const auto* found = std::ranges::find(kPretokenizers, name, &NamedPretokenizer::name);
    if (found == kPretokenizers.end()) {
        std::string known;
        for (const NamedPretokenizer& pretokenizer : kPretokenizers) {
            known += known.empty() ? "" : ", ";
            known += pretokenizer.name;
        }
        return fail(ErrorCode::kUnsupported, "tokenizer.ggml.pre is {:?}, expected one of {}", decode_lossy(name), known);
    }
    for (const std::string_view split : found->splits) {
        file.split_patterns.push_back({.text = std::string(split), .is_regex = true});
    }
    file.takes_whole_pieces = found->takes_whole_pieces;
    return {};
}

// --- tokens -----------------------------------------------------------------------

Result<TokenType> token_type(const GgufVocabulary& vocabulary, size_t id) {
    if (vocabulary.types.empty()) {
        return TokenType::kNormal;
    }
    const int32_t type = vocabulary.types[id];
    if (type < static_cast<int32_t>(TokenType::kNormal) || type > static_cast<int32_t>(TokenType::kByte)) {
        return fail(kBadFile, "tokenizer.ggml.token_type of token {} is {}, expected 1 to 6", id, type);
    }
    return static_cast<TokenType>(type);
}

Status check_spelling(std::string_view spelling, size_t id) {
    if (spelling.size() > kTokenBytesMax) {
        return fail(kBadFile, "token {} has {} bytes, at most {} are allowed", id, spelling.size(), kTokenBytesMax);
    }
    if (!is_valid_utf8(spelling)) {
        return fail(kBadFile, "token {} is not valid UTF-8", id);
    }
    return {};
}

// `<0x0A>` is the byte 10; nothing for any other spelling.
std::optional<uint8_t> byte_of_spelling(std::string_view spelling) {
    if (spelling.size() != 6 || !spelling.starts_with("<0x") || !spelling.ends_with('>')) {
        return std::nullopt;
    }
    int value = 0;
    for (const char c : spelling.substr(3, 2)) {
        const bool is_digit = c >= '0' && c <= '9';
        if (!is_digit && (c < 'A' || c > 'F')) {
            return std::nullopt;
        }
        value = value * 16 + (is_digit ? c - '0' : c - 'A' + 10);
    }
    return static_cast<uint8_t>(value);
}

Status add_token(const GgufVocabulary& vocabulary, size_t id, TokenizerFile& file) {
    const std::string spelling(vocabulary.tokens[id]);
    DI_TRY(const TokenType type, token_type(vocabulary, id));
    DI_TRY_STATUS(check_spelling(spelling, id));
    if (spelling.empty()) {
        return {};  // an id without a token
    }
    const auto token_id = static_cast<int32_t>(id);
    const float score = vocabulary.scores.empty() ? 0.0F : vocabulary.scores[id];
    if (!std::isfinite(score)) {
        return fail(kBadFile, "tokenizer.ggml.scores of token {} is {}, expected a finite number", id, score);
    }
    const bool is_special = type == TokenType::kControl || type == TokenType::kUnknown;
    const bool is_user_defined = type == TokenType::kUserDefined;
    if (is_special || is_user_defined) {
        file.added_tokens.push_back({.id = token_id,
                                     .spelling = spelling,
                                     .is_special = is_special,
                                     .is_normalized = false,
                                     .is_in_plain_text = is_user_defined});
    }
    if (type == TokenType::kByte && file.model == TokenizerModel::kSentencePieces) {
        const auto byte = byte_of_spelling(spelling);
        if (!byte) {
            return fail(kBadFile, "token {} is {:?} and of type 6 (byte), expected <0x00> to <0xFF>", id, spelling);
        }
        file.byte_ids[*byte] = token_id;
    }
    // A special token is no piece that text could be made of.
    if (!is_special || file.model == TokenizerModel::kByteLevelBpe) {
        file.vocabulary.push_back({.spelling = spelling, .id = token_id, .score = score});
    }
    return {};
}

Status check_counts(const GgufVocabulary& vocabulary) {
    const size_t count = vocabulary.tokens.size();
    if (count == 0 || count > static_cast<size_t>(kVocabularySizeMax)) {
        return fail(kBadFile, "tokenizer.ggml.tokens has {} entries, expected 1 to {}", count, kVocabularySizeMax);
    }
    if (!vocabulary.types.empty() && vocabulary.types.size() != count) {
        return fail(kBadFile, "tokenizer.ggml.token_type has {} entries, expected one for each of the {} tokens",
                    vocabulary.types.size(), count);
    }
    if (!vocabulary.scores.empty() && vocabulary.scores.size() != count) {
        return fail(kBadFile, "tokenizer.ggml.scores has {} entries, expected one for each of the {} tokens",
                    vocabulary.scores.size(), count);
    }
    return {};
}

// "a b"; the first part may itself begin with a blank.
Result<std::pair<std::string, std::string>> parse_merge(std::string_view merge) {
    const size_t blank = merge.find(' ', 1);
    if (merge.empty() || blank == std::string_view::npos || blank + 1 == merge.size()) {
        return fail(kBadFile, "tokenizer.ggml.merges holds {:?}, expected \"a b\"", decode_lossy(merge.substr(0, 60)));
    }
    return std::pair(std::string(merge.substr(0, blank)), std::string(merge.substr(blank + 1)));
}

Status set_model(const GgufVocabulary& vocabulary, TokenizerFile& file) {
    if (vocabulary.model == "llama") {
        file.model = TokenizerModel::kSentencePieces;
        if (vocabulary.scores.empty()) {
            return fail(kBadFile,
                        "tokenizer.ggml.scores is missing, expected one score for each token of a SentencePiece model");
        }
        file.adds_space_prefix = vocabulary.adds_space_prefix.value_or(true);
        return {};
    }
    if (vocabulary.model != "gpt2") {
        return fail(ErrorCode::kUnsupported,
                    "tokenizer.ggml.model is {:?}, expected \"gpt2\" (byte-level BPE) or \"llama\" (SentencePiece)",
                    decode_lossy(vocabulary.model.substr(0, 60)));
    }
    file.model = TokenizerModel::kByteLevelBpe;
    if (vocabulary.adds_space_prefix.value_or(false)) {
        return fail(ErrorCode::kUnsupported,
                    "tokenizer.ggml.add_space_prefix is true, only false is supported for byte-level BPE");
    }
    return set_pretokenizer(vocabulary.pretokenizer, file);
}

Result<std::optional<int32_t>> named_id(std::optional<int64_t> id, std::string_view key, const GgufVocabulary& vocabulary) {
    if (!id) {
        return std::nullopt;
    }
    if (*id < 0 || *id >= std::ssize(vocabulary.tokens)) {
        return fail(kBadFile, "tokenizer.ggml.{} is {}, expected an id of the {} tokens", key, *id, vocabulary.tokens.size());
    }
    return std::optional(static_cast<int32_t>(*id));
}

}  // namespace

Result<TokenizerFile> tokenizer_of_gguf(const GgufVocabulary& vocabulary) {
    TokenizerFile file;
    DI_TRY_STATUS(check_counts(vocabulary));
    DI_TRY_STATUS(set_model(vocabulary, file));
    file.byte_ids.fill(-1);
    file.vocabulary.reserve(vocabulary.tokens.size());
    for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
        DI_TRY_STATUS(add_token(vocabulary, id, file));
    }
    file.merges.reserve(vocabulary.merges.size());
    for (const std::string_view merge : vocabulary.merges) {
        DI_TRY(auto pair, parse_merge(merge));
        file.merges.push_back(std::move(pair));
    }
    DI_TRY(file.bos_id, named_id(vocabulary.bos_id, "bos_token_id", vocabulary));
    DI_TRY(file.eos_id, named_id(vocabulary.eos_id, "eos_token_id", vocabulary));
    DI_TRY(file.pad_id, named_id(vocabulary.pad_id, "padding_token_id", vocabulary));
    DI_TRY(file.unknown_id, named_id(vocabulary.unknown_id, "unknown_token_id", vocabulary));
    return file;
}

}  // namespace di
