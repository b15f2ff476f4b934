#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/engine_setup.h"
#include "apps/options.h"
#include "base/log.h"
#include "session/environment.h"

namespace {

int dispatch(const di::ParsedOptions& parsed) {
    switch (parsed.command) {
        case di::Command::kRun: return di::run_command(parsed.options);
        case di::Command::kChat: return di::chat_command(parsed.options);
        case di::Command::kInspect: return di::inspect_command(parsed.options);
        case di::Command::kLogits: return di::logits_command(parsed.options);
        case di::Command::kDoctor: return di::doctor_command(parsed.options);
        case di::Command::kServe: return di::serve_command(parsed.options);
        case di::Command::kBench: return di::bench_command(parsed.options);
        case di::Command::kRecipe: return di::recipe_command(parsed.options);
    }
    return di::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    const auto outcome = di::parse_options(arguments, di::deepinfer_environment());
    if (!outcome) {
        di::print_error(outcome.error());
        return di::kExitUsage;
    }
    if (!outcome->parsed) {
        std::fputs(outcome->text.c_str(), stdout);
        return outcome->exit_code;
    }
    if (const auto set = di::set_log_level(outcome->parsed->options.log_level); !set) {
        di::print_error(set.error());
        return di::kExitUsage;
    }
    for (const std::string& warning : outcome->parsed->warnings) {
        di::log_warning("{}", warning);
    }
    for (const std::string& origin : outcome->parsed->origins) {
        di::log_debug("option {}", origin);
    }
    const int code = dispatch(*outcome->parsed);
    // A full disk or a closed pipe must not look like success.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
        di::print_error("cannot write to standard output");
        return code == di::kExitOk ? di::kExitRequestFailed : code;
    }
    return code;
}
