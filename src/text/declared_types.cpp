#include "text/declared_types.h"

#include <array>

#include "text/limits.h"
#include "text/strict_schema.h"

namespace di {
namespace {

struct NamedType {
    std::string_view name;
    uint32_t types;
};

constexpr std::array kNamedTypes = {
    NamedType{"string", kTypeString},   NamedType{"integer", kTypeInteger}, NamedType{"number", kTypeInteger | kTypeNumber},
    NamedType{"boolean", kTypeBoolean}, NamedType{"null", kTypeNull},       NamedType{"array", kTypeArray},
    NamedType{"object", kTypeObject},
};

uint32_t type_named(const JsonValue& name) {
    for (const NamedType& known : kNamedTypes) {
        if (name.is_string() && name.as_string() == known.name) {
            return known.types;
        }
    }
    return kTypesAll;
}

uint32_t type_of(const JsonValue& value) {
    if (value.is_number()) {
        return kTypeInteger | kTypeNumber;
    }
    return value.is_string()    ? kTypeString
           : value.is_boolean() ? kTypeBoolean
           : value.is_array()   ? kTypeArray
           : value.is_object()  ? kTypeObject
                                : kTypeNull;
}

class TypeFinder {
  public:
    explicit TypeFinder(const JsonValue& root) : root_(root) {}

    uint32_t types(const JsonValue& schema, int depth) {
        if (schema.is_boolean()) {
            return schema.as_boolean() ? kTypesAll : 0;
        }
        if (depth > kSchemaMergeDepthMax || ++node_count_ > kSchemaNodesMax) {
            return kTypesAll;
        }
        uint32_t found = kTypesAll;
        if (const JsonValue* type = schema.find("type")) {
            found &= type->is_array() ? united(*type, type_named) : type_named(*type);
        }
        if (const JsonValue* values = schema.find("enum"); values != nullptr && values->is_array()) {
            found &= united(*values, type_of);
        }
        if (const JsonValue* value = schema.find("const")) {
            found &= type_of(*value);
        }
        if (const JsonValue* reference = schema.find("$ref"); reference != nullptr && reference->is_string()) {
            const Result<const JsonValue*> target = referenced_schema(root_, reference->as_string(), "");
            found &= target ? types(**target, depth + 1) : kTypesAll;
        }
        const auto below = [this, depth](const JsonValue& item) { return types(item, depth + 1); };
        for (const std::string_view keyword : {"anyOf", "oneOf"}) {
            if (const JsonValue* list = schema.find(keyword); list != nullptr && list->is_array()) {
                found &= united(*list, below);
            }
        }
        if (const JsonValue* list = schema.find("allOf"); list != nullptr && list->is_array()) {
            for (const JsonValue& item : list->as_array()) {
                found &= below(item);
            }
        }
        return found;
    }

  private:
    template <typename TypesOf>
    static uint32_t united(const JsonValue& list, const TypesOf& types_of) {
        uint32_t found = 0;
        for (const JsonValue& item : list.as_array()) {
            found |= types_of(item);
        }
        return found;
    }

    const JsonValue& root_;
    int64_t node_count_ = 0;
};

}  // namespace

uint32_t declared_types(const JsonValue& root, const JsonValue& schema) { return TypeFinder(root).types(schema, 0); }

}  // namespace di
