#include "text/sentence_pieces.h"

#include <algorithm>

#include "base/check.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace di {

namespace {

constexpr std::string_view kBlank = "\u2581";

// Blanks as the vocabulary spells them.
std::string spelled(std::string_view text, bool has_prefix) {
    std::string spelling;
    spelling.reserve(text.size() + kBlank.size());
    if (has_prefix) {
        spelling += kBlank;
    }
    for (const char c : text) {
        if (c == ' ') {
            spelling += kBlank;
        } else {
            spelling += c;
        }
    }
    return spelling;
}

}  // namespace

// The text as a linked list of stretches in place: a join swallows its right neighbour.
struct SentencePieces::Word {
    struct Symbol {
        int32_t begin;
        int32_t length;  // 0: swallowed
        int32_t previous;
        int32_t next;  // -1: none
    };
    // A possible join, as it was when found; out of date if the stretches changed since.
    struct Candidate {
        float score;
        int32_t position;
        int32_t length;  // of both together
    };

    std::string_view text;
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;

    [[nodiscard]] std::string_view spelling(const Symbol& symbol) const {
        return text.substr(static_cast<size_t>(symbol.begin), static_cast<size_t>(symbol.length));
    }
    static bool is_later(const Candidate& a, const Candidate& b) {
        return a.score != b.score ? a.score < b.score : a.position > b.position;
    }
};

SentencePieces::SentencePieces(const TokenizerFile& file)
    : byte_ids_(file.byte_ids), unknown_id_(file.unknown_id), adds_space_prefix_(file.adds_space_prefix) {
    spellings_.reserve(file.vocabulary.size());  // so that the views stay
    pieces_.reserve(file.vocabulary.size());
    for (const TokenizerFile::Piece& piece : file.vocabulary) {
        if (std::ranges::find(byte_ids_, piece.id) != byte_ids_.end()) {
            continue;
        }
        const std::string& spelling = spellings_.emplace_back(piece.spelling);
        pieces_.emplace(spelling, Piece{.id = piece.id, .score = piece.score});
        spelling_bytes_max_ = std::max(spelling_bytes_max_, spelling.size());
    }
}

std::string SentencePieces::bytes_of_piece(std::string_view piece) {
    std::string bytes;
    for (size_t i = 0; i < piece.size();) {
        const bool is_blank = piece.substr(i).starts_with(kBlank);
        bytes += is_blank ? ' ' : piece[i];
        i += is_blank ? kBlank.size() : 1;
    }
    return bytes;
}

const SentencePieces::Piece* SentencePieces::find(std::string_view spelling) const {
    // Longer stretches are not hashed, so that a long run without joins stays linear.
    if (spelling.size() > spelling_bytes_max_) {
        return nullptr;
    }
    const auto found = pieces_.find(spelling);
    return found == pieces_.end() ? nullptr : &found->second;
}

Status SentencePieces::encode(std::string_view text, bool has_prefix, std::vector<int32_t>& ids) const {
    DI_CHECK(text.size() <= kEncodeTextBytesMax, "a text is of limited size");
    if (text.empty()) {
        return {};
    }
    const std::string spelling = spelled(text, has_prefix && adds_space_prefix_);
    Word word{.text = spelling, .symbols = {}, .heap = {}};
    for (size_t begin = 0; begin < spelling.size();) {
        const size_t length = utf8_step(word.text.substr(begin)).length;
        const auto index = static_cast<int32_t>(word.symbols.size());
        const int32_t next = begin + length < spelling.size() ? index + 1 : -1;
        word.symbols.push_back({.begin = static_cast<int32_t>(begin),
                                .length = static_cast<int32_t>(length),
                                .previous = index - 1,
                                .next = next});
        begin += length;
    }
    join_all(word);
    bool was_unknown = false;
    for (const Word::Symbol& symbol : word.symbols) {
        if (symbol.length > 0) {
            DI_TRY_STATUS(append(word.spelling(symbol), was_unknown, ids));
        }
    }
    return {};
}

void SentencePieces::consider(Word& word, int32_t position) const {
    if (position < 0) {
        return;
    }
    const Word::Symbol& left = word.symbols[static_cast<size_t>(position)];
    if (left.next < 0) {
        return;
    }
    const int32_t length = left.length + word.symbols[static_cast<size_t>(left.next)].length;
    const auto joined = word.text.substr(static_cast<size_t>(left.begin), static_cast<size_t>(length));
    if (const Piece* piece = find(joined); piece != nullptr) {
        word.heap.push_back({.score = piece->score, .position = position, .length = length});
        std::push_heap(word.heap.begin(), word.heap.end(), Word::is_later);
    }
}

void SentencePieces::join_all(Word& word) const {
    for (size_t i = 0; i < word.symbols.size(); ++i) {
        consider(word, static_cast<int32_t>(i));
    }
    while (!word.heap.empty()) {
        std::pop_heap(word.heap.begin(), word.heap.end(), Word::is_later);
        const Word::Candidate candidate = word.heap.back();
        word.heap.pop_back();
        Word::Symbol& left = word.symbols[static_cast<size_t>(candidate.position)];
        if (left.length == 0 || left.next < 0) {
            continue;
        }
        Word::Symbol& right = word.symbols[static_cast<size_t>(left.next)];
        if (left.length + right.length != candidate.length) {
            continue;
        }
        left.length = candidate.length;
        left.next = right.next;
        right.length = 0;
        if (left.next >= 0) {
            word.symbols[static_cast<size_t>(left.next)].previous = candidate.position;
        }
        consider(word, left.previous);
        consider(word, candidate.position);
    }
}

Status SentencePieces::append(std::string_view spelling, bool& was_unknown, std::vector<int32_t>& ids) const {
    if (const Piece* piece = find(spelling); piece != nullptr) {
        ids.push_back(piece->id);
        was_unknown = false;
        return {};
    }
    // A single character: joined stretches are pieces. A blank goes by the bytes of its spelling, as others read it.
    const bool has_bytes = std::ranges::all_of(spelling, [&](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; });
    if (!has_bytes && !unknown_id_) {
        return fail(ErrorCode::kInvalidArgument, "text holds {:?}, which the tokenizer's vocabulary cannot express", spelling);
    }
    if (!has_bytes) {
        // A run of unknown characters is one token.
        if (!was_unknown) {
            ids.push_back(*unknown_id_);
        }
        was_unknown = true;
        return {};
    }
    was_unknown = false;
    for (const char c : spelling) {
        ids.push_back(byte_ids_[static_cast<uint8_t>(c)]);
    }
    return {};
}

}  // namespace di
