#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <unordered_set>

#include "text/strict_schema.h"

namespace di {
namespace {

// What the value of a keyword must be. Keywords that are not in the table are annotations of
// somebody else and legal in a JSON Schema.
enum class KeywordKind {
    kSchema,        // a schema
    kSchemaList,    // a non-empty list of schemas
    kSchemaMap,     // an object of schemas
    kSchemaOrList,  // items: a schema, or the old tuple form
    kType,
    kString,
    kStringList,  // strings that differ
    kNumber,
    kPositive,  // a number above 0
    kCount,     // an integer from 0
    kBoolean,
    kList,
    kReference,
    kDependencies,  // an object of schemas or string lists
};

struct Keyword {
    std::string_view name;
    KeywordKind kind;
};

constexpr std::array kKeywords = {
    Keyword{"$ref", KeywordKind::kReference},
    Keyword{"$dynamicRef", KeywordKind::kReference},
    Keyword{"$defs", KeywordKind::kSchemaMap},
    Keyword{"definitions", KeywordKind::kSchemaMap},
    Keyword{"properties", KeywordKind::kSchemaMap},
    Keyword{"patternProperties", KeywordKind::kSchemaMap},
    Keyword{"dependentSchemas", KeywordKind::kSchemaMap},
    Keyword{"dependencies", KeywordKind::kDependencies},
    Keyword{"additionalProperties", KeywordKind::kSchema},
    Keyword{"unevaluatedProperties", KeywordKind::kSchema},
    Keyword{"unevaluatedItems", KeywordKind::kSchema},
    Keyword{"additionalItems", KeywordKind::kSchema},
    Keyword{"propertyNames", KeywordKind::kSchema},
    Keyword{"contains", KeywordKind::kSchema},
    Keyword{"not", KeywordKind::kSchema},
    Keyword{"if", KeywordKind::kSchema},
    Keyword{"then", KeywordKind::kSchema},
    Keyword{"else", KeywordKind::kSchema},
    Keyword{"items", KeywordKind::kSchemaOrList},
    Keyword{"prefixItems", KeywordKind::kSchemaList},
    Keyword{"anyOf", KeywordKind::kSchemaList},
    Keyword{"oneOf", KeywordKind::kSchemaList},
    Keyword{"allOf", KeywordKind::kSchemaList},
    Keyword{"type", KeywordKind::kType},
    Keyword{"title", KeywordKind::kString},
    Keyword{"description", KeywordKind::kString},
    Keyword{"pattern", KeywordKind::kString},
    Keyword{"format", KeywordKind::kString},
    Keyword{"required", KeywordKind::kStringList},
    Keyword{"enum", KeywordKind::kList},
    Keyword{"minimum", KeywordKind::kNumber},
    Keyword{"maximum", KeywordKind::kNumber},
    Keyword{"exclusiveMinimum", KeywordKind::kNumber},
    Keyword{"exclusiveMaximum", KeywordKind::kNumber},
    Keyword{"multipleOf", KeywordKind::kPositive},
    Keyword{"minLength", KeywordKind::kCount},
    Keyword{"maxLength", KeywordKind::kCount},
    Keyword{"minItems", KeywordKind::kCount},
    Keyword{"maxItems", KeywordKind::kCount},
    Keyword{"minProperties", KeywordKind::kCount},
    Keyword{"maxProperties", KeywordKind::kCount},
    Keyword{"minContains", KeywordKind::kCount},
    Keyword{"maxContains", KeywordKind::kCount},
    Keyword{"uniqueItems", KeywordKind::kBoolean},
};

constexpr std::array<std::string_view, 7> kTypes = {"object", "array", "string", "integer", "number", "boolean", "null"};

tl::unexpected<Error> wrong(const std::string& path, const JsonValue& value, std::string_view expected) {
    return fail(ErrorCode::kInvalidArgument, "{}: {}, expected {}", path, short_json_text(value), expected);
}

// One step of a JSON pointer: "~1" is '/', "~0" is '~', "%XX" a byte (it stands in a URI fragment).
std::optional<std::string> pointer_step(std::string_view step) {
    std::string key;
    for (size_t i = 0; i < step.size(); ++i) {
        if (step[i] == '%') {
            unsigned byte = 0;
            const std::string_view hex = step.substr(i + 1, 2);
            const auto parsed = std::from_chars(hex.data(), hex.data() + hex.size(), byte, 16);
            if (hex.size() != 2 || parsed.ptr != hex.data() + 2) {
                return std::nullopt;
            }
            key += static_cast<char>(byte);
            i += 2;
        } else {
            key += step[i];
        }
    }
    std::string plain;
    for (size_t i = 0; i < key.size(); ++i) {
        if (key[i] != '~') {
            plain += key[i];
            continue;
        }
        if (i + 1 >= key.size() || (key[i + 1] != '0' && key[i + 1] != '1')) {
            return std::nullopt;
        }
        plain += key[i + 1] == '0' ? '~' : '/';
        ++i;
    }
    return plain;
}

const JsonValue* resolve_reference(const JsonValue& root, std::string_view reference) {
    std::string_view rest = reference.substr(1);  // after '#'
    const JsonValue* at = &root;
    while (!rest.empty()) {
        rest.remove_prefix(1);  // '/'
        const size_t end = std::min(rest.find('/'), rest.size());
        const std::optional<std::string> key = pointer_step(rest.substr(0, end));
        if (!key) {
            return nullptr;
        }
        if (at->is_array()) {
            size_t index = 0;
            const auto parsed = std::from_chars(key->data(), key->data() + key->size(), index);
            if (key->empty() || parsed.ec != std::errc{} || parsed.ptr != key->data() + key->size() ||
                index >= at->as_array().size()) {
                return nullptr;
            }
            at = &at->as_array()[index];
        } else {
            at = at->find(*key);
            if (at == nullptr) {
                return nullptr;
            }
        }
        rest.remove_prefix(end);
    }
    return at;
}

// Whether schemas stand where the pointer leads, going by the keywords on its way.
bool is_schema_place(std::string_view reference) {
    enum class At { kSchema, kMap, kList };
    At at = At::kSchema;
    std::string_view rest = reference.substr(1);
    while (!rest.empty()) {
        rest.remove_prefix(1);
        const size_t end = std::min(rest.find('/'), rest.size());
        const std::string key = pointer_step(rest.substr(0, end)).value_or("");
        rest.remove_prefix(end);
        if (at != At::kSchema) {
            at = At::kSchema;
            continue;
        }
        const auto keyword =
            std::find_if(kKeywords.begin(), kKeywords.end(), [&key](const Keyword& some) { return some.name == key; });
        if (keyword == kKeywords.end()) {
            return false;
        }
        if (keyword->kind == KeywordKind::kSchemaMap) {
            at = At::kMap;
        } else if (keyword->kind == KeywordKind::kSchemaList) {
            at = At::kList;
        } else if (keyword->kind != KeywordKind::kSchema && keyword->kind != KeywordKind::kSchemaOrList) {
            return false;
        }
    }
    return at == At::kSchema;
}

class SchemaChecker {
  public:
    explicit SchemaChecker(const JsonValue& root) : root_(root) {}

