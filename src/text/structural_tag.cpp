#include "text/structural_tag.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "text/ebnf_grammar.h"
#include "text/limits.h"
#include "text/pattern_grammar.h"

namespace di {
namespace {

using Kind = GrammarNode::Kind;
using Texts = std::vector<std::string>;

GrammarNode sequence(std::initializer_list<GrammarNode> items) { return sequence_node(std::vector<GrammarNode>(items)); }

struct Tag {
    std::string begin;
    GrammarNode rest;  // content and end
};

class TagConverter {
  public:
    explicit TagConverter(JsonBlanks blanks) : blanks_(blanks) {}

    Result<GrammarRules> run(const JsonValue& tag) {
        grammar_.rules.push_back({.name = "structural tag", .body = {}});
        GrammarNode body;
        if (tag.find("structures") != nullptr) {
            DI_TRY(body, old_form(tag));
        } else {
            DI_TRY_STATUS(check_keys(tag, "structural_tag", {"type", "format"}));
            DI_TRY(const JsonValue* format, required(tag, "format", "structural_tag"));
            DI_TRY(body, format_node(*format, "format", {}));
        }
        grammar_.rules[0].body = std::move(body);
        return std::move(grammar_);
    }

  private:
    static tl::unexpected<Error> wrong(const std::string& path, const JsonValue& value, std::string_view expected) {
        return fail(ErrorCode::kInvalidArgument, "{}: {}, expected {}", path, short_json_text(value), expected);
    }

    static Status check_keys(const JsonValue& object, const std::string& path, std::initializer_list<std::string_view> keys) {
        if (!object.is_object()) {
            return wrong(path, object, "an object");
        }
        for (const JsonMember& member : object.as_object()) {
            if (std::find(keys.begin(), keys.end(), member.key) == keys.end()) {
                return fail(ErrorCode::kInvalidArgument, "{}: unknown key, expected one of {}", member_path(path, member.key),
                            fmt::join(keys, ", "));
            }
        }
        return {};
    }

    static Result<const JsonValue*> required(const JsonValue& object, std::string_view key, const std::string& path) {
        const JsonValue* value = object.find(key);
        if (value == nullptr) {
            return fail(ErrorCode::kInvalidArgument, "{}: missing, expected a value", member_path(path, key));
        }
        return value;
    }

    static Result<std::string> text_of(const JsonValue& object, std::string_view key, const std::string& path) {
        DI_TRY(const JsonValue* value, required(object, key, path));
        if (!value->is_string()) {
            return wrong(member_path(path, key), *value, "a string");
        }
        return value->as_string();
    }

    static Result<const JsonValue::Array*> list_of(const JsonValue& object, std::string_view key, const std::string& path) {
        DI_TRY(const JsonValue* value, required(object, key, path));
        if (!value->is_array() || value->as_array().empty()) {
            return wrong(member_path(path, key), *value, "a list of at least one");
        }
        return &value->as_array();
    }

    // A list of strings that are not empty; absent: none.
    static Result<Texts> texts_of(const JsonValue& object, std::string_view key, const std::string& path) {
        const JsonValue* value = object.find(key);
        Texts texts;
        if (value == nullptr) {
            return texts;
        }
        if (!value->is_array()) {
            return wrong(member_path(path, key), *value, "a list of strings");
        }
        for (const JsonValue& item : value->as_array()) {
            if (!item.is_string() || item.as_string().empty()) {
                return wrong(member_path(path, key), item, "strings that are not empty");
            }
            texts.push_back(item.as_string());
        }
        return texts;
    }

    static Result<bool> flag_of(const JsonValue& object, std::string_view key, const std::string& path) {
        const JsonValue* value = object.find(key);
        if (value != nullptr && !value->is_boolean()) {
            return wrong(member_path(path, key), *value, "true or false");
        }
        return value != nullptr && value->as_boolean();
    }

    int32_t add_rule(std::string name, GrammarNode body) {
        grammar_.rules.push_back({.name = std::move(name), .body = std::move(body)});
        return static_cast<int32_t>(grammar_.rules.size()) - 1;
    }

