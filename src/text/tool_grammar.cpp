#include "text/tool_grammar.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "text/chat_encoding.h"
#include "text/chat_tokens.h"
#include "text/declared_types.h"
#include "text/json_grammar.h"
#include "text/limits.h"
#include "text/number_grammar.h"
#include "text/schema_grammar.h"
#include "text/strict_schema.h"
#include "text/tool_tags.h"

namespace di {
namespace {

using Kind = GrammarNode::Kind;
using CallStart = GrammarSpec::CallStart;

GrammarNode sequence(std::initializer_list<GrammarNode> items) { return sequence_node(std::vector<GrammarNode>(items)); }

std::string open_tag(std::string_view name) { return std::string("<") + kMarkerStandIn + std::string(name); }
std::string close_tag(std::string_view name) { return std::string("</") + kMarkerStandIn + std::string(name) + ">"; }

bool has_marker(std::string_view text) { return text.find(kMarkerStandIn) != std::string_view::npos; }

// Takes the marker out of what values and formats may hold.
void forbid_marker(GrammarNode& node) {
    static const CharacterClass kMarker({{kMarkerStandIn, kMarkerStandIn}});
    if (node.kind == Kind::kText && has_marker(node.text)) {
        node = choice_node({});
    } else if (node.kind == Kind::kClass) {
        node.characters = node.characters.without(kMarker);
    } else if (node.kind == Kind::kFreeText) {
        node.excludes.emplace_back(1, kMarkerStandIn);
        std::erase_if(node.items, [](const GrammarNode& item) { return has_marker(item.items[0].text); });
    }
    for (GrammarNode& item : node.items) {
        forbid_marker(item);
    }
}

void forbid_marker(GrammarRules& grammar) {
    for (GrammarRules::Rule& rule : grammar.rules) {
        forbid_marker(rule.body);
    }
}

// Keys are written raw between quotes.
bool is_writable(std::string_view key) { return key.find('"') == std::string_view::npos && !has_marker(key); }

const JsonValue::Object& properties_of(const Tool& tool) {
    static const JsonValue::Object kNone;
    const JsonValue* properties = tool.parameters.find("properties");
    return properties != nullptr && properties->is_object() ? properties->as_object() : kNone;
}

bool is_open(const Tool& tool) {
    const JsonValue* additional = tool.parameters.find("additionalProperties");
    return additional == nullptr || !additional->is_boolean() || additional->as_boolean();
}

bool is_strict(const Tool& tool) { return (tool.is_strict || tool.is_custom) && !tool.parameters.as_object().empty(); }

class CallRules {
  public:
    explicit CallRules(JsonBlanks blanks) : json_(grammar_, blanks), blanks_(blanks) {}

    Result<GrammarRules> run(const GrammarSpec& spec, std::optional<GrammarRules> other_answer) {
        (void)json_.add_rule("answer");
        size_t typed_count = 0;
        for (const Tool& tool : spec.tools) {
            typed_count += is_strict(tool) ? 0 : properties_of(tool).size();
        }
        types_arguments_ = typed_count <= kTypedArgumentsMax;
        std::vector<GrammarNode> tools;
        for (const Tool& tool : spec.tools) {
            Result<GrammarNode> body = is_strict(tool) ? strict_body(tool) : loose_body(tool);
            if (!body) {
                return fail_in(member_path(tool.path, tool.schema_key), std::move(body.error()));
            }
            tools.push_back(sequence({text_node(tool.name + "\">\n"), std::move(*body), text_node(close_tag(kTags.invoke))}));
        }
        const GrammarNode call = rule_node(
            json_.add_rule("call", sequence({text_node(open_tag(kTags.invoke) + " name=\""), choice_node(std::move(tools))})));
        std::vector<GrammarNode> items = {text_node(opening(spec.call_start)), call};
        if (!spec.is_single_call) {
            items.push_back(repeat_node(sequence({text_node("\n"), call}), 0, -1));
        }
        items.push_back(text_node("\n" + close_tag(kTags.block)));
        GrammarNode root = sequence_node(std::move(items));
        if (other_answer) {
            forbid_marker(*other_answer);
            const GrammarNode other = rule_node(append_rules(grammar_, std::move(*other_answer)));
            root = choice_node({other, std::move(root)});
        }
        grammar_.rules[0].body = std::move(root);
        return std::move(grammar_);
    }

