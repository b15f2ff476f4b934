#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <utility>

#include "text/byte_level.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace di {

namespace {

Result<std::string> read_text_file(const std::string& path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
    if (file == nullptr) {
        return fail(ErrorCode::kNotFound, "cannot open {}", path);
    }
    std::string text;
    std::string chunk(size_t{1} << 16, '\0');
    while (const size_t count = std::fread(chunk.data(), 1, chunk.size(), file.get())) {
        text.append(chunk, 0, count);
        if (text.size() > kTokenizerFileBytesMax) {
            return fail(ErrorCode::kInvalidFile, "{} has more than the {} bytes that are allowed", path,
                        kTokenizerFileBytesMax);
        }
    }
    if (std::ferror(file.get()) != 0) {
        return fail(ErrorCode::kInvalidFile, "cannot read {}", path);
    }
    return text;
}

// The size of a table indexed by id. Ids may have holes, within reason.
Result<int64_t> table_size(const TokenizerFile& file) {
    int64_t highest = -1;
    for (const TokenizerFile::Piece& piece : file.vocabulary) {
        highest = std::max<int64_t>(highest, piece.id);
    }
    for (const AddedToken& token : file.added_tokens) {
        highest = std::max<int64_t>(highest, token.id);
    }
    const auto token_count = static_cast<int64_t>(file.vocabulary.size() + file.added_tokens.size());
    if (token_count == 0) {
        return fail(ErrorCode::kInvalidFile, "vocabulary is empty");
    }
    if (highest >= token_count + kUnusedIdsMax) {
        return fail(ErrorCode::kInvalidFile, "token id {} is out of range: the vocabulary has {} tokens", highest, token_count);
    }
    return highest + 1;
}

using IdsByPiece = std::unordered_map<std::string_view, int32_t>;

Result<int32_t> merge_part(const IdsByPiece& ids, std::string_view spelling, const std::pair<std::string, std::string>& merge) {
    const auto found = ids.find(spelling);
    if (found == ids.end()) {
        return fail(ErrorCode::kInvalidFile, "model: merge {:?} {:?} needs the token {:?}, which is not in vocab", merge.first,
                    merge.second, spelling);
    }
    return found->second;
}

Result<std::vector<BpeMerge>> resolve_merges(const TokenizerFile& file, const IdsByPiece& ids) {
    std::vector<BpeMerge> merges;
    merges.reserve(file.merges.size());
    for (const auto& merge : file.merges) {
        DI_TRY(const int32_t left, merge_part(ids, merge.first, merge));
        DI_TRY(const int32_t right, merge_part(ids, merge.second, merge));
        DI_TRY(const int32_t merged, merge_part(ids, merge.first + merge.second, merge));
        merges.push_back({.left = left, .right = right, .merged = merged});
    }
    return merges;
}

Result<std::array<int32_t, 256>> resolve_bytes(const TokenizerFile& file, const IdsByPiece& ids) {
    std::array<int32_t, 256> byte_ids{};
    for (size_t byte = 0; byte < byte_ids.size(); ++byte) {
        const auto found = ids.find(stand_in(static_cast<uint8_t>(byte)));
        byte_ids[byte] = found == ids.end() ? -1 : found->second;
        if (found == ids.end() && file.has_unknown_token) {
            return fail(ErrorCode::kUnsupported,
                        "model: unk_token is set and byte {:#04x} has no token, only null is supported then", byte);
        }
    }
    return byte_ids;
}

std::vector<AddedToken> tokens_in_plain_text(std::vector<AddedToken> tokens) {
    std::erase_if(tokens, [](const AddedToken& token) { return !token.is_in_plain_text; });
    return tokens;
}

}  // namespace

Result<Tokenizer> Tokenizer::open(const std::string& model_directory) {
    const std::string path = model_directory + "/tokenizer.json";
    const std::string config_path = model_directory + "/tokenizer_config.json";
    DI_TRY(const std::string text, read_text_file(path));
    auto config = read_text_file(config_path);
    if (!config && config.error().code != ErrorCode::kNotFound) {
        return tl::unexpected(std::move(config.error()));
    }
    auto tokenizer = parse(text, config ? std::string_view(*config) : std::string_view());
    if (!tokenizer) {
        return fail_in(model_directory, std::move(tokenizer.error()));
    }
    return tokenizer;
}

