#pragma once

#include <string_view>

#include "base/result.h"
#include "text/grammar_rules.h"

namespace di {

// A written grammar (EBNF as GBNF and XGrammar have it): rules `name ::= ...`, of which `root` is the answer. Elements:
// "text" and [classes] with the escapes \n \r \t \\ \" \' \- \] \[ \^ \/ \xHH \uHHHH \UHHHHHHHH, names of rules,
// ( ), |, and the repetitions * + ? {m} {m,} {m,n}; # begins a comment. Left recursion is allowed. An error names the
// line: unknown rules, rules defined twice, look-ahead, macros, attributes, bounds of limits.h.
[[nodiscard]] Result<GrammarRules> ebnf_grammar(std::string_view text);

}  // namespace di
