#include "text/schema_grammar.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "text/json_grammar.h"
#include "text/limits.h"
#include "text/number_grammar.h"
#include "text/pattern_grammar.h"
#include "text/schema_merge.h"
#include "text/strict_schema.h"

namespace di {
namespace {

struct Format {
    std::string_view name;
    std::string_view pattern;
};

// Each a subset of what the format's standard allows, so that any validator agrees.
constexpr std::array kFormats = {
    Format{
        "date",
        R"(^(19|20)[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))$)"},
    Format{"time", R"(^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$)"},
    Format{
        "date-time",
        R"(^(19|20)[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$)"},
    Format{"email", R"(^[a-z0-9]{1,16}([._+-][a-z0-9]{1,16}){0,3}@[a-z0-9]{1,16}([.-][a-z0-9]{1,16}){0,3}\.[a-z]{2,8}$)"},
    Format{"hostname", R"(^[a-z0-9]{1,16}([.-][a-z0-9]{1,16}){0,3}\.[a-z]{2,8}$)"},
    Format{"ipv4", R"(^(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(\.(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])){3}$)"},
    Format{"ipv6", R"(^[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}$)"},
    Format{"uuid", R"(^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$)"},
};

constexpr std::array<std::string_view, 4> kStringKeywords = {"minLength", "maxLength", "pattern", "format"};
constexpr std::array<std::string_view, 4> kNumberKeywords = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
constexpr std::array<std::string_view, 4> kArrayKeywords = {"items", "prefixItems", "minItems", "maxItems"};
constexpr std::array<std::string_view, 5> kObjectKeywords = {"properties", "required", "additionalProperties", "minProperties",
                                                             "maxProperties"};

template <typename Names>
bool has_any(const JsonValue& schema, const Names& names) {
    return std::any_of(names.begin(), names.end(), [&schema](std::string_view name) { return schema.find(name) != nullptr; });
}

GrammarNode nothing() { return choice_node({}); }
GrammarNode sequence(std::initializer_list<GrammarNode> items) { return sequence_node(std::vector<GrammarNode>(items)); }
GrammarNode choice(std::initializer_list<GrammarNode> items) { return choice_node(std::vector<GrammarNode>(items)); }

// A count keyword, as far as it matters; check_schema() has seen that it is one.
int64_t count_of(const JsonValue& schema, std::string_view keyword, int64_t absent) {
    const JsonValue* value = schema.find(keyword);
    return value == nullptr ? absent : static_cast<int64_t>(std::min(value->as_double(), 1e15));
}

bool is_false(const JsonValue& schema) { return schema.is_boolean() && !schema.as_boolean(); }

class SchemaConverter {
  public:
    SchemaConverter(const JsonValue& root, JsonBlanks blanks) : root_(root), unfolder_(root), json_(grammar_, blanks) {}

    Result<GrammarRules> run() {
        (void)json_.add_rule("the schema");
        DI_TRY(grammar_.rules[0].body, node(root_, "schema"));
        DI_TRY_STATUS(finish_references());
        return std::move(grammar_);
    }

    Result<ArgumentsGrammar> run_arguments() {
        DI_TRY(const std::vector<FlatSchema> alternatives, unfolder_.alternatives(root_, "schema"));
        if (alternatives.size() != 1) {
            return fail(ErrorCode::kInvalidArgument,
                        "schema: {} alternatives of all arguments, expected one list of properties", alternatives.size());
        }
        const FlatSchema& flat = alternatives.front();
        ArgumentsGrammar result;
        if (const JsonValue* listed = flat.schema.find("properties")) {
            for (const JsonMember& member : listed->as_object()) {
                const std::string path = member_path(member_path(flat.path, "properties"), member.key);
                DI_TRY(ArgumentGrammar argument, argument_node(member.key, member.value, path));
                result.arguments.push_back(std::move(argument));
            }
        }
        const auto count = static_cast<int64_t>(result.arguments.size());
        if (count_of(flat.schema, "minProperties", 0) > count || count_of(flat.schema, "maxProperties", count) < count) {
            return fail(ErrorCode::kInvalidArgument, "{}: bounds that {} required properties do not keep", flat.path, count);
        }
        DI_TRY_STATUS(finish_references());
        result.rules = std::move(grammar_);
        return result;
    }

