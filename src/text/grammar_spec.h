#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/conversation.h"
#include "text/schema_grammar.h"

namespace di {

// What an answer must look like.
struct GrammarSpec {
    enum class Kind : uint8_t {
        kJsonSchema,     // `text` is a schema (schema_grammar.h)
        kJsonObject,     // any JSON object
        kRegex,          // `text` is a regular expression of the whole answer (pattern_grammar.h)
        kEbnf,           // `text` is a grammar (ebnf_grammar.h)
        kChoice,         // one of `choices`
        kStructuralTag,  // `text` is a structural tag (structural_tag.h)
        kToolCalls,      // calls of `tools` (tool_grammar.h)
    };
    // Of kToolCalls: what stands in front of the grammar's first text.
    enum class CallStart : uint8_t {
        kMarker,  // `<｜DSML｜`: the model may call anywhere in its free text
        kAnswer,  // nothing of the block: the answer is one, or `other_answer`
        kBlock,   // the prompt opened the block
    };
    Kind kind = Kind::kJsonObject;
    std::string text = {};
    std::vector<std::string> choices = {};
    JsonBlanks blanks = JsonBlanks::kSpace;
    // Of kToolCalls.
    CallStart call_start = CallStart::kMarker;
    std::vector<Tool> tools = {};
    bool is_single_call = false;
    std::vector<GrammarSpec> other_answer = {};  // at most one: what the answer looks like when it is no call
    // The constraint begins behind these tokens; until they have come in a row, every token is free. Empty: at once.
    // Of kToolCalls at most one, the end of the reasoning; a call may begin before it.
    std::vector<int32_t> trigger_token_ids = {};
    // When this token comes before the trigger, the trigger follows at once.
    std::optional<int32_t> bound_token_id = {};
};

// "json", "regex", "ebnf", "choice", "structural_tag", "json_object": the names of so_args and messages. "tools" is for
// messages alone: it cannot be asked for by name.
[[nodiscard]] std::string_view grammar_kind_name(GrammarSpec::Kind kind);
[[nodiscard]] Result<GrammarSpec::Kind> parse_grammar_kind(std::string_view name);

// The constraint that a request's response format asks for; none for free text.
[[nodiscard]] std::optional<GrammarSpec> format_grammar(const ResponseFormat& format);

// The grammar to compile, in the compiler's dialect, with `end` behind the answer. All limits are checked here, before
// anything is compiled; errors begin with the kind, those of tools with the tool's place in the request.
[[nodiscard]] Result<std::string> grammar_source(const GrammarSpec& spec, std::string_view end);

}  // namespace di
