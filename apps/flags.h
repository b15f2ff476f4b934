#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/options.h"
#include "base/result.h"

// The command line as words, taken apart by CLI11 and by nothing else; values stay text. What a text
// means is decided in one place for all sources (option_table.h).
namespace di {

struct Flag {
    std::string name;        // "--max-tokens", or "PROMPT" for a positional argument
    std::string value_name;  // shown by help: "N"; empty for a switch
    std::string help;
    bool takes_many = false;  // may be repeated
    bool is_required = false;
    bool may_be_negated = false;  // a switch that is on: --no-NAME turns it off
};

struct CommandFlags {
    Command command;
    std::string name;
    std::string help;
    std::vector<Flag> flags;
};

// A flag that was given, with its values in order ("true" for a switch).
struct GivenFlag {
    std::string name;
    std::vector<std::string> values;
};

struct GivenCommand {
    std::optional<Command> command;  // none: `text` is to be printed
    std::vector<GivenFlag> flags;
    std::string text;  // help or version
};

// Errors name the word that was not understood.
[[nodiscard]] Result<GivenCommand> parse_command_line(const std::vector<std::string>& arguments,
                                                      const std::vector<CommandFlags>& commands, std::string_view version);

}  // namespace di