  private:
    Status finish_references() {
        while (!pending_.empty()) {
            const Pending next = pending_.front();
            pending_.pop_front();
            DI_TRY(GrammarNode body, node(*next.target, next.reference));
            grammar_.rules[static_cast<size_t>(next.rule)].body = std::move(body);
        }
        return {};
    }

    Result<ArgumentGrammar> argument_node(const std::string& name, const JsonValue& schema, const std::string& path) {
        ArgumentGrammar argument{.name = name};
        std::vector<GrammarNode> texts;
        std::vector<GrammarNode> values;
        DI_TRY(const std::vector<FlatSchema> alternatives, unfolder_.alternatives(schema, path));
        for (const FlatSchema& flat : alternatives) {
            if (flat.schema.as_object().empty()) {
                texts.push_back(any_text());
                values.push_back(json_.value());
                continue;
            }
            if (const JsonValue* listed = flat.schema.find("enum")) {
                DI_TRY(const JsonValue::Array fitting, fitting_values(flat, *listed));
                for (const JsonValue& value : fitting) {
                    (value.is_string() ? texts : values)
                        .push_back(value.is_string() ? text_node(value.as_string()) : json_.literal(value));
                }
                continue;
            }
            for (const std::string& type : types(flat.schema)) {
                DI_TRY(GrammarNode item, type == "string" ? string_node(flat, StringPlace::kPlain) : typed_node(type, flat));
                (type == "string" ? texts : values).push_back(std::move(item));
            }
        }
        argument.text = choice_node(std::move(texts));
        argument.json = choice_node(std::move(values));
        return argument;
    }

    enum class StringPlace : uint8_t { kJson, kPlain };  // between quotes and with escapes, or as it is

    static GrammarNode any_text() { return repeat_node(class_node(CharacterClass::all()), 0, -1); }

    struct Pending {
        int32_t rule = 0;
        const JsonValue* target = nullptr;
        std::string reference;
    };

    struct Deeper {
        explicit Deeper(int& value) : depth(value) { ++depth; }
        ~Deeper() { --depth; }
        Deeper(const Deeper&) = delete;
        Deeper& operator=(const Deeper&) = delete;
        int& depth;
    };

    struct Property {
        std::string name;
        GrammarNode member;  // with its name
        bool is_required = false;
    };

    Result<GrammarNode> node(const JsonValue& schema, const std::string& path) {
        if (++node_count_ > kSchemaNodesMax) {
            return fail(ErrorCode::kInvalidArgument, "{}: more than {} parts, expected less", path, kSchemaNodesMax);
        }
        // References that stand alone stay references: only so may a schema refer to itself.
        if (asserts_only(schema, "$ref")) {
            return reference(schema.find("$ref")->as_string(), member_path(path, "$ref"));
        }
        const Deeper deeper(depth_);
        if (depth_ > kSchemaDepthMax) {
            return fail(ErrorCode::kInvalidArgument,
                        "{}: more than {} schemas within each other, expected less, and references that lead back "
                        "to stand alone",
                        path, kSchemaDepthMax);
        }
        for (const std::string_view keyword : {"anyOf", "oneOf"}) {
            if (asserts_only(schema, keyword)) {
                return any_node(schema, keyword, path);
            }
        }
        DI_TRY(const std::vector<FlatSchema> alternatives, unfolder_.alternatives(schema, path));
        std::vector<GrammarNode> items;
        for (const FlatSchema& flat : alternatives) {
            DI_TRY(GrammarNode item, flat_node(flat));
            items.push_back(std::move(item));
        }
        return choice_node(std::move(items));
    }

    static bool asserts_only(const JsonValue& schema, std::string_view keyword) {
        return schema.find(keyword) != nullptr &&
               std::none_of(schema.as_object().begin(), schema.as_object().end(),
                            [keyword](const JsonMember& member) { return member.key != keyword && is_assertion(member.key); });
    }

    Result<GrammarNode> any_node(const JsonValue& schema, std::string_view keyword, const std::string& path) {
        if (keyword == "oneOf") {
            DI_TRY_STATUS(unfolder_.check_exclusive(schema, path));
        }
        std::vector<GrammarNode> items;
        const JsonValue::Array& list = schema.find(keyword)->as_array();
        for (size_t i = 0; i < list.size(); ++i) {
            DI_TRY(GrammarNode item, node(list[i], fmt::format("{}.{}[{}]", path, keyword, i)));
            items.push_back(std::move(item));
        }
        return choice_node(std::move(items));
    }

