#include "apps/flags.h"

#include <algorithm>
#include <deque>
#include <exception>

#include <CLI/CLI.hpp>

namespace di {
namespace {

// What CLI11 writes into; addresses must not move.
struct Slot {
    const Flag* flag = nullptr;
    CLI::Option* option = nullptr;
    std::vector<std::string> values;
    bool is_set = false;
};

CLI::Option* add_flag(CLI::App& app, const Flag& flag, Slot& slot) {
    if (flag.value_name.empty()) {
        const std::string names =
            flag.may_be_negated ? fmt::format("{},!--no-{}", flag.name, std::string_view(flag.name).substr(2)) : flag.name;
        return app.add_flag(names, slot.is_set, flag.help);
    }
    CLI::Option* option = app.add_option(flag.name, slot.values, flag.help);
    option->type_name(flag.name.starts_with("--") ? flag.value_name : "");
    // One value per occurrence, so that `--stop a PROMPT` does not swallow the prompt.
    option->expected(1);
    option->allow_extra_args(false);
    if (flag.takes_many) {
        option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    } else {
        option->multi_option_policy(CLI::MultiOptionPolicy::Throw);
    }
    if (flag.is_required) {
        option->required();
    }
    return option;
}

std::string first_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    while (!text.empty() && (text.back() == ' ' || text.back() == '.')) {
        text.pop_back();
    }
    return text;
}

std::string names_of(const std::vector<CommandFlags>& commands) {
    std::string names;
    for (const CommandFlags& command : commands) {
        names += names.empty() ? command.name : ", " + command.name;
    }
    return names;
}

struct AppCommand {
    const CommandFlags* flags = nullptr;
    CLI::App* app = nullptr;
    std::deque<Slot> slots;
};

void add_command(CLI::App& program, AppCommand& command) {
    command.app = program.add_subcommand(command.flags->name, command.flags->help);
    for (const Flag& flag : command.flags->flags) {
        Slot& slot = command.slots.emplace_back();
        slot.flag = &flag;
        slot.option = add_flag(*command.app, flag, slot);
    }
}

GivenCommand given_of(const AppCommand& command) {
    GivenCommand given;
    given.command = command.flags->command;
    for (const Slot& slot : command.slots) {
        if (slot.option->count() == 0) {
            continue;
        }
        given.flags.push_back({slot.flag->name, slot.flag->value_name.empty()
                                                    ? std::vector<std::string>{slot.is_set ? "true" : "false"}
                                                    : slot.values});
    }
    return given;
}

// A message in our form for what CLI11 found.
Error usage_error(const CLI::ParseError& error, const std::vector<std::string>& arguments,
                  const std::vector<CommandFlags>& commands) {
    const bool knows_command =
        !arguments.empty() && std::any_of(commands.begin(), commands.end(),
                                          [&](const CommandFlags& command) { return command.name == arguments.front(); });
    if (!arguments.empty() && !knows_command && !arguments.front().starts_with("-")) {
        return {ErrorCode::kInvalidArgument,
                fmt::format("unknown sub-command \"{}\", expected one of {}", arguments.front(), names_of(commands))};
    }
    return {ErrorCode::kInvalidArgument,
            fmt::format("{}; see deepinfer{} --help", first_line(error.what()), knows_command ? " " + arguments.front() : "")};
}

}  // namespace

Result<GivenCommand> parse_command_line(const std::vector<std::string>& arguments, const std::vector<CommandFlags>& commands,
                                        std::string_view version) {
    CLI::App program("Runs DeepSeek-V4.1 models", "deepinfer");
    program.set_version_flag("--version", std::string(version));
    program.require_subcommand(1);
    std::deque<AppCommand> apps;
    for (const CommandFlags& command : commands) {
        apps.push_back({.flags = &command, .app = nullptr, .slots = {}});
        add_command(program, apps.back());
    }
    if (arguments.empty()) {
        return fail(ErrorCode::kInvalidArgument, "no sub-command, expected one of {}; see deepinfer --help",
                    names_of(commands));
    }
    try {
        // CLI11 takes its words from the end.
        program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
        for (const AppCommand& command : apps) {
            if (command.app->parsed()) {
                return GivenCommand{.command = {}, .flags = {}, .text = command.app->help()};
            }
        }
        return GivenCommand{.command = {}, .flags = {}, .text = program.help()};
    } catch (const CLI::CallForVersion&) {
        return GivenCommand{.command = {}, .flags = {}, .text = std::string(version) + "\n"};
    } catch (const CLI::ParseError& error) {
        return tl::unexpected<Error>(usage_error(error, arguments, commands));
    } catch (const std::exception& error) {
        return fail(ErrorCode::kInternal, "command line: {}", error.what());
    }
    for (const AppCommand& command : apps) {
        if (command.app->parsed()) {
            return given_of(command);
        }
    }
    return fail(ErrorCode::kInvalidArgument, "no sub-command, expected one of {}", names_of(commands));
}

}  // namespace di