Result<Tokenizer> Tokenizer::parse(std::string_view tokenizer_json, std::string_view tokenizer_config_json) {
    auto file = parse_tokenizer_file(tokenizer_json);
    if (!file) {
        return fail_in("tokenizer.json", std::move(file.error()));
    }
    auto tokenizer = create(*file);
    if (!tokenizer) {
        return fail_in("tokenizer.json", std::move(tokenizer.error()));
    }
    if (tokenizer_config_json.empty()) {
        return tokenizer;
    }
    auto names = parse_tokenizer_config(tokenizer_config_json);
    if (!names) {
        return fail_in("tokenizer_config.json", std::move(names.error()));
    }
    const auto resolve = [&](const std::optional<std::string>& spelling) {
        return spelling ? tokenizer->find(*spelling) : std::nullopt;
    };
    tokenizer->bos_id_ = resolve(names->bos);
    tokenizer->eos_id_ = resolve(names->eos);
    tokenizer->pad_id_ = resolve(names->pad);
    return tokenizer;
}

Result<Tokenizer> Tokenizer::create(const TokenizerFile& file) {
    DI_TRY(const int64_t size, table_size(file));
    std::vector<Token> tokens(static_cast<size_t>(size));
    IdsByPiece ids;
    ids.reserve(file.vocabulary.size() + file.added_tokens.size());
    for (const TokenizerFile::Piece& piece : file.vocabulary) {
        Token& token = tokens[static_cast<size_t>(piece.id)];
        if (!token.piece.empty()) {
            return fail(ErrorCode::kInvalidFile, "model: id {} belongs to two tokens, {:?} and {:?}", piece.id, token.piece,
                        piece.spelling);
        }
        token.piece = piece.spelling;
        token.bytes = file.model == TokenizerModel::kByteLevelBpe ? bytes_of_piece(piece.spelling)
                                                                  : SentencePieces::bytes_of_piece(piece.spelling);
        ids.emplace(token.piece, piece.id);
    }
    if (file.model == TokenizerModel::kSentencePieces) {
        for (size_t byte = 0; byte < file.byte_ids.size(); ++byte) {
            if (file.byte_ids[byte] >= 0) {
                tokens[static_cast<size_t>(file.byte_ids[byte])].bytes = std::string(1, static_cast<char>(byte));
            }
        }
    }
    // Merges and bytes are about the vocabulary proper, so they are looked up before added tokens join.
    DI_TRY(Model model, create_model(file, ids));
    for (const AddedToken& added : file.added_tokens) {
        DI_TRY_STATUS(add_token(added, tokens, ids));
    }
    return Tokenizer(std::move(tokens), std::move(ids), file, std::move(model));
}

Result<Tokenizer::Model> Tokenizer::create_model(const TokenizerFile& file, const IdsByPiece& ids) {
    if (file.model == TokenizerModel::kSentencePieces) {
        return SentencePieces(file);
    }
    DI_TRY(const std::vector<BpeMerge> merges, resolve_merges(file, ids));
    DI_TRY(const auto byte_ids, resolve_bytes(file, ids));
    DI_TRY(Pretokenizer pretokenizer, Pretokenizer::create(file.split_patterns));
    return ByteLevelBpe{std::move(pretokenizer), Bpe(byte_ids, merges), file.takes_whole_pieces};
}

Status Tokenizer::add_token(const AddedToken& added, std::vector<Token>& tokens, IdsByPiece& ids) {
    Token& token = tokens[static_cast<size_t>(added.id)];
    const auto known = ids.find(added.spelling);
    if (known != ids.end() && known->second != added.id) {
        return fail(ErrorCode::kInvalidFile, "added token {:?} has two ids, {} and {}", added.spelling, known->second,
                    added.id);
    }
    if (token.is_added || (!token.piece.empty() && token.piece != added.spelling)) {
        return fail(ErrorCode::kInvalidFile, "id {} belongs to two tokens, {:?} and {:?}", added.id, token.piece,
                    added.spelling);
    }
    if (known == ids.end()) {
        token.piece = added.spelling;
        ids.emplace(token.piece, added.id);
    }
    // Its spelling is text, also where single characters of it could be stand-ins.
    token.bytes = added.spelling;
    token.is_added = true;
    token.is_special = added.is_special;
    return {};
}

