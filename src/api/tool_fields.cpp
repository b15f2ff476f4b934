#include "api/tool_fields.h"

#include <utility>

#include "api/limits.h"

namespace di {
namespace {

Status check_name(std::string_view name, const std::string& path) {
    static constexpr std::string_view kLegal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    if (name.empty() || name.size() > kToolNameBytesMax || name.find_first_not_of(kLegal) != std::string_view::npos) {
        return fail(ErrorCode::kInvalidArgument, "{}: {}, expected 1 to {} of the characters a-z A-Z 0-9 _ -", path,
                    short_quoted(name), kToolNameBytesMax);
    }
    return {};
}

// name, description, schema, strict: the same in every dialect but for the key of the schema.
Result<Tool> parse_function(const JsonReader& reader, std::string_view schema_key) {
    Tool tool;
    tool.path = reader.path();
    tool.schema_key = schema_key;
    DI_TRY(tool.name, reader.required_string("name"));
    DI_TRY_STATUS(check_name(tool.name, reader.path_of("name")));
    DI_TRY(tool.description, reader.string_or("description", ""));
    DI_TRY(tool.is_strict, reader.boolean_or("strict", false));
    DI_TRY(const auto schema, reader.object(schema_key));
    if (schema) {
        tool.parameters = *reader.find(schema_key);
    }
    return tool;
}

Result<Tool> parse_custom(const JsonReader& reader) {
    Tool tool;
    tool.is_custom = true;
    tool.path = reader.path();
    DI_TRY(tool.name, reader.required_string("name"));
    DI_TRY_STATUS(check_name(tool.name, reader.path_of("name")));
    DI_TRY(tool.description, reader.string_or("description", ""));
    JsonValue input = JsonValue::object({{.key = "type", .value = JsonValue::string("string")}});
    tool.parameters.set("type", JsonValue::string("object"));
    tool.parameters.set("properties", JsonValue::object({{.key = "input", .value = std::move(input)}}));
    tool.parameters.set("required", JsonValue::array({JsonValue::string("input")}));
    return tool;
}

// The only custom tool that chat has: its clients know the format of the text themselves.
constexpr std::string_view kApplyPatch = "apply_patch";

Status add_chat_tool(const JsonReader& reader, Conversation& conversation) {
    DI_TRY(const auto type, reader.string_or("type", "function"));
    if (type == "function") {
        DI_TRY(const auto function, reader.required_object("function"));
        DI_TRY(auto tool, parse_function(function, "parameters"));
        conversation.tools.push_back(std::move(tool));
        return {};
    }
    if (type == "custom") {
        DI_TRY(const auto custom, reader.required_object("custom"));
        DI_TRY(auto tool, parse_custom(custom));
        if (tool.name == kApplyPatch) {
            conversation.tools.push_back(std::move(tool));
            return {};
        }
        return custom.wrong("name", "apply_patch, the only custom tool of this interface");
    }
    return reader.wrong("type", "function");
}

Status parse_chat_tools(const JsonReader& body, Conversation& conversation) {
    DI_TRY(const auto* tools, body.array("tools", kToolsMax));
    for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
        DI_TRY(const auto reader, JsonReader::open((*tools)[i], item_path(body.path_of("tools"), i)));
        DI_TRY_STATUS(add_chat_tool(reader, conversation));
    }
    DI_TRY(const auto* functions, body.array("functions", kToolsMax));  // the old name
    for (size_t i = 0; functions != nullptr && tools == nullptr && i < functions->size(); ++i) {
        DI_TRY(const auto reader, JsonReader::open((*functions)[i], item_path(body.path_of("functions"), i)));
        DI_TRY(auto tool, parse_function(reader, "parameters"));
        conversation.tools.push_back(std::move(tool));
    }
    return {};
}

Status add_namespace(const JsonReader& reader, Conversation& conversation) {
    DI_TRY(const auto name, reader.required_string("name"));
    DI_TRY_STATUS(check_name(name, reader.path_of("name")));
    DI_TRY(const auto description, reader.string_or("description", ""));
    DI_TRY(const auto* tools, reader.array("tools", kToolsMax));
    for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
        DI_TRY(const auto member, JsonReader::open((*tools)[i], item_path(reader.path_of("tools"), i)));
        DI_TRY(const auto type, member.string_or("type", "function"));
        if (type != "function" && type != "custom") {
            return member.wrong("type", "function or custom");
        }
        DI_TRY(auto tool, type == "custom" ? parse_custom(member) : parse_function(member, "parameters"));
        tool.name = namespaced_name(name, tool.name);
        const std::string_view joint = description.empty() || tool.description.empty() ? "" : "\n";
        tool.description = fmt::format("{}{}{}", description, joint, tool.description);
        conversation.tools.push_back(std::move(tool));
    }
    return {};
}

