#pragma once

#include "base/result.h"
#include "text/grammar_rules.h"
#include "text/json_text.h"
#include "text/schema_grammar.h"

namespace di {

// Answers that mix free text and constrained pieces: {"type": "structural_tag", "format": FORMAT}, or the older form
// {"structures": [{"begin", "schema", "end"}], "triggers": [...]}. FORMAT is an object with a type:
//   const_string {value}   json_schema {json_schema}   regex {pattern}   grammar {grammar}
//   sequence | or {elements}   optional | plus | star {content}   repeat {content, min, max}
//   tag {begin, content, end}: end is a string or a list of which one comes
//   any_text {excludes}: text in which none of `excludes` occurs; inside a tag the tag's end is excluded too
//   triggered_tags {triggers, tags, excludes, at_least_one, stop_after_first}: free text; where a trigger comes, one of the tags
//     that begin with it must follow
//   tags_with_separator {tags, separator, at_least_one, stop_after_first}
// Errors name the path; other types and keys are errors.
[[nodiscard]] Result<GrammarRules> structural_tag_grammar(const JsonValue& tag, JsonBlanks blanks);

}  // namespace di
