#include "text/schema_merge.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "text/limits.h"
#include "text/strict_schema.h"

namespace di {
namespace {

constexpr std::array<std::string_view, 22> kEnforced = {
    "type",          "enum",          "const",       "properties", "required",         "additionalProperties",
    "items",         "minItems",      "prefixItems", "maxItems",   "pattern",          "minLength",
    "maxLength",     "format",        "minimum",     "maximum",    "exclusiveMinimum", "exclusiveMaximum",
    "minProperties", "maxProperties", "$ref",        "allOf"};
constexpr std::array<std::string_view, 2> kEither = {"anyOf", "oneOf"};
constexpr std::array<std::string_view, 18> kRefused = {"patternProperties",
                                                       "propertyNames",
                                                       "if",
                                                       "then",
                                                       "else",
                                                       "not",
                                                       "uniqueItems",
                                                       "multipleOf",
                                                       "contains",
                                                       "minContains",
                                                       "maxContains",
                                                       "dependentRequired",
                                                       "dependentSchemas",
                                                       "dependencies",
                                                       "unevaluatedProperties",
                                                       "unevaluatedItems",
                                                       "additionalItems",
                                                       "$dynamicRef"};

template <typename Names>
bool is_one_of(const Names& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

// Refused keywords with a value that asks for nothing.
bool is_harmless(std::string_view keyword, const JsonValue& value) {
    if (value.is_boolean()) {
        return keyword == "uniqueItems"
                   ? !value.as_boolean()
                   : value.as_boolean() && (keyword.starts_with("unevaluated") || keyword == "propertyNames");
    }
    return value.is_object() && value.as_object().empty() && keyword != "not" && keyword != "contains";
}

bool equal(const JsonValue& a, const JsonValue& b) {
    if (a.is_number() && b.is_number()) {
        return a.as_double() == b.as_double();
    }
    return json_text(a) == json_text(b);
}

std::vector<std::string> types_of(const JsonValue& type) {
    std::vector<std::string> names;
    if (type.is_string()) {
        names.push_back(type.as_string());
    } else {
        for (const JsonValue& item : type.as_array()) {
            names.push_back(item.as_string());
        }
    }
    return names;
}

JsonValue common_types(const JsonValue& left, const JsonValue& right) {
    const std::vector<std::string> a = types_of(left);
    const std::vector<std::string> b = types_of(right);
    JsonValue::Array common;
    const auto covers = [](const std::vector<std::string>& names, const std::string& name) {
        return is_one_of(names, name) || (name == "integer" && is_one_of(names, "number"));
    };
    for (const std::string& name : a) {
        if (covers(b, name)) {
            common.push_back(JsonValue::string(name));
        }
    }
    for (const std::string& name : b) {
        if (covers(a, name) && !is_one_of(a, name)) {
            common.push_back(JsonValue::string(name));
        }
    }
    return JsonValue::array(std::move(common));
}

JsonValue both(const JsonValue& a, const JsonValue& b) {
    JsonValue result = JsonValue::object();
    JsonValue::Array items;
    items.push_back(a);
    items.push_back(b);
    result.set("allOf", JsonValue::array(std::move(items)));
    return result;
}

// What a schema says about a property that it does not list: null for nothing.
const JsonValue* other_properties(const JsonValue& schema) { return schema.find("additionalProperties"); }

JsonValue merged_properties(const JsonValue& a, const JsonValue& b) {
    JsonValue result = JsonValue::object();
    const auto add = [&result](const JsonValue& from, const JsonValue& other) {
        const JsonValue* properties = from.find("properties");
        if (properties == nullptr) {
            return;
        }
        const JsonValue* others = other.find("properties");
        for (const JsonMember& member : properties->as_object()) {
            if (result.find(member.key) != nullptr) {
                continue;
            }
            const JsonValue* twin = others == nullptr ? nullptr : others->find(member.key);
            twin = twin == nullptr ? other_properties(other) : twin;
            result.set(member.key, twin == nullptr ? member.value : both(member.value, *twin));
        }
    };
    add(a, b);
    add(b, a);
    return result;
}

JsonValue union_of(const JsonValue& a, const JsonValue& b) {
    JsonValue::Array items = a.as_array();
    for (const JsonValue& item : b.as_array()) {
        if (std::none_of(items.begin(), items.end(), [&item](const JsonValue& other) { return equal(item, other); })) {
            items.push_back(item);
        }
    }
    return JsonValue::array(std::move(items));
}

JsonValue common_values(const JsonValue& a, const JsonValue& b) {
    JsonValue::Array items;
    for (const JsonValue& item : a.as_array()) {
        const auto& others = b.as_array();
        if (std::any_of(others.begin(), others.end(), [&item](const JsonValue& other) { return equal(item, other); })) {
            items.push_back(item);
        }
    }
    return JsonValue::array(std::move(items));
}

// One keyword that both have.
Result<JsonValue> merged_value(std::string_view keyword, const JsonValue& a, const JsonValue& b, const std::string& path) {
    if (keyword == "type") {
        return common_types(a, b);
    }
    if (keyword == "enum") {
        return common_values(a, b);
    }
    if (keyword == "required") {
        return union_of(a, b);
    }
    if (keyword == "additionalProperties" || keyword == "items") {
        return both(a, b);
    }
    if (keyword.starts_with("min") || keyword == "exclusiveMinimum") {
        return a.as_double() >= b.as_double() ? a : b;
    }
    if (keyword.starts_with("max") || keyword == "exclusiveMaximum") {
        return a.as_double() <= b.as_double() ? a : b;
    }
    if (equal(a, b)) {
        return a;
    }
    return fail(ErrorCode::kInvalidArgument, "{}: {} from two schemas that apply together, expected one of them",
                member_path(path, keyword), keyword);
}

// A value that fits both.
Result<JsonValue> merged(const JsonValue& a, const JsonValue& b, const std::string& path) {
    const bool has_tuple = a.find("prefixItems") != nullptr || b.find("prefixItems") != nullptr;
    if (has_tuple && (a.find("items") != nullptr || a.find("prefixItems") != nullptr) &&
        (b.find("items") != nullptr || b.find("prefixItems") != nullptr)) {
        return fail(ErrorCode::kInvalidArgument,
                    "{}: items and prefixItems from two schemas that apply together, expected one of them",
                    member_path(path, "prefixItems"));
    }
    JsonValue result = a;
    if (a.find("properties") != nullptr || b.find("properties") != nullptr) {
        result.set("properties", merged_properties(a, b));
    }
    for (const JsonMember& member : b.as_object()) {
        if (member.key == "properties") {
            continue;
        }
        const JsonValue* old = a.find(member.key);
        if (old == nullptr) {
            result.set(member.key, member.value);
            continue;
        }
        DI_TRY(JsonValue value, merged_value(member.key, *old, member.value, path));
        result.set(member.key, std::move(value));
    }
    return result;
}

// Only what restricts, `const` as an enum of one.
JsonValue plain_part(const JsonValue& schema) {
    JsonValue result = JsonValue::object();
    for (const JsonMember& member : schema.as_object()) {
        if (member.key == "const") {
            JsonValue::Array one;
            one.push_back(member.value);
            JsonValue values = JsonValue::array(std::move(one));
            const JsonValue* given = schema.find("enum");
            result.set("enum", given == nullptr ? std::move(values) : common_values(values, *given));
        } else if (member.key == "enum" && schema.find("const") != nullptr) {
            continue;
        } else if (is_one_of(kEnforced, member.key) && member.key != "$ref" && member.key != "allOf") {
            result.set(member.key, member.value);
        }
    }
    return result;
}

}  // namespace

bool is_assertion(std::string_view keyword) {
    return is_one_of(kEnforced, keyword) || is_one_of(kEither, keyword) || is_one_of(kRefused, keyword);
}

Status SchemaUnfolder::check_keywords(const JsonValue& schema, const std::string& path) const {
    for (const JsonMember& member : schema.as_object()) {
        if (is_one_of(kRefused, member.key) && !is_harmless(member.key, member.value)) {
            return fail(ErrorCode::kInvalidArgument, "{}: the keyword {} cannot be enforced, expected a schema without it",
                        member_path(path, member.key), member.key);
        }
        if (member.key == "items" && member.value.is_array()) {
            return fail(ErrorCode::kInvalidArgument, "{}: items as a list, expected prefixItems",
                        member_path(path, member.key));
        }
    }
    return {};
}

Result<std::vector<FlatSchema>> SchemaUnfolder::alternatives(const JsonValue& schema, const std::string& path) {
    return unfold(schema, path, 0);
}

Status SchemaUnfolder::check_exclusive(const JsonValue& schema, const std::string& path) {
    DI_TRY(const auto options, either(schema, "oneOf", path, 0));
    return {};
}

Result<std::vector<FlatSchema>> SchemaUnfolder::unfold(const JsonValue& schema, const std::string& path, int depth) {
    std::vector<FlatSchema> result;
    if (schema.is_boolean()) {
        if (schema.as_boolean()) {
            result.push_back({.schema = JsonValue::object(), .path = path});
        }
        return result;
    }
    if (depth > kSchemaMergeDepthMax) {
        return fail(ErrorCode::kInvalidArgument, "{}: references that lead into each other, expected a value between them",
                    path);
    }
    if (++node_count_ > kSchemaNodesMax) {
        return fail(ErrorCode::kInvalidArgument, "{}: a schema that unfolds to more than {} parts, expected less", path,
                    kSchemaNodesMax);
    }
    DI_TRY_STATUS(check_keywords(schema, path));
    result.push_back({.schema = plain_part(schema), .path = path});
    if (const JsonValue* reference = schema.find("$ref")) {
        DI_TRY(const JsonValue* target, referenced_schema(root_, reference->as_string(), member_path(path, "$ref")));
        DI_TRY(const auto part, unfold(*target, reference->as_string(), depth + 1));
        DI_TRY(result, product(result, part));
    }
    if (const JsonValue* list = schema.find("allOf")) {
        for (size_t i = 0; i < list->as_array().size(); ++i) {
            DI_TRY(const auto part, unfold(list->as_array()[i], fmt::format("{}.allOf[{}]", path, i), depth + 1));
            DI_TRY(result, product(result, part));
        }
    }
    for (const std::string_view keyword : kEither) {
        if (schema.find(keyword) != nullptr) {
            DI_TRY(const auto part, either(schema, keyword, path, depth));
            DI_TRY(result, product(result, part));
        }
    }
    return result;
}

Result<std::vector<FlatSchema>> SchemaUnfolder::either(const JsonValue& schema, std::string_view keyword,
                                                       const std::string& path, int depth) {
    std::vector<std::vector<FlatSchema>> options;
    const JsonValue::Array& list = schema.find(keyword)->as_array();
    for (size_t i = 0; i < list.size(); ++i) {
        DI_TRY(auto option, unfold(list[i], fmt::format("{}.{}[{}]", path, keyword, i), depth + 1));
        options.push_back(std::move(option));
    }
    const bool is_exclusive = keyword == "oneOf";
    std::vector<FlatSchema> result;
    for (size_t i = 0; i < options.size(); ++i) {
        for (const FlatSchema& flat : options[i]) {
            for (size_t other = 0; is_exclusive && other < i; ++other) {
                for (const FlatSchema& twin : options[other]) {
                    if (!exclude_each_other(flat.schema, twin.schema, 0)) {
                        return fail(ErrorCode::kInvalidArgument,
                                    "{}.oneOf: alternatives {} and {} may both fit a value, expected anyOf, or alternatives "
                                    "that differ "
                                    "in type or in the value of a required property",
                                    path, other, i);
                    }
                }
            }
            result.push_back(flat);
        }
    }
    return result;
}

Result<std::vector<FlatSchema>> SchemaUnfolder::product(const std::vector<FlatSchema>& left,
                                                        const std::vector<FlatSchema>& right) {
    std::vector<FlatSchema> result;
    if (left.size() * right.size() > kSchemaAlternativesMax) {
        return fail(ErrorCode::kInvalidArgument, "{}: {} combinations of alternatives, expected at most {}", left[0].path,
                    left.size() * right.size(), kSchemaAlternativesMax);
    }
    for (const FlatSchema& a : left) {
        for (const FlatSchema& b : right) {
            if (a.schema.as_object().empty()) {
                result.push_back(b);
                continue;
            }
            DI_TRY(JsonValue schema, merged(a.schema, b.schema, a.path));
            result.push_back({.schema = std::move(schema), .path = a.path});
        }
    }
    return result;
}

bool SchemaUnfolder::exclude_each_other(const JsonValue& left, const JsonValue& right, int depth) {
    const JsonValue* left_type = left.find("type");
    const JsonValue* right_type = right.find("type");
    if (left_type != nullptr && right_type != nullptr && common_types(*left_type, *right_type).as_array().empty()) {
        return true;
    }
    const JsonValue* left_values = left.find("enum");
    const JsonValue* right_values = right.find("enum");
    if (left_values != nullptr && right_values != nullptr && common_values(*left_values, *right_values).as_array().empty()) {
        return true;
    }
    for (const auto& [low, high] : {std::pair(&left, &right), std::pair(&right, &left)}) {
        const JsonValue* maximum = low->find("maximum");
        const JsonValue* minimum = high->find("minimum");
        const bool are_numbers =
            left_type != nullptr && right_type != nullptr && left_type->is_string() && right_type->is_string();
        if (are_numbers && maximum != nullptr && minimum != nullptr && maximum->as_double() < minimum->as_double()) {
            return true;
        }
    }
    return exclude_by_property(left, right, depth);
}

// Two objects that require one property with values that exclude each other, or one requires what the other forbids.
bool SchemaUnfolder::exclude_by_property(const JsonValue& left, const JsonValue& right, int depth) {
    const auto is_object = [](const JsonValue& schema) {
        const JsonValue* type = schema.find("type");
        return type != nullptr && type->is_string() && type->as_string() == "object";
    };
    const auto requires_name = [](const JsonValue& schema, const std::string& name) {
        const JsonValue* required = schema.find("required");
        return required != nullptr && std::any_of(required->as_array().begin(), required->as_array().end(),
                                                  [&name](const JsonValue& item) { return item.as_string() == name; });
    };
    if (!is_object(left) || !is_object(right) || depth > 2) {
        return false;
    }
    for (const auto& [a, b] : {std::pair(&left, &right), std::pair(&right, &left)}) {
        const JsonValue* required = a->find("required");
        for (size_t i = 0; required != nullptr && i < required->as_array().size(); ++i) {
            const std::string& name = required->as_array()[i].as_string();
            const JsonValue* properties = b->find("properties");
            const JsonValue* theirs = properties == nullptr ? nullptr : properties->find(name);
            const JsonValue* others = other_properties(*b);
            if (theirs == nullptr && others != nullptr && others->is_boolean() && !others->as_boolean()) {
                return true;
            }
            const JsonValue* own_properties = a->find("properties");
            const JsonValue* ours = own_properties == nullptr ? nullptr : own_properties->find(name);
            if (ours == nullptr || theirs == nullptr || !requires_name(*b, name)) {
                continue;
            }
            const auto our_part = unfold(*ours, "", 0);
            const auto their_part = unfold(*theirs, "", 0);
            if (!our_part || !their_part) {
                continue;
            }
            const bool differ = std::all_of(our_part->begin(), our_part->end(), [&](const FlatSchema& x) {
                return std::all_of(their_part->begin(), their_part->end(),
                                   [&](const FlatSchema& y) { return exclude_each_other(x.schema, y.schema, depth + 1); });
            });
            if (differ) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace di