Tokenizer::Tokenizer(std::vector<Token> tokens, IdsByPiece ids, const TokenizerFile& file, Model model)
    : tokens_(std::move(tokens)),
      ids_(std::move(ids)),
      added_tokens_(file.added_tokens),
      plain_text_tokens_(tokens_in_plain_text(file.added_tokens)),
      model_(std::move(model)),
      bos_id_(file.bos_id),
      eos_id_(file.eos_id),
      pad_id_(file.pad_id) {}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
    if (text.size() > kEncodeTextBytesMax) {
        return fail(ErrorCode::kInvalidArgument, "text has {} bytes, at most {} are allowed", text.size(), kEncodeTextBytesMax);
    }
    if (const size_t offset = first_invalid_utf8(text); offset != std::string_view::npos) {
        return fail(ErrorCode::kInvalidArgument, "text is not valid UTF-8 at byte {} ({:#04x})", offset,
                    static_cast<uint8_t>(text[offset]));
    }
    const AddedTokens& wanted = options.recognize_added_tokens ? added_tokens_ : plain_text_tokens_;
    std::vector<int32_t> ids;
    bool has_prefix = true;  // at the start, and behind special tokens
    for (const TextSegment& segment : wanted.split(text)) {
        if (segment.token_id >= 0) {
            ids.push_back(segment.token_id);
            has_prefix = true;
        } else {
            DI_TRY_STATUS(encode_text(segment.text, has_prefix, ids));
            has_prefix = false;
        }
    }
    return ids;
}

Status Tokenizer::encode_text(std::string_view text, bool has_prefix, std::vector<int32_t>& ids) const {
    if (const auto* sentence_pieces = std::get_if<SentencePieces>(&model_)) {
        return sentence_pieces->encode(text, has_prefix, ids);
    }
    const auto& model = std::get<ByteLevelBpe>(model_);
    DI_TRY(const std::vector<std::string_view> pieces, model.pretokenizer.split(text));
    for (const std::string_view piece : pieces) {
        DI_TRY_STATUS(encode_piece(model, piece, ids));
    }
    return {};
}

Status Tokenizer::encode_piece(const ByteLevelBpe& model, std::string_view piece, std::vector<int32_t>& ids) const {
    if (model.takes_whole_pieces && piece.size() <= kTokenBytesMax) {
        // Not an added token: their spelling may stand in text that must not become one.
        if (const auto whole = find(piece_of_bytes(piece)); whole && !is_added(*whole)) {
            ids.push_back(*whole);
            return {};
        }
    }
    return model.bpe.encode(piece, ids);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
    std::string bytes;
    for (const int32_t id : ids) {
        if (!skip_special || !is_special(id)) {
            bytes += token_bytes(id);
        }
    }
    const auto* sentence_pieces = std::get_if<SentencePieces>(&model_);
    if (sentence_pieces != nullptr && sentence_pieces->adds_space_prefix() && bytes.starts_with(' ')) {
        bytes.erase(0, 1);
    }
    return decode_lossy(bytes);
}

const Tokenizer::Token* Tokenizer::token(int32_t id) const {
    return id >= 0 && id < vocabulary_size() ? &tokens_[static_cast<size_t>(id)] : nullptr;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
    const Token* found = token(id);
    return found == nullptr ? std::string_view() : found->bytes;
}

std::string_view Tokenizer::piece(int32_t id) const {
    const Token* found = token(id);
    return found == nullptr ? std::string_view() : found->piece;
}

std::optional<int32_t> Tokenizer::find(std::string_view spelling) const {
    const auto found = ids_.find(spelling);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

bool Tokenizer::is_special(int32_t id) const {
    const Token* found = token(id);
    return found != nullptr && found->is_special;
}

bool Tokenizer::is_added(int32_t id) const {
    const Token* found = token(id);
    return found != nullptr && found->is_added;
}

}  // namespace di
