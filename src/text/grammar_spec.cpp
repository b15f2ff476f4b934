#include "text/grammar_spec.h"

#include <array>
#include <utility>

#include "text/ebnf_grammar.h"
#include "text/grammar_rules.h"
#include "text/json_text.h"
#include "text/limits.h"
#include "text/pattern_grammar.h"
#include "text/structural_tag.h"
#include "text/tool_grammar.h"
#include "text/unicode.h"

namespace di {
namespace {

using Kind = GrammarSpec::Kind;

struct NamedKind {
    std::string_view name;
    Kind kind;
};

constexpr std::array kKinds = {
    NamedKind{"json", Kind::kJsonSchema}, NamedKind{"json_object", Kind::kJsonObject},
    NamedKind{"regex", Kind::kRegex},     NamedKind{"ebnf", Kind::kEbnf},
    NamedKind{"choice", Kind::kChoice},   NamedKind{"structural_tag", Kind::kStructuralTag},
};

GrammarRules single_rule(GrammarNode body) {
    GrammarRules grammar;
    grammar.rules.push_back({.name = "answer", .body = std::move(body)});
    return grammar;
}

Result<GrammarRules> choice_grammar(const std::vector<std::string>& choices) {
    if (choices.empty()) {
        return fail(ErrorCode::kInvalidArgument, "no choices, expected at least one");
    }
    std::vector<GrammarNode> items;
    for (const std::string& choice : choices) {
        if (!is_valid_utf8(choice)) {
            return fail(ErrorCode::kInvalidArgument, "choice {} is no UTF-8, expected text", items.size());
        }
        items.push_back(text_node(choice));
    }
    // One automaton: choices with common beginnings then share their states.
    GrammarNode pattern{.kind = GrammarNode::Kind::kPattern};
    pattern.items.push_back(choice_node(std::move(items)));
    return single_rule(std::move(pattern));
}

Result<GrammarRules> rules_of(const GrammarSpec& spec) {
    switch (spec.kind) {
        case Kind::kJsonSchema: {
            DI_TRY(const JsonValue schema, parse_json(spec.text));
            return schema_grammar(schema, spec.blanks);
        }
        case Kind::kJsonObject: return json_object_grammar(spec.blanks);
        case Kind::kRegex: {
            DI_TRY(GrammarNode node, pattern_grammar(spec.text, PatternPlace::kWholeText));
            return single_rule(std::move(node));
        }
        case Kind::kEbnf: return ebnf_grammar(spec.text);
        case Kind::kChoice: return choice_grammar(spec.choices);
        case Kind::kStructuralTag: {
            DI_TRY(const JsonValue tag, parse_json(spec.text));
            return structural_tag_grammar(tag, spec.blanks);
        }
        case Kind::kToolCalls: {
            std::optional<GrammarRules> other;
            if (!spec.other_answer.empty()) {
                DI_TRY(other, rules_of(spec.other_answer.front()));
            }
            return tool_call_grammar(spec, std::move(other));
        }
    }
    return fail(ErrorCode::kInternal, "a kind of grammar without a name");
}

Result<std::string> source_of(const GrammarSpec& spec, std::string_view end) {
    size_t bytes = spec.text.size();
    for (const std::string& choice : spec.choices) {
        bytes += choice.size() + 1;
    }
    if (!spec.other_answer.empty()) {
        bytes += spec.other_answer.front().text.size();
    }
    if (bytes > kGrammarBytesMax) {
        return fail(ErrorCode::kInvalidArgument, "{} bytes, expected at most {}", bytes, kGrammarBytesMax);
    }
    DI_TRY(GrammarRules grammar, rules_of(spec));
    DI_TRY_STATUS(finish_grammar(grammar));
    return grammar_text(grammar, end);
}

}  // namespace

std::string_view grammar_kind_name(GrammarSpec::Kind kind) {
    for (const NamedKind& named : kKinds) {
        if (named.kind == kind) {
            return named.name;
        }
    }
    return kind == Kind::kToolCalls ? "tools" : "";
}

Result<GrammarSpec::Kind> parse_grammar_kind(std::string_view name) {
    for (const NamedKind& named : kKinds) {
        if (named.name == name) {
            return named.kind;
        }
    }
    return fail(ErrorCode::kInvalidArgument, "{}, expected json, json_object, regex, ebnf, choice or structural_tag",
                short_quoted(name));
}

std::optional<GrammarSpec> format_grammar(const ResponseFormat& format) {
    GrammarSpec spec;
    switch (format.kind) {
        case ResponseFormat::Kind::kText: return std::nullopt;
        case ResponseFormat::Kind::kJsonObject: spec.kind = Kind::kJsonObject; break;
        case ResponseFormat::Kind::kJsonSchema:
            spec.kind = Kind::kJsonSchema;
            spec.text = json_text(format.schema);
            break;
        case ResponseFormat::Kind::kRegex:
            spec.kind = Kind::kRegex;
            spec.text = format.pattern;
            break;
        case ResponseFormat::Kind::kGrammar:
            spec.kind = Kind::kEbnf;
            spec.text = format.pattern;
            break;
        case ResponseFormat::Kind::kChoice:
            spec.kind = Kind::kChoice;
            spec.choices = format.choices;
            break;
        case ResponseFormat::Kind::kStructuralTag:
            spec.kind = Kind::kStructuralTag;
            spec.text = json_text(format.schema);
            break;
    }
    return spec;
}

Result<std::string> grammar_source(const GrammarSpec& spec, std::string_view end) {
    Result<std::string> source = source_of(spec, end);
    if (!source && spec.kind != Kind::kToolCalls) {
        return fail_in(grammar_kind_name(spec.kind), std::move(source.error()));
    }
    return source;
}

}  // namespace di
