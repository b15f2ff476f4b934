#include "apps/options.h"

#include <nlohmann/json.hpp>

#include "apps/flags.h"
#include "apps/option_table.h"
#include "base/file_io.h"
#include "session/environment.h"

namespace di {
namespace {

// A configuration has a few dozen short values.
constexpr int64_t kConfigFileBytesMax = 1 << 20;

std::string joined(const std::vector<std::string>& values) {
    std::string text;
    for (const std::string& value : values) {
        text += text.empty() ? value : ", " + value;
    }
    return text;
}

Status apply(const OptionRow& row, const std::vector<std::string>& values, std::string_view where, std::string_view source,
             ParsedOptions& parsed) {
    DI_TRY_STATUS(set_option(row, values, where, parsed.options));
    parsed.origins.push_back(fmt::format("{} = {} ({})", row.name, joined(values), source));
    return {};
}

// The values of one key as text; nothing for a value that no option can have.
std::optional<std::vector<std::string>> texts_of(const nlohmann::ordered_json& value) {
    const nlohmann::ordered_json items = value.is_array() ? value : nlohmann::ordered_json::array({value});
    std::vector<std::string> texts;
    for (const auto& item : items) {
        if (item.is_string()) {
            texts.push_back(item.get<std::string>());
        } else if (item.is_number() || item.is_boolean()) {
            texts.push_back(item.dump());
        } else {
            return std::nullopt;
        }
    }
    return texts;
}

Status apply_file(const std::string& path, ParsedOptions& parsed) {
    DI_TRY(const std::string text, read_file(path, kConfigFileBytesMax));
    // The depth is looked at first: nothing in such a file nests deeper than a list.
    int depth = 0;
    for (const char c : text) {
        depth += c == '[' || c == '{' ? 1 : 0;
    }
    const auto file = depth > 1000 ? nlohmann::ordered_json(nlohmann::ordered_json::value_t::discarded)
                                   : nlohmann::ordered_json::parse(text, nullptr, false);
    if (file.is_discarded() || !file.is_object()) {
        return fail(ErrorCode::kInvalidArgument, "{}: not a JSON object, expected one with the names of the flags as keys",
                    path);
    }
    for (const auto& [key, value] : file.items()) {
        const OptionRow* row = find_option(key);
        if (row == nullptr || !row->may_stand_in_file) {
            parsed.warnings.push_back(fmt::format("{}: unknown key \"{}\"", path, key));
            continue;
        }
        const auto values = texts_of(value);
        if (!values) {
            return fail(ErrorCode::kInvalidArgument, "{}: {}: expected a text, a number, true, false or a list of them", path,
                        key);
        }
        DI_TRY_STATUS(apply(*row, *values, fmt::format("{}: {}", path, key), "file " + path, parsed));
    }
    return {};
}

Status apply_environment(const std::vector<std::pair<std::string, std::string>>& environment, ParsedOptions& parsed) {
    for (const auto& [name, value] : environment) {
        if (is_serve_variable(name)) {
            const ServeVariable variable = serve_variable(name, value);
            if (!variable.warning.empty()) {
                parsed.warnings.push_back(variable.warning);
            }
            if (variable.row != nullptr) {
                DI_TRY_STATUS(
                    apply(*find_option(variable.row->rule.name), variable.values, name, "environment " + name, parsed));
            }
            continue;
        }
        DI_TRY(const EnvironmentMeaning meaning, meaning_of(name, value));
        if (!meaning.warning.empty()) {
            parsed.warnings.push_back(meaning.warning);
        }
        if (meaning.setting != nullptr) {
            DI_TRY_STATUS(
                apply(*find_option(meaning.setting->rule.name), {meaning.value}, name, "environment " + name, parsed));
        }
    }
    return {};
}

Status apply_flags(const std::vector<GivenFlag>& flags, ParsedOptions& parsed) {
    for (const GivenFlag& flag : flags) {
        const std::string_view name =
            std::string_view(flag.name).starts_with("--") ? std::string_view(flag.name).substr(2) : flag.name;
        DI_TRY_STATUS(apply(*find_option(name), flag.values, flag.name, "flag", parsed));
    }
    return {};
}

}  // namespace

Result<ParseOutcome> parse_options(const std::vector<std::string>& arguments,
                                   const std::vector<std::pair<std::string, std::string>>& environment) {
    DI_TRY(const GivenCommand given, parse_command_line(arguments, command_flags(), "deepinfer " DI_VERSION));
    if (!given.command) {
        return ParseOutcome{.parsed = {}, .text = given.text};
    }
    ParsedOptions parsed{.command = *given.command, .options = {}, .origins = {}, .warnings = {}};
    for (const GivenFlag& flag : given.flags) {
        if (flag.name == "--config") {
            DI_TRY_STATUS(apply_file(flag.values.front(), parsed));
        }
    }
    DI_TRY_STATUS(apply_environment(environment, parsed));
    DI_TRY_STATUS(apply_flags(given.flags, parsed));
    return ParseOutcome{.parsed = std::move(parsed), .text = {}};
}

}  // namespace di
