#pragma once

#include <string_view>

#include "base/result.h"
#include "text/grammar_rules.h"

namespace di {

enum class PatternPlace : uint8_t {
    kWholeText,     // the text is the match
    kSearchedText,  // the text has a match in it
    kJsonString,    // between the quotes of a JSON string: the string's value has a match in it, as JSON Schema says
};

// A regular expression as a grammar. The dialect is what ECMA-262 and Python's `re` have in common: characters, `.`,
// classes, \d \w \s and their opposites (ASCII; what either dialect counts as one of them is never in the opposite),
// \n \r \t \f \v \0xx \xHH \uHHHH, groups (also named), | * + ? {m} {m,} {m,n}, lazy forms (the same texts fit), and the
// anchors ^ and $ at the ends of the whole or of an alternative of it. Errors name the place and the construct: look-around,
// back-references, \b, \p, flags, possessive forms, anchors elsewhere, bounds of limits.h.
[[nodiscard]] Result<GrammarNode> pattern_grammar(std::string_view pattern, PatternPlace place);

// One character of a JSON string: as it is, or as an escape. Control characters that have no short escape are left out
// where the class has others.
[[nodiscard]] GrammarNode json_character(const CharacterClass& characters);
// Characters that stand in a JSON string without an escape.
[[nodiscard]] CharacterClass plain_json_characters();
// What stands between quotes for exactly this text.
[[nodiscard]] std::string escaped_json_text(std::string_view text);

}  // namespace di