    Result<GrammarNode> embed(Result<GrammarRules> part, const std::string& path) {
        if (!part) {
            return fail_in(path, std::move(part.error()));
        }
        return rule_node(append_rules(grammar_, std::move(*part)));
    }

    // `ends`: what ends the tag around it, which free text must not contain.
    Result<GrammarNode> format_node(const JsonValue& format, const std::string& path, const Texts& ends) {
        if (!format.is_object()) {
            return wrong(path, format, "an object with a type");
        }
        DI_TRY(const std::string type, text_of(format, "type", path));
        if (type == "const_string") {
            DI_TRY_STATUS(check_keys(format, path, {"type", "value"}));
            DI_TRY(std::string value, text_of(format, "value", path));
            return text_node(std::move(value));
        }
        if (type == "json_schema" || type == "regex" || type == "grammar") {
            return leaf_node(format, type, path);
        }
        if (type == "sequence" || type == "or" || type == "optional" || type == "plus" || type == "star" || type == "repeat") {
            return composed_node(format, type, path, ends);
        }
        if (type == "tag") {
            DI_TRY(Tag tag, tag_of(format, path));
            return sequence({text_node(tag.begin), std::move(tag.rest)});
        }
        if (type == "any_text") {
            DI_TRY_STATUS(check_keys(format, path, {"type", "excludes"}));
            DI_TRY(Texts excludes, texts_of(format, "excludes", path));
            return free_text(std::move(excludes), ends);
        }
        if (type == "triggered_tags") {
            return triggered_node(format, path, ends);
        }
        if (type == "tags_with_separator") {
            return separated_node(format, path);
        }
        return fail(ErrorCode::kInvalidArgument,
                    "{}: {}, expected const_string, json_schema, regex, grammar, sequence, or, optional, plus, star, repeat, "
                    "tag, any_text, "
                    "triggered_tags or tags_with_separator",
                    member_path(path, "type"), short_quoted(type));
    }

    static GrammarNode free_text(Texts excludes, const Texts& ends) {
        excludes.insert(excludes.end(), ends.begin(), ends.end());
        return {.kind = Kind::kFreeText, .most = -1, .excludes = std::move(excludes)};
    }

    Result<GrammarNode> leaf_node(const JsonValue& format, const std::string& type, const std::string& path) {
        if (type == "json_schema") {
            DI_TRY_STATUS(check_keys(format, path, {"type", "json_schema"}));
            DI_TRY(const JsonValue* schema, required(format, "json_schema", path));
            return embed(schema_grammar(*schema, blanks_), member_path(path, "json_schema"));
        }
        const std::string_view key = type == "regex" ? "pattern" : "grammar";
        DI_TRY_STATUS(check_keys(format, path, {"type", key}));
        DI_TRY(const std::string text, text_of(format, key, path));
        if (type == "grammar") {
            return embed(ebnf_grammar(text), member_path(path, key));
        }
        Result<GrammarNode> node = pattern_grammar(text, PatternPlace::kWholeText);
        return node ? std::move(node) : Result<GrammarNode>(fail_in(member_path(path, key), std::move(node.error())));
    }

    Result<GrammarNode> composed_node(const JsonValue& format, const std::string& type, const std::string& path,
                                      const Texts& ends) {
        if (type == "sequence" || type == "or") {
            DI_TRY_STATUS(check_keys(format, path, {"type", "elements"}));
            DI_TRY(const JsonValue::Array* elements, list_of(format, "elements", path));
            std::vector<GrammarNode> items;
            for (size_t i = 0; i < elements->size(); ++i) {
                DI_TRY(GrammarNode item, format_node((*elements)[i], fmt::format("{}.elements[{}]", path, i), ends));
                items.push_back(std::move(item));
            }
            return type == "sequence" ? sequence_node(std::move(items)) : choice_node(std::move(items));
        }
        int64_t least = type == "plus" ? 1 : 0;
        int64_t most = type == "optional" ? 1 : -1;
        if (type == "repeat") {
            DI_TRY_STATUS(check_keys(format, path, {"type", "content", "min", "max"}));
            DI_TRY_STATUS(repeat_bounds(format, path, least, most));
        } else {
            DI_TRY_STATUS(check_keys(format, path, {"type", "content"}));
        }
        DI_TRY(const JsonValue* content, required(format, "content", path));
        DI_TRY(GrammarNode item, format_node(*content, member_path(path, "content"), ends));
        return repeat_node(std::move(item), least, most);
    }

