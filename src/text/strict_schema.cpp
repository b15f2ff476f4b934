#include "text/strict_schema.h"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace di {
namespace {

constexpr std::array<std::string_view, 5> kScalarTypes = {"string", "integer", "number", "boolean", "null"};
// Keywords whose values hold schemas under names.
constexpr std::array<std::string_view, 3> kSchemaMaps = {"properties", "$defs", "definitions"};
constexpr std::array<std::string_view, 5> kStrictFormats = {"email", "hostname", "ipv4", "ipv6", "uuid"};

template <typename Names>
bool is_one_of(const Names& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

void copy_keys(const JsonValue& from, JsonValue& to, std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) {
        if (const JsonValue* value = from.find(key)) {
            to.set(key, *value);
        }
    }
}

class StrictNormaliser {
  public:
    Result<JsonValue> node(const JsonValue& schema, const std::string& path, bool is_top) const {
        if (!schema.is_object()) {
            return fail(ErrorCode::kInvalidArgument, "{}: {} in a strict schema, expected an object with type, anyOf or $ref",
                        path, schema.kind_name());
        }
        if (const JsonValue* type = schema.find("type")) {
            return type->is_array() ? type_list(schema, path) : typed(schema, type->as_string(), path, is_top);
        }
        JsonValue result = JsonValue::object();
        if (const JsonValue* alternatives = schema.find("anyOf")) {
            DI_TRY(auto nodes, node_list(*alternatives, path + ".anyOf"));
            result.set("anyOf", std::move(nodes));
            copy_keys(schema, result, {"description"});
            return result;
        }
        if (const JsonValue* reference = schema.find("$ref")) {
            result.set("$ref", *reference);
            return result;
        }
        return fail(ErrorCode::kInvalidArgument, "{}: {} in a strict schema, expected one of type, anyOf, $ref", path,
                    short_json_text(schema));
    }

  private:
    Result<JsonValue> type_list(const JsonValue& schema, const std::string& path) const {
        for (const JsonValue& type : schema.find("type")->as_array()) {
            if (!is_one_of(kScalarTypes, type.as_string())) {
                return fail(ErrorCode::kInvalidArgument,
                            "{}.type: {} in a type list of a strict schema, expected string, integer, number, boolean or null",
                            path, short_json_text(type));
            }
        }
        JsonValue result = JsonValue::object();
        copy_keys(schema, result, {"type", "description"});
        return result;
    }