    Status check(const JsonValue& schema, const std::string& path) const {
        if (schema.is_boolean()) {
            return {};
        }
        if (!schema.is_object()) {
            return wrong(path, schema, "a JSON Schema (an object or a boolean)");
        }
        for (const Keyword& keyword : kKeywords) {
            if (const JsonValue* value = schema.find(keyword.name)) {
                DI_TRY_STATUS(check_keyword(*value, keyword, path));
            }
        }
        return {};
    }

  private:
    Status check_keyword(const JsonValue& value, const Keyword& keyword, const std::string& parent) const {
        const std::string path = member_path(parent, keyword.name);
        switch (keyword.kind) {
            case KeywordKind::kSchema: return check(value, path);
            case KeywordKind::kSchemaList: return check_list(value, path);
            case KeywordKind::kSchemaMap: return check_map(value, path);
            case KeywordKind::kSchemaOrList: return value.is_array() ? check_items(value, path) : check(value, path);
            case KeywordKind::kDependencies: return check_dependencies(value, path);
            case KeywordKind::kType: return check_type(value, path);
            case KeywordKind::kReference: return check_reference(value, path);
            case KeywordKind::kStringList: return check_strings(value, path);
            case KeywordKind::kString: return value.is_string() ? Status{} : Status(wrong(path, value, "a string"));
            case KeywordKind::kNumber: return value.is_number() ? Status{} : Status(wrong(path, value, "a number"));
            case KeywordKind::kPositive:
                return value.is_number() && value.as_double() > 0.0 ? Status{} : Status(wrong(path, value, "a number above 0"));
            case KeywordKind::kCount: return check_count(value, path);
            case KeywordKind::kBoolean: return value.is_boolean() ? Status{} : Status(wrong(path, value, "true or false"));
            case KeywordKind::kList:
                return value.is_array() && !value.as_array().empty()
                           ? Status{}
                           : Status(wrong(path, value, "a list of at least one value"));
        }
        return {};
    }

