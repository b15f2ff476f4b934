#pragma once

#include <optional>

#include "base/result.h"
#include "text/conversation.h"
#include "text/grammar_rules.h"
#include "text/grammar_spec.h"
#include "text/tokenizer.h"

// Tool calls as a grammar (spec: chat encoding, sections 5.2 and 5.4): from the marker token on an answer is a block of calls
// that the parser reads, of offered tools alone, and nothing follows it. The marker stands nowhere else.
//   strict tools: the closed schema; all properties in their order, strings as raw text
//   other tools: the required properties and any of the others, in any order, with values of their schemas (of their types,
//   where a schema cannot be held to); further keys where the schema asks for them. Never an error.
namespace di {

// Stands for the marker token in rules and in the vocabulary of these grammars, where no other token and no text has it.
inline constexpr char kMarkerStandIn = '\x01';

// What the answer to a conversation must look like: calls, its response format, or either of them; none for free text. For
// GrammarCompiler::submit(), which reports what is wrong with schemas.
// The model may call: free text until `<` and the marker, also inside the reasoning. It has to: the block comes behind the
// reasoning or at once. There is a format: behind the reasoning the answer is of the format, or a block.
[[nodiscard]] Result<std::optional<GrammarSpec>> answer_grammar(const Conversation& conversation, bool allows_parallel_calls,
                                                                const Tokenizer& tokenizer);

// The rules of a spec of kind kToolCalls. `other_answer`: those of its other answer.
[[nodiscard]] Result<GrammarRules> tool_call_grammar(const GrammarSpec& spec, std::optional<GrammarRules> other_answer);

}  // namespace di
