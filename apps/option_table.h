#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/flags.h"
#include "apps/options.h"
#include "session/option_row.h"

// Every option of the program: those of a command, and the settings of model and engine (session/settings.h).
namespace di {

using OptionTarget = OptionTargetOf<Options>;

struct OptionRow {
    std::string_view name;        // "max-tokens"; positional arguments are written in capitals
    std::string_view value_name;  // "N"; empty for a switch
    std::string_view help;
    uint32_t commands = 0;  // bit 1 << Command of those that take it
    OptionTarget target;
    std::string_view choices = {};  // "auto|dummy"; empty: any text
    double lowest = 0.0;            // of numbers
    double highest = static_cast<double>(std::numeric_limits<int32_t>::max());
    bool is_bytes = false;  // "512MiB", "2GB" or a plain number
    bool excludes_lowest = false;
    bool is_on = false;  // a switch that is on unless --no-NAME is given
    bool is_required = false;
    bool may_stand_in_file = true;  // false: belongs to one call, not to a configuration
};

[[nodiscard]] std::span<const OptionRow> option_rows();
// nullptr if there is none. Both "max-tokens" and "max_tokens" are found.
[[nodiscard]] const OptionRow* find_option(std::string_view name);

// The command line as flags.h wants it.
[[nodiscard]] std::vector<CommandFlags> command_flags();

// Checks the values and puts them into `options`, replacing what was there. `where` begins the message: "--top-p",
// "DEEPINFER_THREADS".
[[nodiscard]] Status set_option(const OptionRow& row, const std::vector<std::string>& values, std::string_view where,
                                Options& options);

}  // namespace di
