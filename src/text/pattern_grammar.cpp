#include "text/pattern_grammar.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/json_text.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace di {
namespace {

using Kind = GrammarNode::Kind;

CharacterClass digits() { return CharacterClass({{'0', '9'}}); }
CharacterClass word_characters() { return CharacterClass({{'0', '9'}, {'a', 'z'}, {'A', 'Z'}, {'_', '_'}}); }
CharacterClass blanks() { return CharacterClass::of(" \t\n\r\f\v"); }
// Blanks of Unicode: ECMA's \s has them, so that \S must not.
CharacterClass wide_blanks() {
    return blanks().with(CharacterClass({{0x1C, 0x1F},
                                         {0x85, 0x85},
                                         {0xA0, 0xA0},
                                         {0x1680, 0x1680},
                                         {0x2000, 0x200A},
                                         {0x2028, 0x2029},
                                         {0x202F, 0x202F},
                                         {0x205F, 0x205F},
                                         {0x3000, 0x3000},
                                         {0xFEFF, 0xFEFF}}));
}
// Python's \d and \w know all of Unicode, so that the opposites keep to ASCII.
CharacterClass ascii() { return CharacterClass({{0x1, 0x7F}}); }
CharacterClass any_but_line_ends() {
    return CharacterClass::all().without(CharacterClass({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
}

std::optional<CharacterClass> named_class(char32_t letter) {
    switch (letter) {
        case 'd': return digits();
        case 'w': return word_characters();
        case 's': return blanks();
        case 'D': return ascii().without(digits());
        case 'W': return ascii().without(word_characters());
        case 'S': return CharacterClass::all().without(wide_blanks());
        default: return std::nullopt;
    }
}

std::optional<char32_t> control_escape(char32_t letter) {
    switch (letter) {
        case 'n': return U'\n';
        case 'r': return U'\r';
        case 't': return U'\t';
        case 'f': return U'\f';
        case 'v': return U'\v';
        default: return std::nullopt;
    }
}

std::optional<uint32_t> hex_value(std::u32string_view digits_text) {
    uint32_t value = 0;
    for (const char32_t c : digits_text) {
        const bool is_digit = c >= '0' && c <= '9';
        const bool is_letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        if (!is_digit && !is_letter) {
            return std::nullopt;
        }
        value = value * 16 + static_cast<uint32_t>(is_digit ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

bool is_ascii_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// What stands at the ends of one alternative of the whole.
struct Branch {
    GrammarNode node;
    bool is_tied_to_begin = false;
    bool is_tied_to_end = false;
};

class PatternParser {
  public:
    PatternParser(std::u32string characters, PatternPlace place) : characters_(std::move(characters)), place_(place) {}

    Result<std::vector<Branch>> run() {
        std::vector<Branch> branches;
        for (;;) {
            Branch branch;
            branch.is_tied_to_begin = take('^');
            DI_TRY(branch.node, sequence(&branch.is_tied_to_end));
            branches.push_back(std::move(branch));
            if (!take('|')) {
                break;
            }
        }
        if (at_ < characters_.size()) {
            return wrong("an unmatched )", "balanced parentheses");
        }
        return branches;
    }

  private:
    bool is_done() const { return at_ >= characters_.size(); }
    char32_t peek(size_t ahead = 0) const { return at_ + ahead < characters_.size() ? characters_[at_ + ahead] : 0; }
    bool take(char32_t c) {
        if (is_done() || peek() != c) {
            return false;
        }
        ++at_;
        return true;
    }

    tl::unexpected<Error> wrong(std::string_view what, std::string_view expected) const {
        return fail(ErrorCode::kInvalidArgument, "{} at character {}, expected {}", what, at_, expected);
    }

    GrammarNode one_of(const CharacterClass& characters) const {
        return place_ == PatternPlace::kJsonString ? json_character(characters) : class_node(characters);
    }

    // Up to | or ) or the end. `tied_to_end` is set for a final $ of the outermost level; null: anchors are errors.
    Result<GrammarNode> sequence(bool* tied_to_end) {
        std::vector<GrammarNode> items;
        while (!is_done() && peek() != '|' && peek() != ')') {
            if (peek() == '$' && tied_to_end != nullptr && (at_ + 1 == characters_.size() || peek(1) == '|')) {
                ++at_;
                *tied_to_end = true;
                break;
            }
            if (peek() == '^' || peek() == '$') {
                return wrong("an anchor inside of the expression", "^ only at the beginning and $ only at the end");
            }
            DI_TRY(GrammarNode item, atom());
            DI_TRY(item, quantified(std::move(item)));
            items.push_back(std::move(item));
        }
        return sequence_node(std::move(items));
    }

    Result<GrammarNode> alternatives() {
        std::vector<GrammarNode> items;
        do {
            DI_TRY(GrammarNode item, sequence(nullptr));
            items.push_back(std::move(item));
        } while (take('|'));
        return choice_node(std::move(items));
    }

    Result<GrammarNode> atom() {
        const char32_t c = peek();
        switch (c) {
            case '(': return group();
            case '[': return bracket();
            case '.': ++at_; return one_of(any_but_line_ends());
            case '\\': {
                DI_TRY(const CharacterClass characters, escape());
                return one_of(characters);
            }
            case '*':
            case '+':
            case '?':
            case '{': return wrong("a repetition of nothing", "something in front of it");
            default: break;
        }
        ++at_;
        return one_of(CharacterClass({{c, c}}));
    }

    Result<GrammarNode> group() {
        if (++depth_ > kGrammarDepthMax) {
            return wrong(fmt::format("groups more than {} deep", kGrammarDepthMax), "less");
        }
        ++at_;
        if (take('?')) {
            DI_TRY_STATUS(group_name());
        }
        DI_TRY(GrammarNode node, alternatives());
        if (!take(')')) {
            return wrong("an open group", ")");
        }
        --depth_;
        return node;
    }

    // Behind "(?": only what changes nothing about the texts that fit.
    Status group_name() {
        if (take(':')) {
            return {};
        }
        take('P');
        if (peek() == '<' && peek(1) != '=' && peek(1) != '!') {
            while (!is_done() && !take('>')) {
                ++at_;
            }
            return {};
        }
        return wrong("a look-around, flag or reference", "(...), (?:...) or (?<name>...)");
    }

    Result<GrammarNode> quantified(GrammarNode item) {
        int64_t least = 0;
        int64_t most = -1;
        if (take('*')) {
        } else if (take('+')) {
            least = 1;
        } else if (take('?')) {
            most = 1;
        } else if (peek() == '{') {
            DI_TRY_STATUS(bounds(least, most));
        } else {
            return item;
        }
        take('?');
        if (peek() == '+' || peek() == '*' || peek() == '?' || peek() == '{') {
            return wrong("a repetition of a repetition", "parentheses around it");
        }
        return repeat_node(without_escapes(std::move(item), most), least, most);
    }

    // A class of a JSON string that is repeated many times with a bound is counted by the machine, which only works for
    // single characters: its escapes are left out.
    GrammarNode without_escapes(GrammarNode item, int64_t most) const {
        constexpr int64_t kWithEscapesMax = 8;
        const bool is_class = place_ == PatternPlace::kJsonString && most > kWithEscapesMax && item.kind == Kind::kChoice &&
                              item.items.front().kind == Kind::kClass &&
                              std::all_of(item.items.begin() + 1, item.items.end(), [](const GrammarNode& other) {
                                  return other.kind == Kind::kText && other.text.starts_with('\\');
                              });
        return is_class ? std::move(item.items.front()) : std::move(item);
    }

    Status bounds(int64_t& least, int64_t& most) {
        ++at_;
        const std::optional<int64_t> first = number();
        if (!first) {
            return wrong("a { that begins no repetition", "{m}, {m,} or {m,n}, or \\{ for the character");
        }
        least = *first;
        most = least;
        if (take(',')) {
            most = peek() == '}' ? -1 : number().value_or(-2);
        }
        if (most == -2 || !take('}')) {
            return wrong("a { that begins no repetition", "{m}, {m,} or {m,n}, or \\{ for the character");
        }
        if (most >= 0 && most < least) {
            return wrong(fmt::format("a repetition from {} to {} times", least, most), "the smaller bound first");
        }
        if (std::max(least, most) > kRepetitionMax) {
            return wrong(fmt::format("a repetition of {} times", std::max(least, most)),
                         fmt::format("at most {}", kRepetitionMax));
        }
        return {};
    }

    std::optional<int64_t> number() {
        const size_t begin = at_;
        int64_t value = 0;
        while (peek() >= '0' && peek() <= '9') {
            value = std::min<int64_t>(value * 10 + static_cast<int64_t>(peek() - '0'), int64_t{1} << 40);
            ++at_;
        }
        return at_ == begin ? std::nullopt : std::optional(value);
    }

    // A backslash and what follows, inside and outside of a class.
    Result<CharacterClass> escape() {
        ++at_;
        if (is_done()) {
            return wrong("a \\ at the end", "a character behind it");
        }
        const char32_t c = peek();
        if (std::optional<CharacterClass> named = named_class(c)) {
            ++at_;
            return std::move(*named);
        }
        if (const std::optional<char32_t> control = control_escape(c)) {
            ++at_;
            return CharacterClass({{*control, *control}});
        }
        if (c == 'x' || c == 'u') {
            return hex_escape(c == 'x' ? 2 : 4);
        }
        if (is_ascii_letter(c) || (c >= '0' && c <= '9')) {
            std::string letter;
            append_utf8(letter, c);
            return wrong(fmt::format("\\{}", letter), "no look-around, back-reference, \\b or \\p");
        }
        ++at_;
        return CharacterClass({{c, c}});
    }

    Result<CharacterClass> hex_escape(size_t length) {
        ++at_;
        const std::u32string_view rest = std::u32string_view(characters_).substr(at_);
        const std::optional<uint32_t> value = rest.size() < length ? std::nullopt : hex_value(rest.substr(0, length));
        if (!value || *value == 0 || (*value >= 0xD800 && *value <= 0xDFFF)) {
            return wrong("a hexadecimal escape", fmt::format("{} digits of a character other than NUL", length));
        }
        at_ += length;
        return CharacterClass({{*value, *value}});
    }

    Result<GrammarNode> bracket() {
        ++at_;
        const bool is_negated = take('^');
        CharacterClass characters;
        for (bool is_first = true; is_first || peek() != ']'; is_first = false) {
            if (is_done()) {
                return wrong("an open class", "]");
            }
            if (is_first && peek() == ']') {
                return wrong("an empty class", "a character in it, or \\] for the bracket");
            }
            DI_TRY(const CharacterClass part, class_part());
            characters = characters.with(part);
        }
        ++at_;
        return one_of(is_negated ? characters.complement() : characters);
    }

    Result<CharacterClass> class_character() {
        if (peek() == '\\') {
            if (peek(1) == 'b') {
                at_ += 2;
                return CharacterClass({{0x8, 0x8}});
            }
            return escape();
        }
        if (peek() == '[' && (peek(1) == ':' || peek(1) == '=' || peek(1) == '.')) {
            return wrong("a POSIX class", "characters and ranges");
        }
        const char32_t c = characters_[at_++];
        return CharacterClass({{c, c}});
    }

    Result<CharacterClass> class_part() {
        // Ranges of control characters begin with NUL, which no text has.
        for (const std::u32string_view nul : {U"\\x00-", U"\\u0000-"}) {
            if (std::u32string_view(characters_).substr(at_).starts_with(nul)) {
                at_ += nul.size();
                DI_TRY(const CharacterClass last, class_character());
                return last.is_empty() ? last : CharacterClass({{0x1, last.ranges().back().last}});
            }
        }
        DI_TRY(CharacterClass first, class_character());
        if (peek() != '-' || peek(1) == ']' || at_ + 1 >= characters_.size()) {
            return first;
        }
        ++at_;
        DI_TRY(const CharacterClass last, class_character());
        const auto is_one = [](const CharacterClass& some) {
            return some.ranges().size() == 1 && some.ranges()[0].first == some.ranges()[0].last;
        };
        if (!is_one(first) || !is_one(last) || last.ranges()[0].first < first.ranges()[0].first) {
            return wrong("a range of a class", "two characters in ascending order");
        }
        return CharacterClass({{first.ranges()[0].first, last.ranges()[0].first}});
    }

    std::u32string characters_;
    PatternPlace place_;
    size_t at_ = 0;
    int depth_ = 0;
};

Result<std::u32string> characters_of(std::string_view text) {
    std::u32string out;
    while (!text.empty()) {
        const Utf8Step step = utf8_step(text);
        if (step.kind != Utf8Step::Kind::kCharacter || step.code_point == 0) {
            return fail(ErrorCode::kInvalidArgument, "NUL or broken UTF-8 at character {}, expected text", out.size());
        }
        out += step.code_point;
        text.remove_prefix(step.length);
    }
    return out;
}

}  // namespace

CharacterClass plain_json_characters() { return CharacterClass({{0x20, 0x10FFFF}}).without(CharacterClass::of("\"\\\x7F")); }

std::string escaped_json_text(std::string_view text) {
    const std::string quoted = json_text(JsonValue::string(std::string(text)));
    return quoted.substr(1, quoted.size() - 2);
}

GrammarNode json_character(const CharacterClass& characters) {
    const CharacterClass plain = plain_json_characters().with(CharacterClass({{0x7F, 0x7F}}));
    std::vector<GrammarNode> items;
    if (CharacterClass direct = characters.common(plain); !direct.is_empty()) {
        items.push_back(class_node(std::move(direct)));
    }
    // Where characters without escapes fit, the escapes that nobody writes are left out: each is a state of the machine.
    const CharacterClass wanted = items.empty() ? CharacterClass::all() : CharacterClass::of("\"\\\b\f\n\r\t");
    const CharacterClass special = characters.without(plain).common(wanted);
    for (const CharacterRange& range : special.ranges()) {
        for (char32_t c = range.first; c <= range.last; ++c) {
            std::string text;
            append_utf8(text, c);
            items.push_back(text_node(escaped_json_text(text)));
        }
    }
    return choice_node(std::move(items));
}

Result<GrammarNode> pattern_grammar(std::string_view pattern, PatternPlace place) {
    if (pattern.size() > kPatternBytesMax) {
        return fail(ErrorCode::kInvalidArgument, "a regular expression of {} bytes, expected at most {}", pattern.size(),
                    kPatternBytesMax);
    }
    DI_TRY(std::u32string characters, characters_of(pattern));
    DI_TRY(std::vector<Branch> branches, PatternParser(std::move(characters), place).run());
    std::vector<GrammarNode> items;
    for (Branch& branch : branches) {
        if (place == PatternPlace::kWholeText) {
            items.push_back(std::move(branch.node));
            continue;
        }
        // Around the match of a JSON string characters stand without escapes.
        const GrammarNode anything = repeat_node(class_node(plain_json_characters()), 0, -1);
        std::vector<GrammarNode> parts;
        if (!branch.is_tied_to_begin) {
            parts.push_back(anything);
        }
        parts.push_back(std::move(branch.node));
        if (!branch.is_tied_to_end) {
            parts.push_back(anything);
        }
        items.push_back(sequence_node(std::move(parts)));
    }
    GrammarNode node{.kind = Kind::kPattern};
    node.items.push_back(choice_node(std::move(items)));
    return node;
}

}  // namespace di