    // A schema that is referred to becomes a rule, which may refer to itself.
    Result<GrammarNode> reference(const std::string& pointer, const std::string& path) {
        const auto [entry, is_new] = rules_.try_emplace(pointer, 0);
        if (is_new) {
            DI_TRY(const JsonValue* target, referenced_schema(root_, pointer, path));
            entry->second = json_.add_rule(pointer);
            pending_.push_back({.rule = entry->second, .target = target, .reference = pointer});
        }
        return rule_node(entry->second);
    }

    Result<GrammarNode> flat_node(const FlatSchema& flat) {
        const JsonValue& schema = flat.schema;
        if (schema.as_object().empty()) {
            return json_.value();
        }
        if (const JsonValue* values = schema.find("enum")) {
            return values_node(flat, *values);
        }
        std::vector<GrammarNode> items;
        for (const std::string& type : types(schema)) {
            DI_TRY(GrammarNode item, typed_node(type, flat));
            items.push_back(std::move(item));
        }
        return choice_node(std::move(items));
    }

    // The types that the schema names, or those that its keywords speak of.
    static std::vector<std::string> types(const JsonValue& schema) {
        std::vector<std::string> names;
        if (const JsonValue* type = schema.find("type")) {
            if (type->is_string()) {
                return {type->as_string()};
            }
            for (const JsonValue& item : type->as_array()) {
                names.push_back(item.as_string());
            }
            // Integers are numbers.
            if (std::find(names.begin(), names.end(), "number") != names.end()) {
                std::erase(names, "integer");
            }
            return names;
        }
        if (has_any(schema, kObjectKeywords)) {
            names.emplace_back("object");
        }
        if (has_any(schema, kArrayKeywords)) {
            names.emplace_back("array");
        }
        if (has_any(schema, kStringKeywords)) {
            names.emplace_back("string");
        }
        if (has_any(schema, kNumberKeywords)) {
            names.emplace_back("number");
        }
        return names;
    }

    Result<GrammarNode> typed_node(const std::string& type, const FlatSchema& flat) {
        if (type == "object") {
            return object_node(flat);
        }
        if (type == "array") {
            return array_node(flat);
        }
        if (type == "string") {
            return string_node(flat, StringPlace::kJson);
        }
        if (type == "integer" || type == "number") {
            return number_node(type == "integer", flat);
        }
        return type == "null" ? text_node("null") : choice({text_node("true"), text_node("false")});
    }

    Result<GrammarNode> values_node(const FlatSchema& flat, const JsonValue& values) {
        DI_TRY(const JsonValue::Array fitting, fitting_values(flat, values));
        std::vector<GrammarNode> items;
        for (const JsonValue& value : fitting) {
            items.push_back(json_.literal(value));
        }
        return choice_node(std::move(items));
    }

    // Values of an enum that the rest of the schema allows.
    static Result<JsonValue::Array> fitting_values(const FlatSchema& flat, const JsonValue& values) {
        if (has_any(flat.schema, kArrayKeywords) || has_any(flat.schema, kObjectKeywords) ||
            has_any(flat.schema, kStringKeywords)) {
            return fail(ErrorCode::kInvalidArgument,
                        "{}: keywords for strings, arrays or objects beside enum or const, expected the fitting values alone",
                        flat.path);
        }
        JsonValue::Array fitting;
        for (const JsonValue& value : values.as_array()) {
            if (fits_type(flat.schema, value) && fits_bounds(flat.schema, value)) {
                fitting.push_back(value);
            }
        }
        return fitting;
    }

