#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/grammar_rules.h"
#include "text/json_text.h"
#include "text/schema_grammar.h"

namespace di {

// The pieces that every JSON grammar is made of. Adds its rules to a grammar when they are first asked for.
class JsonGrammar {
  public:
    // `grammar` outlives this.
    JsonGrammar(GrammarRules& grammar, JsonBlanks blanks) : grammar_(grammar), blanks_(blanks) {}

    [[nodiscard]] GrammarNode comma() const;
    [[nodiscard]] GrammarNode colon() const;
    [[nodiscard]] GrammarNode open(char bracket) const;   // with what may stand behind it
    [[nodiscard]] GrammarNode close(char bracket) const;  // with what may stand in front of it

    // Any string, any value, any object.
    [[nodiscard]] GrammarNode string();
    [[nodiscard]] GrammarNode value();
    [[nodiscard]] GrammarNode object();
    // Exactly this value.
    [[nodiscard]] GrammarNode literal(const JsonValue& value) const;
    // A string that is none of `names`, without escapes: the name of an additional property.
    [[nodiscard]] GrammarNode other_name(const std::vector<std::string>& names);

    // "name": value
    [[nodiscard]] GrammarNode member(const std::string& name, GrammarNode value) const;
    // [item, item, ...] with so many items; the item is used twice.
    [[nodiscard]] GrammarNode list(GrammarNode item, int64_t least, int64_t most) const;

    // A new rule, to be filled later or at once.
    int32_t add_rule(std::string name, GrammarNode body = {});

  private:
    GrammarNode array();

    GrammarRules& grammar_;
    JsonBlanks blanks_;
    std::optional<int32_t> string_;
    std::optional<int32_t> value_;
    std::optional<int32_t> object_;
};

}  // namespace di
