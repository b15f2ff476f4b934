#include "text/json_grammar.h"

#include <map>
#include <utility>

#include "base/check.h"
#include "text/number_grammar.h"
#include "text/pattern_grammar.h"
#include "text/unicode.h"

namespace di {
namespace {

constexpr int64_t kIndentMax = 24;

GrammarNode sequence(std::initializer_list<GrammarNode> items) { return sequence_node(std::vector<GrammarNode>(items)); }
GrammarNode choice(std::initializer_list<GrammarNode> items) { return choice_node(std::vector<GrammarNode>(items)); }

GrammarNode quoted(GrammarNode inner) { return sequence({text_node("\""), std::move(inner), text_node("\"")}); }

GrammarNode line_break() {
    return sequence({text_node("\n"), repeat_node(class_node(CharacterClass::of(" ")), 0, kIndentMax)});
}

// \" \\ \/ \b \f \n \r \t, and \uHHHH for what is a character: no half surrogates.
GrammarNode escape_sequence() {
    const GrammarNode hex = class_node(CharacterClass({{'0', '9'}, {'a', 'f'}, {'A', 'F'}}));
    const GrammarNode outside =
        choice({sequence({class_node(CharacterClass({{'0', '9'}, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}})), hex}),
                sequence({class_node(CharacterClass::of("dD")), class_node(CharacterClass({{'0', '7'}}))})});
    const GrammarNode high =
        sequence({class_node(CharacterClass::of("dD")), class_node(CharacterClass::of("89abAB")), hex, hex});
    const GrammarNode low =
        sequence({class_node(CharacterClass::of("dD")), class_node(CharacterClass({{'c', 'f'}, {'C', 'F'}})), hex, hex});
    return sequence(
        {text_node("\\"), choice({class_node(CharacterClass::of("\"\\/bfnrt")), sequence({text_node("u"), outside, hex, hex}),
                                  sequence({text_node("u"), high, text_node("\\u"), low})})});
}

// Names as a tree of characters.
struct NameTree {
    bool is_name = false;
    std::map<char32_t, NameTree> next;
};

// What may stand from here to the closing quote, so that the whole is none of the names.
GrammarNode rest_of_other_name(const NameTree& tree, const GrammarNode& anything) {
    CharacterClass others = plain_json_characters();
    std::vector<GrammarNode> items;
    if (!tree.is_name) {
        items.push_back(text_node(""));
    }
    for (const auto& [character, below] : tree.next) {
        const CharacterClass one({{character, character}});
        others = others.without(one);
        items.push_back(sequence({class_node(one), rest_of_other_name(below, anything)}));
    }
    items.push_back(sequence({class_node(others), anything}));
    return choice_node(std::move(items));
}

}  // namespace

int32_t JsonGrammar::add_rule(std::string name, GrammarNode body) {
    grammar_.rules.push_back({.name = std::move(name), .body = std::move(body)});
    return static_cast<int32_t>(grammar_.rules.size()) - 1;
}

GrammarNode JsonGrammar::comma() const {
    switch (blanks_) {
        case JsonBlanks::kNone: return text_node(",");
        case JsonBlanks::kSpace: return sequence({text_node(","), optional_node(text_node(" "))});
        case JsonBlanks::kLines: return sequence({text_node(","), choice({text_node(""), text_node(" "), line_break()})});
    }
    return {};
}

GrammarNode JsonGrammar::colon() const {
    return blanks_ == JsonBlanks::kNone ? text_node(":") : sequence({text_node(":"), optional_node(text_node(" "))});
}

GrammarNode JsonGrammar::open(char bracket) const {
    GrammarNode node = text_node(std::string(1, bracket));
    return blanks_ == JsonBlanks::kLines ? sequence({std::move(node), optional_node(line_break())}) : node;
}

GrammarNode JsonGrammar::close(char bracket) const {
    GrammarNode node = text_node(std::string(1, bracket));
    return blanks_ == JsonBlanks::kLines ? sequence({optional_node(line_break()), std::move(node)}) : node;
}