    static bool fits_type(const JsonValue& schema, const JsonValue& value) {
        if (schema.find("type") == nullptr) {
            return true;
        }
        const std::vector<std::string> names = types(schema);
        const auto has = [&names](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
        if (value.is_number()) {
            return has("number") || (has("integer") && value.is_integer());
        }
        return (value.is_string() && has("string")) || (value.is_boolean() && has("boolean")) ||
               (value.is_null() && has("null")) || (value.is_array() && has("array")) || (value.is_object() && has("object"));
    }

    static bool fits_bounds(const JsonValue& schema, const JsonValue& value) {
        const auto bound = [&schema](std::string_view keyword, double absent) {
            const JsonValue* given = schema.find(keyword);
            return given == nullptr ? absent : given->as_double();
        };
        const double number = value.is_number() ? value.as_double() : 0.0;
        return !value.is_number() ||
               (number >= bound("minimum", number) && number <= bound("maximum", number) &&
                number > bound("exclusiveMinimum", number - 1) && number < bound("exclusiveMaximum", number + 1));
    }

    Result<GrammarNode> number_node(bool is_integer, const FlatSchema& flat) const {
        const auto tighter = [&flat](std::string_view keyword, std::string_view exclusive,
                                     bool is_lower) -> std::optional<NumberBound> {
            const JsonValue* plain = flat.schema.find(keyword);
            const JsonValue* open = flat.schema.find(exclusive);
            if (plain == nullptr && open == nullptr) {
                return std::nullopt;
            }
            const bool takes_open =
                plain == nullptr || (open != nullptr && (is_lower ? open->as_double() >= plain->as_double()
                                                                  : open->as_double() <= plain->as_double()));
            return NumberBound{.value = takes_open ? *open : *plain, .is_exclusive = takes_open};
        };
        const std::optional<NumberBound> least = tighter("minimum", "exclusiveMinimum", true);
        const std::optional<NumberBound> most = tighter("maximum", "exclusiveMaximum", false);
        Result<GrammarNode> result = is_integer ? integer_grammar(least, most) : number_grammar(least, most);
        if (!result) {
            return fail_in(flat.path, std::move(result.error()));
        }
        return result;
    }

    Result<GrammarNode> string_node(const FlatSchema& flat, StringPlace place) {
        const JsonValue& schema = flat.schema;
        const int64_t least = count_of(schema, "minLength", 0);
        const int64_t most = count_of(schema, "maxLength", -1);
        if (std::max(least, most) > kSchemaLengthMax) {
            return fail(ErrorCode::kInvalidArgument, "{}: strings of {} characters, expected bounds up to {}", flat.path,
                        std::max(least, most), kSchemaLengthMax);
        }
        const JsonValue* pattern = schema.find("pattern");
        const JsonValue* format = schema.find("format");
        if (format != nullptr) {
            if (pattern != nullptr) {
                return fail(ErrorCode::kInvalidArgument, "{}: pattern and format together, expected one of them", flat.path);
            }
            const auto known = std::find_if(kFormats.begin(), kFormats.end(),
                                            [format](const Format& some) { return some.name == format->as_string(); });
            if (known == kFormats.end()) {
                return fail(ErrorCode::kInvalidArgument,
                            "{}: {} cannot be enforced, expected date, time, date-time, email, hostname, ipv4, ipv6 or uuid",
                            member_path(flat.path, "format"), short_json_text(*format));
            }
            return pattern_node(known->pattern, {.least = least, .most = most, .place = place},
                                member_path(flat.path, "format"));
        }
        if (pattern != nullptr) {
            return pattern_node(pattern->as_string(), {.least = least, .most = most, .place = place},
                                member_path(flat.path, "pattern"));
        }
        if (least == 0 && most < 0) {
            return place == StringPlace::kPlain ? any_text() : json_.string();
        }
        if (most >= 0 && most < least) {
            return nothing();
        }
        if (place == StringPlace::kPlain) {
            return repeat_node(class_node(CharacterClass::all()), least, most);
        }
        return sequence({text_node("\""), repeat_node(class_node(plain_json_characters()), least, most), text_node("\"")});
    }

    struct StringBounds {
        int64_t least = 0;
        int64_t most = -1;
        StringPlace place = StringPlace::kJson;
    };

    static Result<GrammarNode> pattern_node(std::string_view pattern, const StringBounds& bounds, const std::string& path) {
        Result<GrammarNode> inner = pattern_grammar(pattern, PatternPlace::kJsonString);
        if (!inner) {
            return fail_in(path, std::move(inner.error()));
        }
        // Escapes are longer than what they stand for: lengths are those of the text itself.
        DI_TRY(GrammarNode plain, pattern_grammar(pattern, PatternPlace::kSearchedText));
        const int64_t longest = characters_max(plain);
        if (characters_min(plain) < bounds.least || (bounds.most >= 0 && (longest < 0 || longest > bounds.most))) {
            return fail(ErrorCode::kInvalidArgument,
                        "{}: beside minLength or maxLength that it does not imply, expected the lengths within the pattern",
                        path);
        }
        if (bounds.place == StringPlace::kPlain) {
            return plain;
        }
        return sequence({text_node("\""), std::move(*inner), text_node("\"")});
    }

    // A value that stands in two places becomes a rule.
    GrammarNode shared(GrammarNode value, const std::string& name) {
        return value.kind == GrammarNode::Kind::kRule ? std::move(value) : rule_node(json_.add_rule(name, std::move(value)));
    }

    Result<GrammarNode> array_node(const FlatSchema& flat) {
        const JsonValue& schema = flat.schema;
        const int64_t least = count_of(schema, "minItems", 0);
        const int64_t most = count_of(schema, "maxItems", -1);
        if (std::max(least, most) > kRepetitionMax) {
            return fail(ErrorCode::kInvalidArgument, "{}: arrays of {} items, expected bounds up to {}", flat.path,
                        std::max(least, most), kRepetitionMax);
        }
        const JsonValue* items = schema.find("items");
        GrammarNode item = nothing();
        if (items != nullptr) {
            DI_TRY(item, node(*items, member_path(flat.path, "items")));
        } else {
            item = json_.value();
        }
        item = shared(std::move(item), "item");
        const JsonValue* first = schema.find("prefixItems");
        if (first == nullptr) {
            const bool is_empty = items != nullptr && is_false(*items);
            return json_.list(std::move(item), least, is_empty ? 0 : most);
        }
        return tuple_node(flat, first->as_array(), std::move(item), least, most);
    }

    Result<GrammarNode> tuple_node(const FlatSchema& flat, const JsonValue::Array& first, GrammarNode item, int64_t least,
                                   int64_t most) {
        const auto count = static_cast<int64_t>(first.size());
        if (most >= 0 && most < least) {
            return nothing();
        }
        // Behind the listed ones, only as many as the schema asks for, or as many as it likes where it says what they are.
        GrammarNode rest;
        if (flat.schema.find("items") != nullptr || least > count) {
            const int64_t more_most = flat.schema.find("items") == nullptr ? least - count : most < 0 ? -1 : most - count;
            if (more_most != 0 && (most < 0 || most > count)) {
                rest = repeat_node(sequence({json_.comma(), std::move(item)}), std::max<int64_t>(0, least - count), more_most);
            }
        }
        for (int64_t i = count - 1; i >= 0; --i) {
            DI_TRY(GrammarNode value, node(first[static_cast<size_t>(i)], fmt::format("{}.prefixItems[{}]", flat.path, i)));
            if (most >= 0 && i >= most) {
                rest = {};
                continue;
            }
            rest = i == 0 ? sequence({std::move(value), std::move(rest)})
                          : sequence({json_.comma(), std::move(value), std::move(rest)});
            if (i >= least) {
                rest = optional_node(std::move(rest));
            }
        }
        return sequence({json_.open('['), std::move(rest), json_.close(']')});
    }

    Result<GrammarNode> object_node(const FlatSchema& flat) {
        const JsonValue& schema = flat.schema;
        std::vector<std::string> missing;  // required and not listed
        if (const JsonValue* required = schema.find("required")) {
            for (const JsonValue& name : required->as_array()) {
                missing.push_back(name.as_string());
            }
        }
        std::vector<Property> properties;
        std::vector<std::string> names;
        if (const JsonValue* listed = schema.find("properties")) {
            for (const JsonMember& member : listed->as_object()) {
                names.push_back(member.key);
                const bool is_required = std::erase(missing, member.key) != 0;
                if (is_false(member.value) && !is_required) {
                    continue;
                }
                DI_TRY_STATUS(add_property(member.key, member.value,
                                           member_path(member_path(flat.path, "properties"), member.key), is_required,
                                           properties));
            }
        }
        const JsonValue* others = schema.find("additionalProperties");
        const JsonValue anything = JsonValue::boolean(true);
        for (const std::string& name : missing) {
            names.push_back(name);
            DI_TRY_STATUS(add_property(name, others == nullptr ? anything : *others,
                                       member_path(flat.path, "additionalProperties"), true, properties));
        }
        std::optional<GrammarNode> other;
        if (others != nullptr && !is_false(*others)) {
            DI_TRY(GrammarNode value, node(*others, member_path(flat.path, "additionalProperties")));
            other = shared(sequence({json_.other_name(names), json_.colon(), std::move(value)}), "additional property");
        }
        return members_node(flat, properties, std::move(other));
    }

    Status add_property(const std::string& name, const JsonValue& schema, const std::string& path, bool is_required,
                        std::vector<Property>& properties) {
        DI_TRY(GrammarNode value, node(schema, path));
        properties.push_back({.name = name, .member = json_.member(name, std::move(value)), .is_required = is_required});
        return {};
    }

    // Members in order. Optional ones are left out or not; what follows differs only in whether a comma is needed.
    Result<GrammarNode> members_node(const FlatSchema& flat, std::vector<Property>& properties,
                                     std::optional<GrammarNode> other) {
        const auto required =
            std::count_if(properties.begin(), properties.end(), [](const Property& property) { return property.is_required; });
        const int64_t least = count_of(flat.schema, "minProperties", 0);
        const int64_t most = count_of(flat.schema, "maxProperties", -1);
        if (other && properties.empty()) {
            return map_node(flat, std::move(*other), least, most);
        }
        const bool decides_least = least <= required;
        const bool decides_most = most < 0 || (!other && most >= static_cast<int64_t>(properties.size()));
        if (!decides_least || !decides_most) {
            return fail(ErrorCode::kInvalidArgument,
                        "{}: {} that the listed properties do not imply cannot be enforced, expected a schema without it",
                        flat.path, decides_least ? "maxProperties" : "minProperties");
        }
        GrammarNode behind = other ? repeat_node(sequence({json_.comma(), *other}), 0, -1) : sequence_node({});
        GrammarNode first = other ? optional_node(sequence({*other, behind})) : sequence_node({});
        for (size_t i = properties.size(); i-- > 0;) {
            Property& property = properties[i];
            const GrammarNode member = shared(std::move(property.member), property.name);
            behind = shared(std::move(behind), "members");
            GrammarNode with_this = sequence({member, behind});
            first = property.is_required ? std::move(with_this) : choice({std::move(with_this), std::move(first)});
            GrammarNode comma_and_this = sequence({json_.comma(), member, behind});
            behind = property.is_required ? std::move(comma_and_this) : choice({std::move(comma_and_this), behind});
        }
        return sequence({json_.open('{'), std::move(first), json_.close('}')});
    }

    // Only additional properties: a map. Names may repeat, so that more than one cannot be promised.
    Result<GrammarNode> map_node(const FlatSchema& flat, GrammarNode other, int64_t least, int64_t most) {
        if (least > 1 || most > kRepetitionMax) {
            return fail(ErrorCode::kInvalidArgument,
                        "{}: {} of a map cannot be enforced, expected minProperties up to 1 and maxProperties up to {}",
                        flat.path, least > 1 ? "minProperties" : "maxProperties", kRepetitionMax);
        }
        if (most == 0) {
            return least > 0 ? nothing() : sequence({json_.open('{'), json_.close('}')});
        }
        GrammarNode members = sequence({other, repeat_node(sequence({json_.comma(), other}), 0, most < 0 ? -1 : most - 1)});
        if (least == 0) {
            members = optional_node(std::move(members));
        }
        return sequence({json_.open('{'), std::move(members), json_.close('}')});
    }

    const JsonValue& root_;
    GrammarRules grammar_;
    SchemaUnfolder unfolder_;
    JsonGrammar json_;
    std::map<std::string, int32_t> rules_;
    std::deque<Pending> pending_;
    int64_t node_count_ = 0;
    int depth_ = 0;
};

}  // namespace

Result<GrammarRules> schema_grammar(const JsonValue& schema, JsonBlanks blanks) {
    DI_TRY_STATUS(check_schema(schema, "schema"));
    return SchemaConverter(schema, blanks).run();
}

Result<ArgumentsGrammar> arguments_grammar(const JsonValue& schema, JsonBlanks blanks) {
    DI_TRY_STATUS(check_schema(schema, "schema"));
    return SchemaConverter(schema, blanks).run_arguments();
}

GrammarRules json_object_grammar(JsonBlanks blanks) {
    GrammarRules grammar;
    JsonGrammar json(grammar, blanks);
    const int32_t root = json.add_rule("JSON object");
    GrammarNode body = json.object();
    grammar.rules[static_cast<size_t>(root)].body = std::move(body);
    return grammar;
}

}  // namespace di
