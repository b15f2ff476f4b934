#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/character_class.h"

// A grammar as data: what schemas, regular expressions, choices and written grammars become before anything is compiled,
// so that limits and dead ends are looked for in one place.
namespace di {

// A piece of a grammar: which texts stand there. A plain value type; nesting is bounded by whoever builds it.
struct GrammarNode {
    enum class Kind : uint8_t {
        kText,      // exactly `text`
        kClass,     // one character of `characters`
        kRule,      // whatever rule number `rule` says
        kSequence,  // all of `items` in a row; none: the empty text
        kChoice,    // any one of `items`; none: nothing fits
        kRepeat,    // items[0], `least` to `most` times in a row
        kPattern,   // items[0], a regular expression by itself: compiled as one automaton
        kFreeText,  // any text without `excludes`; where the text of one of `items` (text, then rule) comes, its rule follows
    };
    Kind kind = Kind::kSequence;
    std::string text = {};
    CharacterClass characters = {};
    int32_t rule = -1;
    int64_t least = 0;
    int64_t most = 0;  // -1: no bound; of kFreeText: 1 when it ends with the first rule
    std::vector<GrammarNode> items = {};
    std::vector<std::string> excludes = {};
};

[[nodiscard]] GrammarNode text_node(std::string text);
[[nodiscard]] GrammarNode class_node(CharacterClass characters);
[[nodiscard]] GrammarNode rule_node(int32_t rule);
[[nodiscard]] GrammarNode sequence_node(std::vector<GrammarNode> items);
[[nodiscard]] GrammarNode choice_node(std::vector<GrammarNode> items);
[[nodiscard]] GrammarNode repeat_node(GrammarNode item, int64_t least, int64_t most);
[[nodiscard]] GrammarNode optional_node(GrammarNode item);

struct GrammarRules {
    struct Rule {
        std::string name;  // for messages
        GrammarNode body;
    };
    std::vector<Rule> rules;  // the first one is the root
};

// Puts the rules of `part` behind those of `grammar` and returns the number of its first one, by which the numbers in nodes
// that refer to `part` are to be shifted.
int32_t append_rules(GrammarRules& grammar, GrammarRules part);
void shift_rules(GrammarNode& node, int32_t by);

// Characters that the longest text of the node has: -1 without a bound, or where a rule is referred to.
[[nodiscard]] int64_t characters_max(const GrammarNode& node);
[[nodiscard]] int64_t characters_min(const GrammarNode& node);  // 0 where a rule is referred to

// Makes the grammar ready to compile: alternatives that can never come to an end are taken out, so that no output is
// led into them, and so are rules that nobody refers to; a rule with one reference takes its place. Errors: a text with
// NUL, bounds of limits.h, a root that can never end.
[[nodiscard]] Status finish_grammar(GrammarRules& grammar);

// The grammar in the dialect of the compiler. `end` is put behind the root.
[[nodiscard]] std::string grammar_text(const GrammarRules& grammar, std::string_view end);

}  // namespace di
