#include "text/tool_grammar.h"

#include <algorithm>
#include <array>
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

// As in schemas of answers, further keys are those that the schema asks for; one that declares nothing asks for any.
bool is_open(const Tool& tool) {
    const JsonValue* additional = tool.parameters.find("additionalProperties");
    return additional == nullptr ? properties_of(tool).empty() : !additional->is_boolean() || additional->as_boolean();
}

bool is_required(const Tool& tool, std::string_view key) {
    const JsonValue* required = tool.parameters.find("required");
    return required != nullptr && required->is_array() &&
           std::any_of(required->as_array().begin(), required->as_array().end(),
                       [key](const JsonValue& name) { return name.is_string() && name.as_string() == key; });
}

// A schema that says no more than the type of values.
bool is_plain(const JsonValue& schema) {
    static constexpr std::array<std::string_view, 7> kSaysNoMore = {"type",     "title",    "description", "default",
                                                                    "examples", "$comment", "deprecated"};
    return schema.is_object() &&
           std::all_of(schema.as_object().begin(), schema.as_object().end(), [](const JsonMember& member) {
               return std::find(kSaysNoMore.begin(), kSaysNoMore.end(), member.key) != kSaysNoMore.end();
           });
}

// The parameters with this property alone.
JsonValue reduced_to(const JsonValue& parameters, const JsonMember& property) {
    JsonValue result = JsonValue::object();
    for (const std::string_view key : {"$defs", "definitions"}) {
        if (const JsonValue* shared = parameters.find(key)) {
            result.set(std::string(key), *shared);
        }
    }
    result.set("type", JsonValue::string("object"));
    result.set("properties", JsonValue::object({property}));
    return result;
}

bool is_strict(const Tool& tool) { return (tool.is_strict || tool.is_custom) && !tool.parameters.as_object().empty(); }

class CallRules {
  public:
    explicit CallRules(JsonBlanks blanks) : json_(grammar_, blanks), blanks_(blanks) {}

