#pragma once

#include <string_view>

#include "text/chat_encoding.h"

namespace di {

// What follows the marker in the tags of tool calls: `<｜DSML｜ calls>`, `<｜DSML｜ invoke name="NAME">`,
// `<｜DSML｜ parameter name="KEY" string="true|false">VALUE</｜DSML｜ parameter>`.
struct ToolTags {
    std::string_view block;
    std::string_view invoke;
    std::string_view parameter;
};

inline constexpr ToolTags kToolTagsV41 = {.block = " calls", .invoke = " invoke", .parameter = " parameter"};
inline constexpr ToolTags kToolTagsV4 = {.block = "tool_calls", .invoke = "invoke", .parameter = "parameter"};

inline const ToolTags& tool_tags(ChatDialect dialect) { return dialect == ChatDialect::kV41 ? kToolTagsV41 : kToolTagsV4; }

}  // namespace di
