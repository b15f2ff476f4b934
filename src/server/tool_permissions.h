#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// Which tools the requests of a key may offer to the model (docs/serving.md).
namespace di {

// Whether `pattern`, in which each * stands for any characters, matches the whole text.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

struct ToolRule {
    std::string key_pattern;
    std::vector<std::string> tool_patterns;
};

// The rules of --tools-allow. A value type: reading the file again makes another.
class ToolPermissions {
  public:
    ToolPermissions() = default;  // no file: anything is allowed
    // The error names line and field.
    [[nodiscard]] static Result<ToolPermissions> open(const std::string& path);
    [[nodiscard]] static Result<ToolPermissions> parse(std::string_view text, std::string_view name);

    // `key_name` is "" where there are no keys.
    [[nodiscard]] bool allows(std::string_view key_name, std::string_view tool) const;

  private:
    std::optional<std::vector<ToolRule>> rules_;
};

// The first of `tools` that a request may not offer, or nothing. `allowed` are the patterns of the key itself, nothing if it has none.
[[nodiscard]] std::optional<std::string> refused_tool(const ToolPermissions& permissions, std::string_view key_name,
                                                      const std::optional<std::vector<std::string>>& allowed,
                                                      std::span<const std::string> tools);

}  // namespace di