Status parse_response_tools(const JsonReader& body, Request& request) {
    DI_TRY(const auto* tools, body.array("tools", kToolsMax));
    for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
        DI_TRY(const auto reader, JsonReader::open((*tools)[i], item_path(body.path_of("tools"), i)));
        DI_TRY(const auto type, reader.required_string("type"));
        if (type == "function") {
            DI_TRY(auto tool, parse_function(reader, "parameters"));
            request.conversation->tools.push_back(std::move(tool));
        } else if (type == "custom") {
            DI_TRY(auto tool, parse_custom(reader));
            request.conversation->tools.push_back(std::move(tool));
        } else if (type == "namespace") {
            DI_TRY_STATUS(add_namespace(reader, *request.conversation));
        } else {
            // Tools that run on OpenAI's side: the model is not told about them.
            request.ignored_tools.push_back(short_quoted(type));
        }
    }
    return {};
}

Status parse_message_tools(const JsonReader& body, const ToolRules& rules, Request& request) {
    Conversation& conversation = *request.conversation;
    DI_TRY(const auto* tools, body.array("tools", kToolsMax));
    bool has_direct_tool = false;
    for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
        DI_TRY(const auto reader, JsonReader::open((*tools)[i], item_path(body.path_of("tools"), i)));
        DI_TRY(const auto type, reader.string_or("type", "custom"));
        if (type != "custom" && rules.drops_server_tools) {
            request.ignored_tools.push_back(short_quoted(type));
            continue;
        }
        if (type != "custom") {
            return fail(ErrorCode::kInvalidArgument,
                        "{}: {}, server tools are not supported, expected a tool with input_schema", reader.path_of("type"),
                        short_quoted(type));
        }
        DI_TRY(auto tool, parse_function(reader, "input_schema"));
        DI_TRY(const bool is_deferred, reader.boolean_or("defer_loading", false));
        has_direct_tool = has_direct_tool || !is_deferred;
        conversation.tools.push_back(std::move(tool));
    }
    if (!conversation.tools.empty() && !has_direct_tool) {
        return fail(ErrorCode::kInvalidArgument, "tools: all have defer_loading, expected at least one without");
    }
    return {};
}

// A tool named by a choice: {"type": "function", "function": {"name": ...}} in chat,
// {"type": "function", "name": ..., "namespace"?: ...} in Responses.
Result<std::string> parse_named_tool(const JsonReader& choice, const std::string& type, Dialect dialect) {
    if (dialect == Dialect::kChat) {
        DI_TRY(const auto named, choice.required_object(type));
        return named.required_string("name");
    }
    DI_TRY(auto name, choice.required_string("name"));
    DI_TRY(const auto name_space, choice.string_or("namespace", ""));
    return name_space.empty() ? std::move(name) : namespaced_name(name_space, name);
}

Status parse_allowed_tools(const JsonReader& choice, Dialect dialect, ToolChoice& result) {
    DI_TRY(const auto nested, choice.object("allowed_tools"));
    const JsonReader& allowed = nested ? *nested : choice;
    DI_TRY(const auto mode, allowed.string_or("mode", "auto"));
    if (mode != "auto" && mode != "required") {
        return allowed.wrong("mode", "auto or required");
    }
    result.kind = mode == "required" ? ToolChoice::Kind::kRequired : ToolChoice::Kind::kAuto;
    DI_TRY(const auto* tools, allowed.array("tools", kToolsMax));
    if (tools == nullptr || tools->empty()) {
        return allowed.wrong("tools", "a list of at least one tool");
    }
    for (size_t i = 0; i < tools->size(); ++i) {
        DI_TRY(const auto reader, JsonReader::open((*tools)[i], item_path(allowed.path_of("tools"), i)));
        DI_TRY(const auto type, reader.string_or("type", "function"));
        if (type == "function" || type == "custom") {
            DI_TRY(auto name, parse_named_tool(reader, type, dialect));
            result.allowed_names.push_back(std::move(name));
        }
    }
    if (result.allowed_names.empty()) {  // only tools that we do not run
        result.kind = ToolChoice::Kind::kNone;
    }
    return {};
}

Status parse_choice_word(const JsonReader& body, std::string_view key, ToolChoice& result) {
    const std::string& word = body.find(key)->as_string();
    if (word == "none") {
        result.kind = ToolChoice::Kind::kNone;
    } else if (word == "required") {
        result.kind = ToolChoice::Kind::kRequired;
    } else if (word != "auto") {
        return body.wrong(key, "none, auto, required or a tool");
    }
    return {};
}

