#include "text/chat_tools.h"

#include <string>
#include <string_view>

#include "text/chat_tokens.h"
#include "text/strict_schema.h"
#include "text/tool_tags.h"

namespace di {
namespace {

// The texts are what the models were trained with: every byte counts, also the empty lines.
constexpr std::string_view kDeclarationsHeadV41 =
    R"(## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<｜DSML｜ calls>" block like the following:

<｜DSML｜ calls>
<｜DSML｜ invoke name="$TOOL_NAME">
<｜DSML｜ parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜ parameter>
...
</｜DSML｜ invoke>
<｜DSML｜ invoke name="$TOOL_NAME2">
...
</｜DSML｜ invoke>
</｜DSML｜ calls>
)";

constexpr std::string_view kDeclarationsHeadV4 =
    R"(## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<｜DSML｜tool_calls>" block like the following:

<｜DSML｜tool_calls>
<｜DSML｜invoke name="$TOOL_NAME">
<｜DSML｜parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜parameter>
...
</｜DSML｜invoke>
<｜DSML｜invoke name="$TOOL_NAME2">
...
</｜DSML｜invoke>
</｜DSML｜tool_calls>
)";

constexpr std::string_view kDeclarationsRules =
    R"(
String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

)";

constexpr std::string_view kDeclarationsTail =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n";

void open_tag(PromptWriter& writer, std::string_view name) {
    writer.plain("<");
    writer.special(kToolMarkerToken);
    writer.plain(name);
}

void close_tag(PromptWriter& writer, std::string_view name) {
    writer.plain("</");
    writer.special(kToolMarkerToken);
    writer.plain(name);
    writer.plain(">");
}

void write_parameter(PromptWriter& writer, const ToolTags& tags, std::string_view key, const JsonValue& value) {
    open_tag(writer, tags.parameter);
    writer.plain(" name=\"");
    writer.plain(key);
    writer.plain(value.is_string() ? "\" string=\"true\">" : "\" string=\"false\">");
    writer.plain(value.is_string() ? value.as_string() : json_text(value));
    close_tag(writer, tags.parameter);
}

// Arguments that are no JSON object are shown to the model as it wrote them, as one parameter.
JsonValue::Object arguments_of(const ToolCall& call) {
    if (auto parsed = parse_json(call.arguments); parsed && parsed->is_object()) {
        return parsed->as_object();
    }
    return {{.key = "arguments", .value = JsonValue::string(call.arguments)}};
}

void write_call(PromptWriter& writer, const ToolCall& call, ChatDialect dialect) {
    const ToolTags& tags = tool_tags(dialect);
    open_tag(writer, tags.invoke);
    writer.plain(" name=\"");
    writer.plain(call.name);
    writer.plain("\">\n");
    std::string_view separator = "";
    for (const JsonMember& argument : arguments_of(call)) {
        writer.plain(separator);
        write_parameter(writer, tags, argument.key, argument.value);
        separator = "\n";
    }
    // V4.1 keeps the newline of an empty parameter list, V4 does not.
    if (dialect == ChatDialect::kV41 || !separator.empty()) {
        writer.plain("\n");
    }
    close_tag(writer, tags.invoke);
}

}  // namespace

Status write_tool_declarations(PromptWriter& writer, std::span<const Tool* const> tools, ChatDialect dialect) {
    writer.template_text(dialect == ChatDialect::kV41 ? kDeclarationsHeadV41 : kDeclarationsHeadV4);
    writer.template_text(kDeclarationsRules);
    std::string_view separator = "";
    for (const Tool* tool : tools) {
        JsonValue line = JsonValue::object();
        line.set("name", JsonValue::string(tool->name));
        line.set("description", JsonValue::string(tool->description));
        if (tool->is_strict) {
            DI_TRY(auto strict, strict_schema(tool->parameters, member_path(tool->path, tool->schema_key)));
            line.set("parameters", std::move(strict));
        } else {
            line.set("parameters", tool->parameters);
        }
        writer.plain(separator);
        writer.plain(json_text(line));
        separator = "\n";
    }
    writer.plain(kDeclarationsTail);
    return {};
}

void write_tool_calls(PromptWriter& writer, std::span<const ToolCall> calls, ChatDialect dialect) {
    write_tool_block_opening(writer, dialect);
    for (const ToolCall& call : calls) {
        write_call(writer, call, dialect);
        writer.plain("\n");
    }
    close_tag(writer, tool_tags(dialect).block);
}

void write_tool_block_opening(PromptWriter& writer, ChatDialect dialect) {
    writer.plain("\n\n");
    open_tag(writer, tool_tags(dialect).block);
    writer.plain(">\n");
}

}  // namespace di