  private:
    static constexpr const ToolTags& kTags = kToolTagsV41;

    static std::string opening(CallStart start) {
        const std::string behind_marker = std::string(kTags.block) + ">\n";
        switch (start) {
            case CallStart::kMarker: return behind_marker;
            case CallStart::kAnswer: return "\n\n" + open_tag(behind_marker);
            case CallStart::kBlock: break;
        }
        return "";
    }

    // All properties in their order. A call without arguments has an empty line in their place.
    Result<GrammarNode> strict_body(const Tool& tool) {
        DI_TRY(ArgumentsGrammar part, arguments_grammar(closed_schema(tool.parameters), blanks_));
        forbid_marker(part.rules);
        const int32_t first = append_rules(grammar_, std::move(part.rules));
        std::vector<GrammarNode> items;
        for (ArgumentGrammar& argument : part.arguments) {
            if (!is_writable(argument.name)) {
                return fail(ErrorCode::kInvalidArgument, "{}: cannot be written in a call, expected a name without quotes",
                            member_path("properties", argument.name));
            }
            forbid_marker(argument.text);
            forbid_marker(argument.json);
            shift_rules(argument.json, first);
            items.push_back(text_node(open_tag(kTags.parameter) + " name=\"" + argument.name + "\""));
            items.push_back(value(std::move(argument.text), std::move(argument.json)));
            items.push_back(text_node("\n"));
        }
        return items.empty() ? text_node("\n") : sequence_node(std::move(items));
    }

    // Any number of properties in any order.
    Result<GrammarNode> loose_body(const Tool& tool) {
        std::vector<std::string> names;
        std::vector<GrammarNode> items;
        for (const JsonMember& property : properties_of(tool)) {
            if (!types_arguments_) {
                break;
            }
            names.push_back(property.key);
            const uint32_t types = declared_types(tool.parameters, property.value);
            if (types != 0 && is_writable(property.key)) {
                items.push_back(sequence({text_node("\"" + property.key + "\""), typed_value(types)}));
            }
        }
        if (is_open(tool) || !types_arguments_) {
            GrammarNode key{.kind = Kind::kPattern};
            key.items.push_back(JsonGrammar::quoted_other_name(names));
            items.push_back(sequence({std::move(key), typed_value(kTypesAll)}));
        }
        if (items.empty()) {
            return text_node("\n");
        }
        GrammarNode parameter =
            sequence({text_node(open_tag(kTags.parameter) + " name="), choice_node(std::move(items)), text_node("\n")});
        return choice_node({text_node("\n"), repeat_node(std::move(parameter), 1, -1)});
    }

    // From behind the key to the end of the tag. Text is one automaton with what ends it: the machine is fast there.
    static GrammarNode value(GrammarNode text, GrammarNode json) {
        GrammarNode pattern{.kind = Kind::kPattern};
        pattern.items.push_back(sequence({std::move(text), text_node(close_tag(kTags.parameter))}));
        return sequence(
            {text_node(" string=\""),
             choice_node({sequence({text_node("true\">"), std::move(pattern)}),
                          sequence({text_node("false\">"), std::move(json), text_node(close_tag(kTags.parameter))})})});
    }

    // One rule for each set of types, whatever the tools are.
    GrammarNode typed_value(uint32_t types) {
        const auto [entry, is_new] = typed_values_.try_emplace(types, -1);
        if (is_new) {
            GrammarNode text = choice_node({});
            if ((types & kTypeString) != 0) {
                text = repeat_node(class_node(CharacterClass::all()), 0, -1);
                forbid_marker(text);
            }
            entry->second = json_.add_rule("value", value(std::move(text), json_value(types)));
        }
        return rule_node(entry->second);
    }