    Result<JsonValue> typed(const JsonValue& schema, const std::string& type, const std::string& path, bool is_top) const {
        if (type == "object") {
            return object(schema, path, is_top);
        }
        if (type == "array") {
            return array(schema, path);
        }
        JsonValue result = JsonValue::object();
        if (type == "string") {
            const JsonValue* format = schema.find("format");
            if (format != nullptr && !is_one_of(kStrictFormats, format->as_string())) {
                return fail(ErrorCode::kInvalidArgument,
                            "{}.format: {} in a strict schema, expected email, hostname, ipv4, ipv6 or uuid", path,
                            short_json_text(*format));
            }
            copy_keys(schema, result, {"type", "description", "pattern", "format", "enum"});
        } else if (type == "integer" || type == "number") {
            copy_keys(schema, result,
                      {"type", "description", "const", "default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                       "multipleOf"});
        } else {
            copy_keys(schema, result, {"type", "description"});
        }
        return result;
    }

    Result<JsonValue> array(const JsonValue& schema, const std::string& path) const {
        const JsonValue* items = schema.find("items");
        if (items == nullptr) {
            return fail(ErrorCode::kInvalidArgument, "{}: an array without items in a strict schema, expected items", path);
        }
        DI_TRY(auto item, node(*items, path + ".items", false));
        JsonValue result = JsonValue::object();
        copy_keys(schema, result, {"type"});
        result.set("items", std::move(item));
        copy_keys(schema, result, {"description"});
        return result;
    }

    Result<JsonValue> object(const JsonValue& schema, const std::string& path, bool is_top) const {
        DI_TRY_STATUS(check_closed(schema, path, is_top));
        JsonValue result = JsonValue::object();
        copy_keys(schema, result, {"type"});
        JsonValue::Object properties;
        JsonValue::Array required;
        if (const JsonValue* given = schema.find("properties")) {
            for (const JsonMember& member : given->as_object()) {
                DI_TRY(auto property, node(member.value, member_path(path + ".properties", member.key), false));
                properties.push_back({member.key, std::move(property)});
                required.push_back(JsonValue::string(member.key));
            }
        }
        result.set("properties", JsonValue::object(std::move(properties)));
        result.set("additionalProperties", JsonValue::boolean(false));
        result.set("required", JsonValue::array(std::move(required)));
        copy_keys(schema, result, {"description"});
        for (const std::string_view key : {"$defs", "definitions"}) {
            const JsonValue* given = schema.find(key);
            if (given == nullptr) {
                continue;
            }
            JsonValue::Object definitions;
            for (const JsonMember& member : given->as_object()) {
                DI_TRY(auto definition, node(member.value, member_path(member_path(path, key), member.key), false));
                definitions.push_back({member.key, std::move(definition)});
            }
            result.set(key, JsonValue::object(std::move(definitions)));
        }
        return result;
    }

    // What an object may not say in a strict schema.
    static Status check_closed(const JsonValue& schema, const std::string& path, bool is_top) {
        const JsonValue* properties = schema.find("properties");
        if (properties == nullptr && !is_top) {
            return fail(ErrorCode::kInvalidArgument, "{}: an object without properties in a strict schema, expected properties",
                        path);
        }
        const JsonValue* additional = schema.find("additionalProperties");
        if (additional != nullptr && !(additional->is_boolean() && !additional->as_boolean())) {
            return fail(ErrorCode::kInvalidArgument, "{}.additionalProperties: {} in a strict schema, expected false", path,
                        short_json_text(*additional));
        }
        const JsonValue* required = schema.find("required");
        if (required == nullptr) {
            return {};
        }
        std::unordered_set<std::string_view> names;
        for (const JsonValue& name : required->as_array()) {
            names.insert(name.as_string());
        }
        size_t property_count = 0;
        bool has_all = true;
        if (properties != nullptr) {
            property_count = properties->as_object().size();
            for (const JsonMember& member : properties->as_object()) {
                has_all = has_all && names.contains(member.key);
            }
        }
        if (!has_all || names.size() != property_count) {
            return fail(ErrorCode::kInvalidArgument,
                        "{}.required: {} in a strict schema, expected exactly the properties (or no required at all)", path,
                        short_json_text(*required));
        }
        return {};
    }

    Result<JsonValue> node_list(const JsonValue& list, const std::string& path) const {
        JsonValue::Array nodes;
        for (size_t i = 0; i < list.as_array().size(); ++i) {
            DI_TRY(auto item, node(list.as_array()[i], fmt::format("{}[{}]", path, i), false));
            nodes.push_back(std::move(item));
        }
        return JsonValue::array(std::move(nodes));
    }
};

}  // namespace

Status check_tool_schema(const JsonValue& schema, bool is_strict, std::string_view path) {
    if (!schema.is_object()) {
        return fail(ErrorCode::kInvalidArgument, "{}: {}, expected an object (JSON Schema)", path, schema.kind_name());
    }
    if (schema.as_object().empty()) {
        return {};
    }
    const JsonValue* type = schema.find("type");
    if (type == nullptr || !type->is_string() || type->as_string() != "object") {
        return fail(ErrorCode::kInvalidArgument, "{}.type: {}, expected \"object\"", path,
                    type == nullptr ? "missing" : short_json_text(*type));
    }
    DI_TRY_STATUS(check_schema(schema, path));
    if (is_strict) {
        DI_TRY(auto strict, strict_schema(schema, path));
    }
    return {};
}

Result<JsonValue> strict_schema(const JsonValue& schema, std::string_view path) {
    if (schema.is_object() && schema.as_object().empty()) {
        return schema;
    }
    return StrictNormaliser().node(schema, std::string(path), true);
}

JsonValue closed_schema(const JsonValue& schema) {
    if (!schema.is_object()) {
        return schema;
    }
    JsonValue result = JsonValue::object();
    JsonValue::Array names;
    for (const JsonMember& member : schema.as_object()) {
        JsonValue value = member.value;
        if (member.key == "items") {
            value = closed_schema(value);
        } else if (member.key == "anyOf" && value.is_array()) {
            JsonValue::Array alternatives;
            for (const JsonValue& alternative : value.as_array()) {
                alternatives.push_back(closed_schema(alternative));
            }
            value = JsonValue::array(std::move(alternatives));
        } else if (value.is_object() && is_one_of(kSchemaMaps, member.key)) {
            JsonValue::Object members;
            for (const JsonMember& one : value.as_object()) {
                members.push_back({one.key, closed_schema(one.value)});
                if (member.key == "properties") {
                    names.push_back(JsonValue::string(one.key));
                }
            }
            value = JsonValue::object(std::move(members));
        }
        result.set(member.key, std::move(value));
    }
    if (const JsonValue* type = schema.find("type"); type != nullptr && type->is_string() && type->as_string() == "object") {
        result.set("additionalProperties", JsonValue::boolean(false));
        result.set("required", JsonValue::array(std::move(names)));
    }
    return result;
}

}  // namespace di
