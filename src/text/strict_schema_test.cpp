#include "text/strict_schema.h"

#include <gtest/gtest.h>

namespace di {
namespace {

JsonValue json(std::string_view text) {
    auto value = parse_json(text);
    EXPECT_TRUE(value.has_value()) << text;
    return value ? *value : JsonValue();
}

std::string strict(std::string_view text) {
    const auto result = strict_schema(json(text), "p");
    return result ? json_text(*result) : "error: " + result.error().text;
}

TEST(StrictSchema, ClosesObjectsAndOrdersKeys) {
    EXPECT_EQ(strict("{}"), "{}");
    EXPECT_EQ(
        strict(
            R"({"title":"T","description":"D","required":["b","a"],"properties":{"a":{"minLength":1,"enum":["x"],"type":"string",
                        "description":"d","pattern":"x","format":"uuid"},"b":{"maximum":2,"type":"number","default":1,"minimum":0}},"type":"object"})"),
        R"({"type": "object", "properties": {"a": {"type": "string", "description": "d", "pattern": "x", "format": "uuid", "enum": ["x"]}, )"
        R"("b": {"type": "number", "default": 1, "minimum": 0, "maximum": 2}}, "additionalProperties": false, "required": ["a", "b"], )"
        R"("description": "D"})");
}

TEST(StrictSchema, KeepsDefinitionsReferencesAndAlternatives) {
    EXPECT_EQ(
        strict(R"({"type":"object","$defs":{"N":{"type":"object","properties":{"n":{"$ref":"#/$defs/N","description":"x"}}}},
                        "properties":{"u":{"anyOf":[{"type":"null"},{"type":"boolean","title":"t"}],"description":"d"},
                        "l":{"description":"L","minItems":1,"items":{"type":["string","null"]},"type":"array"}}})"),
        R"({"type": "object", "properties": {"u": {"anyOf": [{"type": "null"}, {"type": "boolean"}], "description": "d"}, )"
        R"("l": {"type": "array", "items": {"type": ["string", "null"]}, "description": "L"}}, "additionalProperties": false, )"
        R"("required": ["u", "l"], "$defs": {"N": {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, )"
        R"("additionalProperties": false, "required": ["n"]}}})");
}

TEST(StrictSchema, RefusesWhatStrictModeCannotKeep) {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"]})", "p.required"},
        {R"({"type":"object","properties":{},"required":["a"]})", "p.required"},
        {R"({"type":"object","additionalProperties":true})", "p.additionalProperties"},
        {R"({"type":"object","properties":{"a":{}}})", "p.properties.a"},
        {R"({"type":"object","properties":{"a":true}})", "p.properties.a"},
        {R"({"type":"object","properties":{"a":{"oneOf":[{"type":"string"}]}}})", "p.properties.a"},
        {R"({"type":"object","properties":{"a":{"type":"array"}}})", "p.properties.a"},
        {R"({"type":"object","properties":{"a":{"type":"object"}}})", "p.properties.a"},
        {R"({"type":"object","properties":{"a":{"type":["string","object"]}}})", "p.properties.a.type"},
        {R"({"type":"object","properties":{"a":{"type":"string","format":"date"}}})", "p.properties.a.format"},
    };
    for (const auto& [schema, place] : cases) {
        const Status status = check_tool_schema(json(schema), true, "p");
        ASSERT_FALSE(status.has_value()) << schema;
        EXPECT_TRUE(status.error().text.starts_with(fmt::format("{}: ", place))) << status.error().text;
        EXPECT_TRUE(check_tool_schema(json(schema), false, "p").has_value()) << schema;
    }
}

TEST(SchemaCheck, AcceptsWhatIsASchema) {
    for (
        const std::string_view schema :
        {R"({})", R"(true)", R"({"type":["string","null"],"x-other":1})", R"({"$ref":"#"})",
         R"({"$defs":{"a/b~c":{"type":"string"}},"properties":{"x":{"$ref":"#/$defs/a~1b~0c"},"y":{"$ref":"#/$defs/a%7e1b~0c"}}})",
         R"({"items":[{"type":"string"}],"additionalItems":false,"allOf":[{"not":{}}]})",
         R"({"minLength":2.0,"enum":[1,"a",null]})", R"({"anyOf":[{"type":"string"},{"$ref":"#/anyOf/0"}]})",
         R"({"if":{},"then":true,"else":false,"patternProperties":{"^a":{}},"dependencies":{"a":["b"],"c":{}}})"}) {
        const Status status = check_schema(json(schema), "p");
        EXPECT_TRUE(status.has_value()) << schema << " " << (status ? "" : status.error().text);
    }
}

TEST(SchemaCheck, NamesWhatIsNot) {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {R"(5)", "p: 5"},
        {R"({"type":"text"})", "p.type: \"text\""},
        {R"({"type":[]})", "p.type: []"},
        {R"({"type":["string","string"]})", "p.type: \"string\""},
        {R"({"properties":[]})", "p.properties: []"},
        {R"({"properties":{"a":1}})", "p.properties.a: 1"},
        {R"({"required":"a"})", "p.required: \"a\""},
        {R"({"required":[1]})", "p.required: 1"},
        {R"({"anyOf":[]})", "p.anyOf: []"},
        {R"({"items":1})", "p.items: 1"},
        {R"({"minLength":-1})", "p.minLength: -1"},
        {R"({"maxItems":1.5})", "p.maxItems: 1.5"},
        {R"({"multipleOf":0})", "p.multipleOf: 0"},
        {R"({"enum":[]})", "p.enum: []"},
        {R"({"pattern":1})", "p.pattern: 1"},
        {R"({"description":1})", "p.description: 1"},
        {R"({"items":{"$ref":"#/$defs/Name"}})", "p.items.$ref: \"#/$defs/Name\""},
        {R"({"$ref":"other.json#/x"})", "p.$ref: \"other.json#/x\""},
        {R"({"$ref":"https://example.test/x"})", "p.$ref: \"https://example.test/x\""},
        {R"({"$ref":"#anchor"})", "p.$ref: \"#anchor\""},
        {R"({"$ref":"#/title","title":"x"})", "p.$ref: \"#/title\""},
        {R"({"$ref":"#/%zz"})", "p.$ref: \"#/%zz\""},
        {R"({"$ref":"#/~"})", "p.$ref: \"#/~\""},
    };
    for (const auto& [schema, beginning] : cases) {
        const Status status = check_schema(json(schema), "p");
        ASSERT_FALSE(status.has_value()) << schema;
        EXPECT_TRUE(status.error().text.starts_with(beginning)) << status.error().text;
    }
}

TEST(SchemaCheck, ParametersAreNothingOrAnObject) {
    EXPECT_TRUE(check_tool_schema(json("{}"), true, "p").has_value());
    EXPECT_TRUE(check_tool_schema(json(R"({"type":"object"})"), true, "p").has_value());
    EXPECT_FALSE(check_tool_schema(json("[]"), false, "p").has_value());
    EXPECT_FALSE(check_tool_schema(json(R"({"properties":{}})"), false, "p").has_value());
    EXPECT_FALSE(check_tool_schema(json(R"({"type":["object"]})"), false, "p").has_value());
}

}  // namespace
}  // namespace di