    static Status check_count(const JsonValue& value, const std::string& path) {
        // 2.0 is an integer to JSON Schema.
        const bool is_count =
            value.is_number() && value.as_double() >= 0.0 && (value.is_integer() || value.as_number().spelling.ends_with(".0"));
        return is_count ? Status{} : Status(wrong(path, value, "an integer from 0"));
    }

    Status check_items(const JsonValue& list, const std::string& path) const {
        for (size_t i = 0; i < list.as_array().size(); ++i) {
            DI_TRY_STATUS(check(list.as_array()[i], fmt::format("{}[{}]", path, i)));
        }
        return {};
    }

    Status check_list(const JsonValue& list, const std::string& path) const {
        if (!list.is_array() || list.as_array().empty()) {
            return wrong(path, list, "a list of at least one schema");
        }
        return check_items(list, path);
    }

    Status check_map(const JsonValue& map, const std::string& path) const {
        if (!map.is_object()) {
            return wrong(path, map, "an object of schemas");
        }
        for (const JsonMember& member : map.as_object()) {
            DI_TRY_STATUS(check(member.value, member_path(path, member.key)));
        }
        return {};
    }

    Status check_dependencies(const JsonValue& map, const std::string& path) const {
        if (!map.is_object()) {
            return wrong(path, map, "an object of schemas or lists of names");
        }
        for (const JsonMember& member : map.as_object()) {
            const std::string place = member_path(path, member.key);
            DI_TRY_STATUS(member.value.is_array() ? check_strings(member.value, place) : check(member.value, place));
        }
        return {};
    }

    static Status check_type_name(const JsonValue& name, const std::string& path) {
        if (name.is_string()) {
            for (const std::string_view type : kTypes) {
                if (name.as_string() == type) {
                    return {};
                }
            }
        }
        return wrong(path, name, "object, array, string, integer, number, boolean or null");
    }

    static Status check_type(const JsonValue& value, const std::string& path) {
        if (!value.is_array()) {
            return check_type_name(value, path);
        }
        if (value.as_array().empty()) {
            return wrong(path, value, "a type or a list of at least one");
        }
        for (const JsonValue& name : value.as_array()) {
            DI_TRY_STATUS(check_type_name(name, path));
        }
        return check_strings(value, path);
    }

    static Status check_strings(const JsonValue& value, const std::string& path) {
        if (!value.is_array()) {
            return wrong(path, value, "a list of strings");
        }
        std::unordered_set<std::string_view> seen;
        for (const JsonValue& item : value.as_array()) {
            if (!item.is_string()) {
                return wrong(path, item, "a string");
            }
            if (!seen.insert(item.as_string()).second) {
                return wrong(path, item, "strings that differ");
            }
        }
        return {};
    }

    Status check_reference(const JsonValue& value, const std::string& path) const {
        if (!value.is_string()) {
            return wrong(path, value, "a string");
        }
        const std::string& reference = value.as_string();
        if (reference != "#" && !reference.starts_with("#/")) {
            return wrong(path, value, "a pointer into this schema such as #/$defs/Name");
        }
        const JsonValue* target = resolve_reference(root_, reference);
        if (target == nullptr) {
            return wrong(path, value, "a pointer to something that the schema defines");
        }
        if (!target->is_object() && !target->is_boolean()) {
            return wrong(path, value, "a pointer to a schema");
        }
        return {};
    }

    const JsonValue& root_;
};

}  // namespace

Result<const JsonValue*> referenced_schema(const JsonValue& root, std::string_view reference, std::string_view path) {
    const JsonValue* target = resolve_reference(root, reference);
    if (target == nullptr || !is_schema_place(reference)) {
        return fail(ErrorCode::kInvalidArgument, "{}: {}, expected a pointer to a schema such as #/$defs/Name", path,
                    short_quoted(reference));
    }
    DI_TRY_STATUS(SchemaChecker(root).check(*target, std::string(reference)));
    return target;
}

Status check_schema(const JsonValue& schema, std::string_view path) {
    return SchemaChecker(schema).check(schema, std::string(path));
}

}  // namespace di
