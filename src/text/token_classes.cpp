#include "text/token_classes.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>

#include "text/limits.h"
#include "text/unicode.h"

namespace di {
namespace {

constexpr std::string_view kReplacementBytes = "\xEF\xBF\xBD";

bool is_collapsed_blank(char32_t c) { return c == U' ' || c == U'\t' || c == U'\r' || c == U'\n'; }

// Drops marks, lowers case, makes one space of each run of blanks.
std::u32string fold(std::string_view text) {
    std::u32string folded;
    bool is_in_blanks = false;
    while (!text.empty()) {
        const Utf8Step step = utf8_step(text);
        text.remove_prefix(step.length);
        if (is_mark(step.code_point)) {
            continue;
        }
        const char32_t lowered = lower_case(step.code_point);
        if (is_collapsed_blank(lowered)) {
            if (!is_in_blanks) {
                folded.push_back(U' ');
            }
            is_in_blanks = true;
            continue;
        }
        is_in_blanks = false;
        folded.push_back(lowered);
    }
    return folded;
}

// The normal form by which tokens are compared.
Result<std::string> normalize(std::string_view text) {
    DI_TRY(const std::string composed, normalize_nfkc(text));
    DI_TRY(const std::string decomposed, normalize_nfd(composed));
    const std::u32string folded = fold(decomposed);
    if (folded == U" ") {
        // Blanks alone are a class of their own: the strip below would leave nothing.
        return std::string(" ");
    }
    size_t begin = 0;
    size_t end = folded.size();
    while (begin < end && is_white_space(folded[begin])) {
        ++begin;
    }
    while (end > begin && is_white_space(folded[end - 1])) {
        --end;
    }
    std::string normalized;
    for (size_t i = begin; i < end; ++i) {
        // The source marks the lone blank with U+E000 and turns the mark back last; a real U+E000 goes the same way.
        append_utf8(normalized, folded[i] == 0xE000 ? U' ' : folded[i]);
    }
    return normalized;
}

Result<std::string> class_key(const Tokenizer& tokenizer, int32_t id) {
    const std::array<int32_t, 1> ids{id};
    std::string text = tokenizer.decode(ids);
    if (text.find(kReplacementBytes) != std::string::npos) {
        return std::string(tokenizer.piece(id));
    }
    DI_TRY(std::string normalized, normalize(text));
    return normalized.empty() ? text : normalized;
}

}  // namespace

Result<std::vector<int32_t>> token_classes(const Tokenizer& tokenizer, int64_t vocabulary_size) {
    if (vocabulary_size < 0 || vocabulary_size > kVocabularySizeMax) {
        return fail(ErrorCode::kInvalidArgument, "vocabulary size is {}, expected 0 to {}", vocabulary_size,
                    kVocabularySizeMax);
    }
    std::vector<int32_t> map;
    map.reserve(static_cast<size_t>(vocabulary_size));
    std::unordered_map<std::string, int32_t> classes;
    for (int64_t id = 0; id < vocabulary_size; ++id) {
        DI_TRY(std::string key, class_key(tokenizer, static_cast<int32_t>(id)));
        const auto next = static_cast<int32_t>(classes.size());
        map.push_back(classes.emplace(std::move(key), next).first->second);
    }
    return map;
}

int64_t token_class_count(const std::vector<int32_t>& map) {
    return map.empty() ? 0 : int64_t{*std::max_element(map.begin(), map.end())} + 1;
}

}  // namespace di