    static Status repeat_bounds(const JsonValue& format, const std::string& path, int64_t& least, int64_t& most) {
        for (const auto& [key, bound] : {std::pair("min", &least), std::pair("max", &most)}) {
            DI_TRY(const JsonValue* value, required(format, key, path));
            const std::optional<int64_t> number = value->is_number() ? value->as_int64() : std::nullopt;
            if (!number || *number < 0 || *number > kRepetitionMax) {
                return wrong(member_path(path, key), *value, fmt::format("an integer from 0 to {}", kRepetitionMax));
            }
            *bound = *number;
        }
        return least <= most ? Status{} : Status(wrong(member_path(path, "max"), *format.find("max"), "at least min"));
    }

    Result<Tag> tag_of(const JsonValue& format, const std::string& path) {
        DI_TRY_STATUS(check_keys(format, path, {"type", "begin", "content", "end"}));
        Tag tag;
        DI_TRY(tag.begin, text_of(format, "begin", path));
        DI_TRY(const JsonValue* content, required(format, "content", path));
        DI_TRY(const JsonValue* end, required(format, "end", path));
        Texts ends;
        if (end->is_string()) {
            ends.push_back(end->as_string());
        } else if (end->is_array() && !end->as_array().empty()) {
            DI_TRY(ends, texts_of(format, "end", path));
        } else {
            return wrong(member_path(path, "end"), *end, "a string, or a list of strings");
        }
        std::vector<GrammarNode> choices;
        for (const std::string& text : ends) {
            choices.push_back(text_node(text));
        }
        std::erase(ends, std::string());
        DI_TRY(GrammarNode inner, format_node(*content, member_path(path, "content"), ends));
        tag.rest = sequence({std::move(inner), choice_node(std::move(choices))});
        return tag;
    }

    Result<std::vector<Tag>> tags_of(const JsonValue& format, const std::string& path) {
        DI_TRY(const JsonValue::Array* list, list_of(format, "tags", path));
        std::vector<Tag> tags;
        for (size_t i = 0; i < list->size(); ++i) {
            const std::string place = fmt::format("{}.tags[{}]", path, i);
            const JsonValue* type = (*list)[i].find("type");
            if (!(*list)[i].is_object() || (type != nullptr && (!type->is_string() || type->as_string() != "tag"))) {
                return wrong(place, (*list)[i], "an object of type tag");
            }
            DI_TRY(Tag tag, tag_of((*list)[i], place));
            tags.push_back(std::move(tag));
        }
        return tags;
    }

    static GrammarNode any_of(const std::vector<Tag>& tags) {
        std::vector<GrammarNode> items;
        for (const Tag& tag : tags) {
            items.push_back(sequence({text_node(tag.begin), tag.rest}));
        }
        return choice_node(std::move(items));
    }

    Result<GrammarNode> triggered_node(const JsonValue& format, const std::string& path, const Texts& ends) {
        DI_TRY_STATUS(check_keys(format, path, {"type", "triggers", "tags", "excludes", "at_least_one", "stop_after_first"}));
        DI_TRY(const Texts triggers, texts_of(format, "triggers", path));
        DI_TRY(std::vector<Tag> tags, tags_of(format, path));
        DI_TRY(Texts excludes, texts_of(format, "excludes", path));
        DI_TRY(const bool needs_one, flag_of(format, "at_least_one", path));
        DI_TRY(const bool stops, flag_of(format, "stop_after_first", path));
        return dispatch(triggers, std::move(tags),
                        {.excludes = std::move(excludes), .ends = ends, .needs_one = needs_one, .stops = stops}, path);
    }

    struct Dispatch {
        Texts excludes;
        Texts ends;
        bool needs_one = false;
        bool stops = false;
    };

