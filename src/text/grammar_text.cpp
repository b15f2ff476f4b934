#include <algorithm>
#include <string>

#include "text/grammar_rules.h"
#include "text/limits.h"
#include "text/unicode.h"

// Writes a grammar in the compiler's EBNF dialect. Three things make the machine fast: what is one automaton is written
// as one `Regex(...)`; a repeated class is written as `[^...]`, because only that form is counted instead of written out;
// and the end of the root is a character of its own, so that the machine knows what follows the last piece.
namespace di {
namespace {

using Kind = GrammarNode::Kind;

// A character inside a literal or a class. Only escapes of fixed length, and only in ASCII.
std::string escaped(char32_t character) {
    const auto code = static_cast<uint32_t>(character);
    const bool is_plain =
        (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || code == ' ';
    if (is_plain) {
        return std::string(1, static_cast<char>(code));
    }
    return code <= 0xFFFF ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

std::string literal(std::string_view text) {
    std::string out = "\"";
    while (!text.empty()) {
        const Utf8Step step = utf8_step(text);
        out += escaped(step.code_point);
        text.remove_prefix(step.length);
    }
    return out + "\"";
}

std::string class_ranges(const std::vector<CharacterRange>& ranges) {
    std::string out;
    for (const CharacterRange& range : ranges) {
        out += escaped(range.first);
        if (range.last != range.first) {
            out += "-" + escaped(range.last);
        }
    }
    return out;
}

// What the class leaves out: NUL and the surrogates are among it, which CharacterClass cannot hold.
std::string negated_class(const CharacterClass& characters) {
    std::vector<CharacterRange> gaps;
    char32_t next = 0;
    for (const CharacterRange& range : characters.ranges()) {
        gaps.push_back({next, range.first - 1});
        next = range.last + 1;
    }
    if (next <= 0x10FFFF) {
        gaps.push_back({next, 0x10FFFF});
    }
    std::string out;
    for (const CharacterRange& gap : gaps) {
        if (gap.first <= gap.last) {
            out += class_ranges({gap});
        }
    }
    return "[^" + out + "]";
}

std::string times(const GrammarNode& node) {
    if (node.least == 0 && node.most == 1) {
        return "?";
    }
    if (node.most < 0) {
        return node.least == 0 ? "*" : node.least == 1 ? "+" : fmt::format("{{{},}}", node.least);
    }
    return fmt::format("{{{},{}}}", node.least, node.most);
}

// The dialect of `Regex(...)`: escaped as above, what is beyond stands for itself.
std::string pattern_character(char32_t character) {
    if (character <= 0xFFFF) {
        return escaped(character);
    }
    std::string out;
    append_utf8(out, character);
    return out;
}

std::string pattern(const GrammarNode& node);

std::string pattern_group(const GrammarNode& node) { return "(?:" + pattern(node) + ")"; }

std::string pattern(const GrammarNode& node) {
    std::string out;
    switch (node.kind) {
        case Kind::kText:
            for (std::string_view rest = node.text; !rest.empty();) {
                const Utf8Step step = utf8_step(rest);
                out += pattern_character(step.code_point);
                rest.remove_prefix(step.length);
            }
            return out;
        case Kind::kClass:
            for (const CharacterRange& range : node.characters.ranges()) {
                out += pattern_character(range.first);
                if (range.last != range.first) {
                    out += "-" + pattern_character(range.last);
                }
            }
            return "[" + out + "]";
        case Kind::kSequence:
            for (const GrammarNode& item : node.items) {
                out += pattern_group(item);
            }
            return out;
        case Kind::kChoice:
            for (const GrammarNode& item : node.items) {
                out += (out.empty() ? "" : "|") + pattern_group(item);
            }
            return out;
        case Kind::kRepeat:
            // The library's `(...)?` also lets the end of its group begin inside of it; a choice does not.
            if (node.least == 0 && node.most == 1) {
                return pattern_group(node.items[0]) + "|";
            }
            return pattern_group(node.items[0]) + times(node);
        case Kind::kPattern: return pattern_group(node.items[0]);
        case Kind::kRule:
        case Kind::kFreeText: break;  // a pattern has none
    }
    return out;
}

// Nodes of the automaton with every repetition written out.
int64_t automaton_size(const GrammarNode& node) {
    int64_t sum = node.kind == Kind::kText ? static_cast<int64_t>(node.text.size()) : 1;
    for (const GrammarNode& item : node.items) {
        sum += automaton_size(item);
    }
    if (node.kind == Kind::kRepeat) {
        sum *= std::max<int64_t>({1, node.least, node.most});
    }
    return std::min(sum, kPatternSizeMax + 1);
}

std::string quoted_pattern(const std::string& text) {
    std::string out;
    for (const char c : text) {
        out += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : std::string(1, c);
    }
    return "Regex(\"" + out + "\")";
}

// The end stands behind the whole answer only, so that a root inside of itself needs a rule without it.
bool refers_to_root(const GrammarNode& node) {
    return (node.kind == Kind::kRule && node.rule == 0) || std::any_of(node.items.begin(), node.items.end(), refers_to_root);
}

class Writer {
  public:
    std::string expression(const GrammarNode& node) const {
        switch (node.kind) {
            case Kind::kText: return node.text.empty() ? "\"\"" : literal(node.text);
            case Kind::kClass: return "[" + class_ranges(node.characters.ranges()) + "]";
            case Kind::kRule: return rule_name(node.rule);
            case Kind::kSequence: return node.items.empty() ? "\"\"" : "(" + joined(node.items, " ") + ")";
            case Kind::kChoice: return "(" + joined(node.items, " | ") + ")";
            case Kind::kRepeat: return repetition(node);
            case Kind::kPattern: {
                // A single counted class is left to the counting form; a large automaton to the general one.
                const GrammarNode& item = node.items[0];
                const bool is_counted = item.kind == Kind::kRepeat && item.items[0].kind == Kind::kClass;
                return is_counted || automaton_size(item) > kPatternSizeMax ? expression(item) : quoted_pattern(pattern(item));
            }
            case Kind::kFreeText: return free_text(node);
        }
        return {};
    }

    static std::string rule_name(int32_t rule) { return fmt::format("r{}", rule); }

  private:
    std::string joined(const std::vector<GrammarNode>& items, std::string_view separator) const {
        std::string out;
        for (const GrammarNode& item : items) {
            out += (out.empty() ? "" : std::string(separator)) + expression(item);
        }
        return out;
    }

    // The end of the root is no free text.
    std::string free_text(const GrammarNode& node) const {
        std::string out = "TagDispatch(";
        for (const GrammarNode& item : node.items) {
            out += fmt::format("({}, {}), ", literal(item.items[0].text), rule_name(item.items[1].rule));
        }
        out += fmt::format("loop_after_dispatch={}, excludes=(\"\\u0000\",", node.most == 1 ? "false" : "true");
        for (const std::string& text : node.excludes) {
            out += literal(text) + ",";
        }
        return out + "))";
    }

    std::string repetition(const GrammarNode& node) const {
        const GrammarNode& item = node.items[0];
        if (node.most == 0) {
            return "\"\"";
        }
        if (node.least == 1 && node.most == 1) {
            return expression(item);
        }
        if (item.kind == Kind::kClass && node.most != 1) {
            return negated_class(item.characters) + times(node);
        }
        return "(" + expression(item) + ")" + times(node);
    }
};

}  // namespace

std::string grammar_text(const GrammarRules& grammar, std::string_view end) {
    const Writer writer;
    const bool is_recursive = std::any_of(grammar.rules.begin(), grammar.rules.end(),
                                          [](const GrammarRules::Rule& rule) { return refers_to_root(rule.body); });
    const GrammarNode& root = grammar.rules[0].body;
    std::string out = "root ::= ";
    if (is_recursive) {
        out += Writer::rule_name(0);
    } else if (root.kind == Kind::kSequence) {
        // Its items stand beside the end, not in parentheses: the machine then sees what follows.
        for (const GrammarNode& item : root.items) {
            out += writer.expression(item) + " ";
        }
    } else {
        out += writer.expression(root);
    }
    out += fmt::format(" \"{}\"\n", end);
    for (size_t i = is_recursive ? 0 : 1; i < grammar.rules.size(); ++i) {
        out += Writer::rule_name(static_cast<int32_t>(i)) + " ::= " + writer.expression(grammar.rules[i].body) + "\n";
    }
    return out;
}

}  // namespace di