GrammarNode JsonGrammar::string() {
    if (!string_) {
        // One automaton: in every other form the machine looks at each token of the vocabulary inside of a string.
        GrammarNode pattern{.kind = GrammarNode::Kind::kPattern};
        pattern.items.push_back(quoted(repeat_node(choice({class_node(plain_json_characters()), escape_sequence()}), 0, -1)));
        string_ = add_rule("string", std::move(pattern));
    }
    return rule_node(*string_);
}

GrammarNode JsonGrammar::member(const std::string& name, GrammarNode value) const {
    return sequence({text_node("\"" + escaped_json_text(name) + "\""), colon(), std::move(value)});
}

GrammarNode JsonGrammar::list(GrammarNode item, int64_t least, int64_t most) const {
    if (most >= 0 && most < least) {
        return choice_node({});
    }
    GrammarNode full =
        sequence({item, repeat_node(sequence({comma(), item}), std::max<int64_t>(0, least - 1), most < 0 ? -1 : most - 1)});
    if (most == 0) {
        full = sequence_node({});
    } else if (least == 0) {
        full = optional_node(std::move(full));
    }
    return sequence({open('['), std::move(full), close(']')});
}

GrammarNode JsonGrammar::value() {
    if (!value_) {
        value_ = add_rule("value");
        const Result<GrammarNode> number = number_grammar({}, {});
        DI_CHECK(number.has_value(), "numbers without bounds");
        const int32_t number_rule = add_rule("number", *number);
        GrammarNode body = choice(
            {object(), array(), string(), rule_node(number_rule), text_node("true"), text_node("false"), text_node("null")});
        grammar_.rules[static_cast<size_t>(*value_)].body = std::move(body);
    }
    return rule_node(*value_);
}

GrammarNode JsonGrammar::object() {
    if (!object_) {
        object_ = add_rule("object");
        const GrammarNode one = sequence({string(), colon(), value()});
        GrammarNode members = optional_node(sequence({one, repeat_node(sequence({comma(), one}), 0, -1)}));
        grammar_.rules[static_cast<size_t>(*object_)].body = sequence({open('{'), std::move(members), close('}')});
    }
    return rule_node(*object_);
}

GrammarNode JsonGrammar::array() {
    const int32_t rule = add_rule("array");
    GrammarNode body = list(value(), 0, -1);
    grammar_.rules[static_cast<size_t>(rule)].body = std::move(body);
    return rule_node(rule);
}

GrammarNode JsonGrammar::literal(const JsonValue& value) const {
    std::vector<GrammarNode> items;
    if (value.is_array()) {
        items.push_back(open('['));
        for (const JsonValue& item : value.as_array()) {
            if (items.size() > 1) {
                items.push_back(comma());
            }
            items.push_back(literal(item));
        }
        items.push_back(close(']'));
        return sequence_node(std::move(items));
    }
    if (value.is_object()) {
        items.push_back(open('{'));
        for (const JsonMember& one : value.as_object()) {
            if (items.size() > 1) {
                items.push_back(comma());
            }
            items.push_back(member(one.key, literal(one.value)));
        }
        items.push_back(close('}'));
        return sequence_node(std::move(items));
    }
    return text_node(json_text(value));
}

GrammarNode JsonGrammar::other_name(const std::vector<std::string>& names) {
    if (names.empty()) {
        return string();
    }
    NameTree tree;
    for (const std::string& name : names) {
        NameTree* at = &tree;
        for (std::string_view rest = name; !rest.empty();) {
            const Utf8Step step = utf8_step(rest);
            at = &at->next[step.code_point];
            rest.remove_prefix(step.length);
        }
        at->is_name = true;
    }
    const GrammarNode anything = repeat_node(class_node(plain_json_characters()), 0, -1);
    const int32_t rule = add_rule("other name", quoted(rest_of_other_name(tree, anything)));
    return rule_node(rule);
}

}  // namespace di