    GrammarNode json_value(uint32_t types) {
        if (types == kTypesAll) {
            return json_.value();
        }
        std::vector<GrammarNode> items;
        if ((types & (kTypeInteger | kTypeNumber)) != 0) {
            Result<GrammarNode> number = (types & kTypeNumber) != 0 ? number_grammar({}, {}) : integer_grammar({}, {});
            DI_CHECK(number.has_value(), "numbers without bounds");
            items.push_back(std::move(*number));
        }
        if ((types & kTypeBoolean) != 0) {
            items.push_back(text_node("true"));
            items.push_back(text_node("false"));
        }
        if ((types & kTypeNull) != 0) {
            items.push_back(text_node("null"));
        }
        if ((types & kTypeArray) != 0) {
            items.push_back(json_.list(json_.value(), 0, -1));
        }
        if ((types & kTypeObject) != 0) {
            items.push_back(json_.object());
        }
        return choice_node(std::move(items));
    }

    GrammarRules grammar_;
    JsonGrammar json_;
    JsonBlanks blanks_;
    bool types_arguments_ = true;  // of tools that are not strict
    std::map<uint32_t, int32_t> typed_values_;
};

// A token of the chat format that the answer needs.
std::optional<int32_t> added_token(const Tokenizer& tokenizer, std::string_view spelling) {
    const std::optional<int32_t> id = tokenizer.find(spelling);
    return id && tokenizer.is_added(*id) ? id : std::nullopt;
}

GrammarSpec call_spec(const Conversation& conversation, bool allows_parallel_calls, std::optional<GrammarSpec> format) {
    GrammarSpec spec{.kind = GrammarSpec::Kind::kToolCalls};
    for (const Tool* tool : offered_tools(conversation)) {
        Tool& copy = spec.tools.emplace_back(*tool);
        copy.description.clear();
    }
    spec.is_single_call = !allows_parallel_calls;
    if (answer_start(conversation) == AnswerStart::kCalls) {
        spec.call_start = CallStart::kBlock;
    } else if (forces_tool_call(conversation)) {
        spec.call_start = CallStart::kAnswer;
    } else if (format) {
        spec.call_start = CallStart::kAnswer;
        spec.other_answer.push_back(std::move(*format));
    }
    return spec;
}

}  // namespace

Result<std::optional<GrammarSpec>> answer_grammar(const Conversation& conversation, bool allows_parallel_calls,
                                                  const Tokenizer& tokenizer) {
    std::optional<GrammarSpec> spec = format_grammar(conversation.response_format);
    if (conversation.messages.empty()) {
        return spec;  // what is wrong with that is for the prompt's encoder to say
    }
    if (may_call_tools(conversation) && added_token(tokenizer, kToolMarkerToken)) {
        spec = call_spec(conversation, allows_parallel_calls, std::move(spec));
    }
    const AnswerStart start = answer_start(conversation);
    const bool reasons_first = start == AnswerStart::kReasoning || start == AnswerStart::kReasoningContinued;
    const bool is_free_text = !spec || (spec->kind == GrammarSpec::Kind::kToolCalls && spec->call_start == CallStart::kMarker);
    if (reasons_first && !is_free_text) {
        const std::optional<int32_t> end = tokenizer.find(kThinkEndToken);
        if (!end) {
            return fail(ErrorCode::kUnsupported,
                        "an answer of a given form behind reasoning: the tokenizer has no {}, expected one", kThinkEndToken);
        }
        spec->trigger_token_ids = {*end};
    }
    return spec;
}

Result<GrammarRules> tool_call_grammar(const GrammarSpec& spec, std::optional<GrammarRules> other_answer) {
    return CallRules(spec.blanks).run(spec, std::move(other_answer));
}

}  // namespace di
