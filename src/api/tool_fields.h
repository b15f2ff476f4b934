#pragma once

#include <string>
#include <string_view>

#include "api/json_reader.h"
#include "api/request.h"

namespace di {

// Reads `tools`, `tool_choice` and what belongs to them into request.conversation, in the spelling
// of request.dialect. A forced choice without tools counts as auto. Names and sizes are checked here,
// schemas and the uniqueness of names by check_conversation().
struct ToolRules {
    bool drops_server_tools = false;  // Messages: tools that run elsewhere are left out instead of refused
};
[[nodiscard]] Status parse_tool_fields(const JsonReader& body, Request& request, const ToolRules& rules = {});

// The name under which the model sees a tool of a Responses namespace: "namespace::name".
inline constexpr std::string_view kNamespaceJoint = "::";
[[nodiscard]] std::string namespaced_name(std::string_view name_space, std::string_view name);

// Arguments of a call of a custom (free text) tool, which the model sees as a function with one
// string parameter `input`.
[[nodiscard]] std::string custom_tool_arguments(std::string_view input);

}  // namespace di
