#include "text/ebnf_grammar.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "text/limits.h"
#include "text/unicode.h"

namespace di {
namespace {

bool is_name_begin(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_name_begin(c) || (c >= '0' && c <= '9') || c == '-' || c == '.'; }

class EbnfParser {
  public:
    explicit EbnfParser(std::string_view text) : text_(text) {}

    Result<GrammarRules> run() {
        rule_number("root");
        skip_blanks();
        while (at_ < text_.size()) {
            DI_TRY_STATUS(rule());
        }
        for (size_t i = 0; i < is_defined_.size(); ++i) {
            if (!is_defined_[i]) {
                return fail(ErrorCode::kInvalidArgument, "rule {} is not defined, expected a line {} ::= ...",
                            grammar_.rules[i].name, grammar_.rules[i].name);
            }
        }
        return std::move(grammar_);
    }

  private:
    char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

    tl::unexpected<Error> wrong(std::string_view what, std::string_view expected) const {
        const auto line =
            std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size())), '\n');
        return fail(ErrorCode::kInvalidArgument, "line {}: {}, expected {}", line + 1, what, expected);
    }

    void skip_blanks() {
        while (at_ < text_.size()) {
            const char c = peek();
            if (c == '#') {
                at_ = std::min(text_.find('\n', at_), text_.size());
            } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
                ++at_;
            } else {
                return;
            }
        }
    }

    std::string_view name() {
        const size_t begin = at_;
        while (is_name(peek())) {
            ++at_;
        }
        return text_.substr(begin, at_ - begin);
    }

    int32_t rule_number(std::string_view rule) {
        const auto [entry, is_new] = numbers_.try_emplace(std::string(rule), static_cast<int32_t>(grammar_.rules.size()));
        if (is_new) {
            grammar_.rules.push_back({.name = std::string(rule), .body = {}});
            is_defined_.push_back(false);
        }
        return entry->second;
    }

    // Whether a name and "::=" stand here: the next rule begins.
    bool is_at_rule() const {
        size_t i = at_;
        while (i < text_.size() && is_name(text_[i])) {
            ++i;
        }
        while (i < text_.size() && (text_[i] == ' ' || text_[i] == '\t')) {
            ++i;
        }
        return text_.substr(i, 3) == "::=";
    }

    Status rule() {
        if (!is_name_begin(peek())) {
            return wrong(quoted_here(), "a rule: name ::= ...");
        }
        const std::string_view rule_name = name();
        skip_blanks();
        if (text_.substr(at_, 3) != "::=") {
            return wrong(fmt::format("{} behind the name {}", quoted_here(), rule_name), "::=");
        }
        at_ += 3;
        const auto number = static_cast<size_t>(rule_number(rule_name));
        if (is_defined_[number]) {
            return wrong(fmt::format("rule {} once more", rule_name), "every rule defined once");
        }
        is_defined_[number] = true;
        if (grammar_.rules.size() > kGrammarRulesMax) {
            return wrong(fmt::format("more than {} rules", kGrammarRulesMax), "less");
        }
        DI_TRY(GrammarNode body, choices());
        if (at_ < text_.size() && !is_at_rule()) {
            return wrong(quoted_here(), "the next rule");
        }
        grammar_.rules[number].body = std::move(body);
        return {};
    }

    std::string quoted_here() const {
        if (at_ >= text_.size()) {
            return "the end";
        }
        const Utf8Step step = utf8_step(text_.substr(at_));
        return fmt::format("\"{}\"", decode_lossy(text_.substr(at_, step.length)));
    }

    Result<GrammarNode> choices() {
        std::vector<GrammarNode> items;
        for (;;) {
            DI_TRY(GrammarNode item, sequence());
            items.push_back(std::move(item));
            if (peek() != '|') {
                return choice_node(std::move(items));
            }
            ++at_;
        }
    }

    Result<GrammarNode> sequence() {
        std::vector<GrammarNode> items;
        for (;;) {
            skip_blanks();
            const char c = peek();
            const bool begins = c == '"' || c == '[' || c == '(' || (is_name_begin(c) && !is_at_rule());
            if (!begins) {
                return sequence_node(std::move(items));
            }
            DI_TRY(GrammarNode item, element());
            DI_TRY(item, quantified(std::move(item)));
            items.push_back(std::move(item));
        }
    }

    Result<GrammarNode> element() {
        if (peek() == '"') {
            return literal();
        }
        if (peek() == '[') {
            return bracket();
        }
        if (peek() == '(') {
            return group();
        }
        const std::string_view rule_name = name();
        if (peek() == '(') {
            return wrong(fmt::format("the macro {}", rule_name), "texts, classes, rules and groups");
        }
        return rule_node(rule_number(rule_name));
    }

    Result<GrammarNode> group() {
        if (++depth_ > kGrammarDepthMax) {
            return wrong(fmt::format("groups more than {} deep", kGrammarDepthMax), "less");
        }
        ++at_;
        if (peek() == '=') {
            return wrong("a look-ahead", "texts, classes, rules and groups");
        }
        DI_TRY(GrammarNode node, choices());
        if (peek() != ')') {
            return wrong(quoted_here(), ")");
        }
        ++at_;
        --depth_;
        return node;
    }

    Result<GrammarNode> quantified(GrammarNode item) {
        const size_t before = at_;
        skip_blanks();
        const char c = peek();
        if (c != '*' && c != '+' && c != '?' && c != '{') {
            at_ = before;
            return item;
        }
        ++at_;
        int64_t least = c == '+' ? 1 : 0;
        int64_t most = c == '?' ? 1 : -1;
        if (c == '{') {
            DI_TRY_STATUS(bounds(least, most));
        }
        if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') {
            return wrong("a repetition of a repetition", "parentheses around it");
        }
        return repeat_node(std::move(item), least, most);
    }

    std::optional<int64_t> number() {
        skip_blanks();
        const size_t begin = at_;
        int64_t value = 0;
        while (peek() >= '0' && peek() <= '9') {
            value = std::min<int64_t>(value * 10 + (peek() - '0'), int64_t{1} << 40);
            ++at_;
        }
        const bool has_digits = at_ != begin;
        skip_blanks();
        return has_digits ? std::optional(value) : std::nullopt;
    }

    Status bounds(int64_t& least, int64_t& most) {
        const std::optional<int64_t> first = number();
        least = first.value_or(-1);
        most = least;
        if (first && peek() == ',') {
            ++at_;
            most = number().value_or(-1);
        }
        if (!first || peek() != '}') {
            return wrong(quoted_here() + " in a repetition", "{m}, {m,} or {m,n}");
        }
        ++at_;
        if (most >= 0 && most < least) {
            return wrong(fmt::format("a repetition from {} to {} times", least, most), "the smaller bound first");
        }
        if (std::max(least, most) > kRepetitionMax) {
            return wrong(fmt::format("a repetition of {} times", std::max(least, most)),
                         fmt::format("at most {}", kRepetitionMax));
        }
        return {};
    }

    // One character of a text or a class, escapes resolved.
    Result<char32_t> character() {
        if (peek() == '\\') {
            return escape();
        }
        const Utf8Step step = utf8_step(text_.substr(at_));
        if (step.kind != Utf8Step::Kind::kCharacter || step.code_point == 0 || step.code_point == '\n') {
            return wrong("a line end, NUL or broken UTF-8 in a text or class", "a character, or \\n for a line end");
        }
        at_ += step.length;
        return step.code_point;
    }

    Result<char32_t> escape() {
        const char c = peek(1);
        const size_t length = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
        if (length == 0) {
            constexpr std::string_view kNames = "nrtfv";
            constexpr std::string_view kValues = "\n\r\t\f\v";
            const size_t control = kNames.find(c);
            if (c == '\0' || c == '0' || (control == std::string_view::npos && is_name(c) && c != '-' && c != '.') ||
                static_cast<unsigned char>(c) >= 0x80) {
                return wrong(fmt::format("the escape \\{}", c == '\0' ? std::string("(end)") : decode_lossy({&c, 1})),
                             "\\n, \\r, \\t, \\xHH, \\uHHHH, \\UHHHHHHHH or a sign");
            }
            at_ += 2;
            return static_cast<char32_t>(control != std::string_view::npos ? kValues[control] : c);
        }
        const std::string_view digits = text_.substr(std::min(at_ + 2, text_.size()), length);
        uint32_t value = 0;
        bool is_hex = digits.size() == length;
        for (const char digit : digits) {
            const bool is_digit = digit >= '0' && digit <= '9';
            const auto letter = static_cast<char>(digit | 0x20);
            is_hex = is_hex && (is_digit || (letter >= 'a' && letter <= 'f'));
            value = value * 16 + static_cast<uint32_t>(is_digit ? digit - '0' : letter - 'a' + 10);
        }
        if (!is_hex || value == 0 || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
            return wrong(fmt::format("the escape \\{}{}", c, decode_lossy(digits)),
                         fmt::format("{} hexadecimal digits of a character other than NUL", length));
        }
        at_ += 2 + length;
        return static_cast<char32_t>(value);
    }

    Result<GrammarNode> literal() {
        ++at_;
        std::string value;
        while (peek() != '"') {
            if (at_ >= text_.size()) {
                return wrong("an open text", "\"");
            }
            DI_TRY(const char32_t c, character());
            append_utf8(value, c);
        }
        ++at_;
        return text_node(std::move(value));
    }

    Result<GrammarNode> bracket() {
        ++at_;
        const bool is_negated = peek() == '^';
        at_ += is_negated ? 1 : 0;
        std::vector<CharacterRange> ranges;
        while (peek() != ']') {
            if (at_ >= text_.size()) {
                return wrong("an open class", "]");
            }
            DI_TRY(const char32_t first, character());
            char32_t last = first;
            if (peek() == '-' && peek(1) != ']') {
                ++at_;
                DI_TRY(last, character());
            }
            if (last < first) {
                return wrong("a range of a class", "two characters in ascending order");
            }
            ranges.push_back({first, last});
        }
        ++at_;
        const CharacterClass characters(std::move(ranges));
        return class_node(is_negated ? characters.complement() : characters);
    }

    std::string_view text_;
    size_t at_ = 0;
    int depth_ = 0;
    GrammarRules grammar_;
    std::map<std::string, int32_t> numbers_;
    std::vector<bool> is_defined_;
};

}  // namespace

Result<GrammarRules> ebnf_grammar(std::string_view text) {
    if (text.size() > kGrammarBytesMax) {
        return fail(ErrorCode::kInvalidArgument, "a grammar of {} bytes, expected at most {}", text.size(), kGrammarBytesMax);
    }
    return EbnfParser(text).run();
}

}  // namespace di