Status parse_openai_choice(const JsonReader& body, Dialect dialect, ToolChoice& result) {
    const JsonValue* value = body.find("tool_choice");
    if (value == nullptr) {
        return {};
    }
    if (value->is_string()) {
        return parse_choice_word(body, "tool_choice", result);
    }
    if (!value->is_object()) {
        return body.wrong("tool_choice", "none, auto, required or a tool");
    }
    DI_TRY(const auto choice, JsonReader::open(*value, body.path_of("tool_choice")));
    DI_TRY(const auto type, choice.required_string("type"));
    if (type == "allowed_tools") {
        return parse_allowed_tools(choice, dialect, result);
    }
    if (type == "function" || type == "custom") {
        DI_TRY(auto name, parse_named_tool(choice, type, dialect));
        result = {.kind = ToolChoice::Kind::kRequired, .allowed_names = {std::move(name)}};
        return {};
    }
    if (dialect == Dialect::kResponses && type.starts_with("web_search")) {
        return {};  // a tool that we leave out cannot be forced
    }
    return choice.wrong("type", "function, custom or allowed_tools");
}

// `function_call`: "none", "auto" or {"name": ...}; only read when `tool_choice` is absent.
Status parse_old_choice(const JsonReader& body, ToolChoice& result) {
    const JsonValue* value = body.find("function_call");
    if (value == nullptr || body.has("tool_choice")) {
        return {};
    }
    if (value->is_string()) {
        return parse_choice_word(body, "function_call", result);
    }
    DI_TRY(const auto choice, JsonReader::open(*value, body.path_of("function_call")));
    DI_TRY(auto name, choice.required_string("name"));
    result = {.kind = ToolChoice::Kind::kRequired, .allowed_names = {std::move(name)}};
    return {};
}

Status parse_message_choice(const JsonReader& body, Request& request) {
    DI_TRY(const auto choice, body.object("tool_choice"));
    if (!choice) {
        return {};
    }
    ToolChoice& result = request.conversation->tool_choice;
    DI_TRY(const auto type, choice->required_string("type"));
    if (type == "tool") {
        DI_TRY(auto name, choice->required_string("name"));
        result = {.kind = ToolChoice::Kind::kRequired, .allowed_names = {std::move(name)}};
    } else if (type == "any") {
        result.kind = ToolChoice::Kind::kRequired;
    } else if (type == "none") {
        result.kind = ToolChoice::Kind::kNone;
    } else if (type != "auto") {
        return choice->wrong("type", "auto, any, tool or none");
    }
    DI_TRY(const bool is_single, choice->boolean_or("disable_parallel_tool_use", false));
    request.allows_parallel_calls = !is_single;
    return {};
}

Status check_sizes(const Conversation& conversation) {
    if (conversation.tools.size() > kToolsMax) {  // namespaces multiply
        return fail(ErrorCode::kInvalidArgument, "tools: {} tools, expected at most {}", conversation.tools.size(), kToolsMax);
    }
    size_t schema_bytes = 0;
    for (const Tool& tool : conversation.tools) {
        schema_bytes += json_text(tool.parameters).size();
    }
    if (schema_bytes > kToolSchemaBytesMax) {
        return fail(ErrorCode::kInvalidArgument, "tools: {} bytes of schemas, expected at most {}", schema_bytes,
                    kToolSchemaBytesMax);
    }
    return {};
}

}  // namespace

Status parse_tool_fields(const JsonReader& body, Request& request, const ToolRules& rules) {
    Conversation& conversation = *request.conversation;
    if (request.dialect == Dialect::kMessages) {
        DI_TRY_STATUS(parse_message_tools(body, rules, request));
        DI_TRY_STATUS(parse_message_choice(body, request));
    } else {
        if (request.dialect == Dialect::kResponses) {
            DI_TRY_STATUS(parse_response_tools(body, request));
        } else {
            DI_TRY_STATUS(parse_chat_tools(body, conversation));
            DI_TRY_STATUS(parse_old_choice(body, conversation.tool_choice));
        }
        DI_TRY_STATUS(parse_openai_choice(body, request.dialect, conversation.tool_choice));
        DI_TRY(request.allows_parallel_calls, body.boolean_or("parallel_tool_calls", true));
    }
    if (conversation.tools.empty()) {
        conversation.tool_choice = {};
    }
    return check_sizes(conversation);
}

std::string namespaced_name(std::string_view name_space, std::string_view name) {
    return fmt::format("{}{}{}", name_space, kNamespaceJoint, name);
}

std::string custom_tool_arguments(std::string_view input) {
    return json_text(JsonValue::object({{.key = "input", .value = JsonValue::string(std::string(input))}}));
}

}  // namespace di
