#include "text/pretokenizer.h"

#include <array>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace di {

struct Pretokenizer::Program {
    std::string source;  // as in the file, for messages
    std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code{nullptr, &pcre2_code_free};
};

// What one split call needs beside the compiled patterns. Not shared between threads.
struct Pretokenizer::Scratch {
    std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match{pcre2_match_data_create(1, nullptr),
                                                                              &pcre2_match_data_free};
    std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context{pcre2_match_context_create(nullptr),
                                                                                      &pcre2_match_context_free};
};

namespace {

std::string pcre2_message(int code) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(code, text.data(), text.size());
    return {reinterpret_cast<const char*>(text.data())};
}

// From the dialect of the file to PCRE2's. \s means the property White_Space there, while PCRE2 adds U+180E. Escapes
// whose meaning differs and that no known tokenizer uses are refused: a wrong split is silent damage.
Result<std::string> translate(std::string_view pattern) {
    std::string translated;
    for (size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] == '(' && pattern.substr(i).starts_with("(*")) {
            return fail(ErrorCode::kUnsupported, "pre-tokenizer pattern {}: verbs such as (*UTF) are not supported", pattern);
        }
        if (pattern[i] == '&' && pattern.substr(i).starts_with("&&")) {
            return fail(ErrorCode::kUnsupported, "pre-tokenizer pattern {}: set intersection (&&) is not supported", pattern);
        }
        if (pattern[i] != '\\' || i + 1 == pattern.size()) {
            translated += pattern[i];
            continue;
        }
        const char escape = pattern[++i];
        switch (escape) {
            case 's': translated += "\\p{White_Space}"; break;
            case 'S': translated += "\\P{White_Space}"; break;
            case 'w':
            case 'W':
            case 'b':
            case 'B':
            case 'h':
            case 'H':
            case 'R':
            case 'X':
            case 'C':
            case 'K':
            case 'Q':
            case 'E':
                return fail(ErrorCode::kUnsupported,
                            "pre-tokenizer pattern {}: \\{} is not supported (classes \\s \\S \\d \\D \\p \\P are)", pattern,
                            escape);
            default: translated += '\\'; translated += escape;
        }
    }
    return translated;
}

Result<pcre2_code*> compile(const SplitPattern& pattern) {
    if (pattern.text.empty()) {
        return fail(ErrorCode::kInvalidFile, "pre-tokenizer pattern is empty");
    }
    if (pattern.text.size() > kSplitPatternBytesMax) {
        return fail(ErrorCode::kInvalidFile, "pre-tokenizer pattern has {} bytes, at most {} are allowed", pattern.text.size(),
                    kSplitPatternBytesMax);
    }
    if (!is_valid_utf8(pattern.text)) {
        return fail(ErrorCode::kInvalidFile, "pre-tokenizer pattern is not valid UTF-8");
    }
    std::string source = pattern.text;
    if (pattern.is_regex) {
        DI_TRY(source, translate(pattern.text));
    }
    // Oniguruma's Ruby syntax: ^ and $ match at every line.
    const uint32_t dialect = pattern.is_regex ? PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE : PCRE2_UTF | PCRE2_LITERAL;
    int error = 0;
    PCRE2_SIZE error_offset = 0;
    pcre2_code* code =
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(), dialect, &error, &error_offset, nullptr);
    if (code == nullptr) {
        return fail(ErrorCode::kInvalidFile, "pre-tokenizer pattern {} does not compile: {}", pattern.text,
                    pcre2_message(error));
    }
    // A failure is no error: machines without JIT memory use the interpreter, with the same result.
    static_cast<void>(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE));
    return code;
}

// One search from `offset`; PCRE2's result code.
int search(const pcre2_code* code, std::string_view piece, size_t offset, pcre2_match_data* match,
           pcre2_match_context* context) {
    const auto subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
    const int found = pcre2_match(code, subject, piece.size(), offset, PCRE2_NO_UTF_CHECK, match, context);
    if (found != PCRE2_ERROR_JIT_STACKLIMIT) {
        return found;
    }
    return pcre2_match(code, subject, piece.size(), offset, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, context);
}

}  // namespace

Pretokenizer::Pretokenizer() = default;
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;

Result<Pretokenizer> Pretokenizer::create(const std::vector<SplitPattern>& patterns) {
    if (patterns.size() > kSplitPatternsMax) {
        return fail(ErrorCode::kInvalidFile, "pre-tokenizer has {} patterns, at most {} are allowed", patterns.size(),
                    kSplitPatternsMax);
    }
    Pretokenizer pretokenizer;
    for (const SplitPattern& pattern : patterns) {
        DI_TRY(pcre2_code * code, compile(pattern));
        auto program = std::make_unique<Program>();
        program->source = pattern.text;
        program->code.reset(code);
        pretokenizer.programs_.push_back(std::move(program));
    }
    return pretokenizer;
}

Result<std::vector<std::string_view>> Pretokenizer::split(std::string_view text) const {
    std::vector<std::string_view> pieces;
    if (text.empty()) {
        return pieces;
    }
    pieces.push_back(text);
    Scratch scratch;
    DI_CHECK(scratch.match != nullptr && scratch.context != nullptr, "out of memory for a regex match");
    pcre2_set_heap_limit(scratch.context.get(), kRegexHeapKibibytesMax);
    std::vector<std::string_view> finer;
    for (const auto& program : programs_) {
        finer.clear();
        for (const std::string_view piece : pieces) {
            DI_TRY_STATUS(split_piece(*program, piece, scratch, finer));
        }
        std::swap(pieces, finer);
    }
    return pieces;
}

Status Pretokenizer::split_piece(const Program& program, std::string_view piece, Scratch& scratch,
                                 std::vector<std::string_view>& pieces) {
    const auto steps_max = static_cast<uint32_t>(kRegexStepsBase + kRegexStepsPerByte * piece.size());
    static_assert(kRegexStepsBase + kRegexStepsPerByte * kEncodeTextBytesMax <= UINT32_MAX, "limit overflows");
    pcre2_set_match_limit(scratch.context.get(), steps_max);
    size_t start = 0;   // of the gap under way
    size_t offset = 0;  // where to search next
    while (offset < piece.size()) {
        const int found = search(program.code.get(), piece, offset, scratch.match.get(), scratch.context.get());
        if (found == PCRE2_ERROR_NOMATCH) {
            break;
        }
        if (found < 0) {
            return fail(ErrorCode::kInvalidArgument, "pre-tokenizer pattern {} gave up on {} bytes of text: {}", program.source,
                        piece.size(), pcre2_message(found));
        }
        const PCRE2_SIZE* range = pcre2_get_ovector_pointer(scratch.match.get());
        const size_t begin = range[0];
        const size_t end = range[1];
        DI_CHECK(begin >= start && begin <= end && end <= piece.size(), "a match lies inside the searched text");
        if (begin > start) {
            pieces.push_back(piece.substr(start, begin - start));
        }
        if (end > begin) {
            pieces.push_back(piece.substr(begin, end - begin));
            offset = end;
        } else {
            // An empty match cuts the gap; go on behind the next character.
            offset = end < piece.size() ? end + utf8_step(piece.substr(end)).length : end + 1;
        }
        start = end;
    }
    if (start < piece.size()) {
        pieces.push_back(piece.substr(start));
    }
    return {};
}

}  // namespace di