    Result<GrammarRules> run(const GrammarSpec& spec, std::optional<GrammarRules> other_answer) {
        (void)json_.add_rule("answer");
        count_arguments(spec.tools);
        std::vector<GrammarNode> tools;
        for (const Tool& tool : spec.tools) {
            Result<GrammarNode> body = is_strict(tool) ? strict_body(tool) : Result<GrammarNode>(loose_body(tool));
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

    void count_arguments(const std::vector<Tool>& tools) {
        size_t declared = 0;
        size_t open_bytes = 0;
        size_t schemas = 0;
        for (const Tool& tool : tools) {
            if (is_strict(tool)) {
                continue;
            }
            for (const JsonMember& property : properties_of(tool)) {
                ++declared;
                open_bytes += is_open(tool) ? property.key.size() : 0;
                schemas += is_plain(property.value) ? 0 : 1;
            }
        }
        has_types_ = declared <= kTypedArgumentsMax;
        has_types_of_open_ = has_types_ && open_bytes <= kOpenKeyBytesMax;
        has_schemas_ = schemas <= kArgumentSchemasMax;
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
            items.push_back(text_node(open_tag(kTags.parameter) + " name=\"" + argument.name + "\""));
            const uint32_t types = plain_types(tool, argument.name);
            items.push_back(types != 0 ? typed_value(types) : schema_value(std::move(argument), first));
            items.push_back(text_node("\n"));
        }
        return items.empty() ? text_node("\n") : sequence_node(std::move(items));
    }

    // The types of a property of which its schema says no more; 0: more, or it is not declared beside `type` (behind a
    // reference, say).
    static uint32_t plain_types(const Tool& tool, std::string_view name) {
        const JsonValue::Object& declared = properties_of(tool);
        const auto found =
            std::find_if(declared.begin(), declared.end(), [name](const JsonMember& member) { return member.key == name; });
        if (found == declared.end() || !is_plain(found->value)) {
            return 0;
        }
        const uint32_t types = declared_types(tool.parameters, found->value);
        return (types & kTypeObject) == 0 || types == kTypesAll ? types : 0;  // objects are closed there
    }

    // Properties in any order; the required ones are there.
    GrammarNode loose_body(const Tool& tool) {
        std::vector<std::string> names;
        std::vector<GrammarNode> required;
        std::vector<GrammarNode> optional;
        const bool is_typed = is_open(tool) ? has_types_of_open_ : has_types_;
        for (const JsonMember& property : properties_of(tool)) {
            const uint32_t types = declared_types(tool.parameters, property.value);
            if (!is_typed || types == 0 || !is_writable(property.key)) {
                continue;
            }
            names.push_back(property.key);
            GrammarNode line =
                sequence({text_node("\"" + property.key + "\""), argument_value(tool, property, types), text_node("\n")});
            std::vector<GrammarNode>& place = is_required(tool, property.key) ? required : optional;
            place.push_back(rule_node(json_.add_rule("parameter", std::move(line))));
        }
        if (is_open(tool) || !is_typed) {
            optional.push_back(sequence({json_.other_name(names), typed_value(kTypesAll), text_node("\n")}));
        }
        if (required.empty()) {
            return optional.empty() ? text_node("\n")
                                    : choice_node({text_node("\n"), repeat_node(parameter(std::move(optional)), 1, -1)});
        }
        GrammarNode others =
            optional.empty()
                ? text_node("")
                : rule_node(json_.add_rule("optional parameters", repeat_node(parameter(std::move(optional)), 0, -1)));
        return required.size() <= kAnyOrderMax ? in_any_order(required, others) : in_order(required, others);
    }

    static GrammarNode parameter(std::vector<GrammarNode> lines) {
        return sequence({text_node(open_tag(kTags.parameter) + " name="), choice_node(std::move(lines))});
    }

    static GrammarNode in_order(const std::vector<GrammarNode>& required, const GrammarNode& others) {
        std::vector<GrammarNode> items = {others};
        for (const GrammarNode& line : required) {
            items.push_back(parameter({line}));
            items.push_back(others);
        }
        return sequence_node(std::move(items));
    }

    // One rule for each set of lines that are still to come.
    GrammarNode in_any_order(const std::vector<GrammarNode>& required, const GrammarNode& others) {
        std::vector<GrammarNode> behind = {others};  // by set
        for (uint32_t missing = 1; missing < 1U << required.size(); ++missing) {
            std::vector<GrammarNode> next;
            for (size_t i = 0; i < required.size(); ++i) {
                if (((missing >> i) & 1U) != 0) {
                    next.push_back(sequence({required[i], behind[missing & ~(1U << i)]}));
                }
            }
            behind.push_back(rule_node(json_.add_rule("parameters", sequence({others, parameter(std::move(next))}))));
        }
        return behind.back();
    }

    // What the schema says where that can be held to, its type elsewhere. One rule for each schema.
    GrammarNode argument_value(const Tool& tool, const JsonMember& property, uint32_t types) {
        if (!has_schemas_ || is_plain(property.value)) {
            return typed_value(types);
        }
        const JsonValue schema = reduced_to(tool.parameters, {.key = "value", .value = property.value});
        const auto [entry, is_new] = schema_values_.try_emplace(json_text(schema), -1);
        if (is_new) {
            Result<ArgumentsGrammar> part = arguments_grammar(schema, blanks_);
            if (part) {
                forbid_marker(part->rules);
                const int32_t first = append_rules(grammar_, std::move(part->rules));
                entry->second = json_.add_rule("value", schema_value(std::move(part->arguments.front()), first));
            }
        }
        return entry->second < 0 ? typed_value(types) : rule_node(entry->second);
    }

    // The rules of `argument` begin at `first`.
    static GrammarNode schema_value(ArgumentGrammar argument, int32_t first) {
        forbid_marker(argument.text);
        forbid_marker(argument.json);
        shift_rules(argument.json, first);
        return value(std::move(argument.text), std::move(argument.json));
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
    // Of tools that are not strict.
    bool has_types_ = true;
    bool has_types_of_open_ = true;  // of those that take further keys
    bool has_schemas_ = true;
    std::map<uint32_t, int32_t> typed_values_;
    std::map<std::string, int32_t> schema_values_;  // -1: cannot be held to
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
