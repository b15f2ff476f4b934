#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar_rules.h"
#include "text/json_text.h"

namespace di {

// Blanks between the pieces of a JSON answer. None of them lets a model write blanks for ever.
enum class JsonBlanks : uint8_t {
    kNone,   // {"a":1,"b":2}
    kSpace,  // also one space behind a comma and a colon, as Python writes it
    kLines,  // also a line break and up to 24 spaces behind brackets and commas
};

// The JSON texts that a schema allows, as far as a grammar can say it; every text that comes out is valid against the
// schema. Narrower than the schema in these points: members stand in the order of `properties`; where the schema says
// nothing about additional properties there are none; a string with minLength or maxLength has no escapes; numbers have
// up to 18 digits. Keywords: type, enum, const, properties, required, additionalProperties, minProperties, maxProperties
// (where the names alone do not decide it only for maps), items, prefixItems, minItems, maxItems, pattern (the dialect of
// pattern_grammar.h), minLength, maxLength, format (date, time, date-time, email, hostname, ipv4, ipv6, uuid), minimum,
// maximum, exclusiveMinimum, exclusiveMaximum, $ref into the schema, allOf, anyOf, oneOf (when the alternatives exclude
// each other), $defs, definitions. Any other keyword that asserts something is an error with its path.
[[nodiscard]] Result<GrammarRules> schema_grammar(const JsonValue& schema, JsonBlanks blanks);

// One member of an object, apart by how tool calls write its value: strings as they are, everything else as JSON.
struct ArgumentGrammar {
    std::string name;
    GrammarNode text = choice_node({});  // nothing fits where no string does
    GrammarNode json = choice_node({});
};

struct ArgumentsGrammar {
    std::vector<ArgumentGrammar> arguments;  // all of them required, in the order of `properties`
    GrammarRules rules;                      // what their nodes refer to
};

// The same for the arguments of a tool. What the schema says about the object as a whole beside its members cannot be
// enforced and is an error; `required` is taken as if it named all of them (closed_schema() in strict_schema.h).
[[nodiscard]] Result<ArgumentsGrammar> arguments_grammar(const JsonValue& schema, JsonBlanks blanks);

// Any JSON object.
[[nodiscard]] GrammarRules json_object_grammar(JsonBlanks blanks);

}  // namespace di