    Result<GrammarNode> dispatch(const Texts& triggers, std::vector<Tag> tags, const Dispatch& dispatch,
                                 const std::string& path) {
        for (Tag& tag : tags) {
            const auto matches = std::count_if(triggers.begin(), triggers.end(),
                                               [&tag](const std::string& trigger) { return tag.begin.starts_with(trigger); });
            if (matches != 1) {
                return fail(ErrorCode::kInvalidArgument, "{}: the tag {} begins with {} of the triggers, expected one", path,
                            short_quoted(tag.begin), matches);
            }
            // It may stand in two places.
            tag.rest = rule_node(add_rule("tag " + tag.begin, std::move(tag.rest)));
        }
        if (dispatch.needs_one && dispatch.stops) {
            return any_of(tags);
        }
        GrammarNode free = free_text(dispatch.excludes, dispatch.ends);
        free.most = dispatch.stops ? 1 : -1;
        for (const std::string& trigger : triggers) {
            std::vector<Tag> begun;
            for (const Tag& tag : tags) {
                if (tag.begin.starts_with(trigger)) {
                    begun.push_back({.begin = tag.begin.substr(trigger.size()), .rest = tag.rest});
                }
            }
            GrammarNode item{.kind = Kind::kSequence};
            item.items.push_back(text_node(trigger));
            item.items.push_back(rule_node(add_rule("behind " + trigger, any_of(begun))));
            free.items.push_back(std::move(item));
        }
        return dispatch.needs_one ? sequence({any_of(tags), std::move(free)}) : std::move(free);
    }

    Result<GrammarNode> separated_node(const JsonValue& format, const std::string& path) {
        DI_TRY_STATUS(check_keys(format, path, {"type", "tags", "separator", "at_least_one", "stop_after_first"}));
        DI_TRY(const std::vector<Tag> tags, tags_of(format, path));
        DI_TRY(std::string separator, text_of(format, "separator", path));
        DI_TRY(const bool needs_one, flag_of(format, "at_least_one", path));
        DI_TRY(const bool stops, flag_of(format, "stop_after_first", path));
        const GrammarNode any = rule_node(add_rule("tags", any_of(tags)));
        GrammarNode node = any;
        if (!stops) {
            node = sequence({any, repeat_node(sequence({text_node(std::move(separator)), any}), 0, -1)});
        }
        return needs_one ? std::move(node) : optional_node(std::move(node));
    }

    Result<GrammarNode> old_form(const JsonValue& tag) {
        DI_TRY_STATUS(check_keys(tag, "structural_tag", {"type", "structures", "triggers"}));
        DI_TRY(const JsonValue::Array* list, list_of(tag, "structures", "structural_tag"));
        DI_TRY(const Texts triggers, texts_of(tag, "triggers", "structural_tag"));
        std::vector<Tag> tags;
        for (size_t i = 0; i < list->size(); ++i) {
            const std::string path = fmt::format("structures[{}]", i);
            const JsonValue& item = (*list)[i];
            DI_TRY_STATUS(check_keys(item, path, {"begin", "schema", "end"}));
            Tag one;
            DI_TRY(one.begin, text_of(item, "begin", path));
            DI_TRY(std::string end, text_of(item, "end", path));
            const JsonValue anything = JsonValue::boolean(true);
            const JsonValue* schema = item.find("schema");
            DI_TRY(GrammarNode content,
                   embed(schema_grammar(schema == nullptr ? anything : *schema, blanks_), member_path(path, "schema")));
            one.rest = sequence({std::move(content), text_node(std::move(end))});
            tags.push_back(std::move(one));
        }
        return dispatch(triggers, std::move(tags), {}, "structural_tag");
    }

    JsonBlanks blanks_;
    GrammarRules grammar_;
};

}  // namespace

Result<GrammarRules> structural_tag_grammar(const JsonValue& tag, JsonBlanks blanks) {
    if (!tag.is_object()) {
        return fail(ErrorCode::kInvalidArgument, "{}, expected an object with format", tag.kind_name());
    }
    return TagConverter(blanks).run(tag);
}

}  // namespace di
