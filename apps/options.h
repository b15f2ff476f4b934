#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/settings.h"
#include "session/settings.h"

// The one typed configuration of the program. A value comes from, strongest first: a flag, the
// environment, the file of --config, the default written here.
namespace di {

enum class Command : uint8_t { kRun, kChat, kInspect, kLogits, kDoctor, kBench, kRecipe, kServe };

struct Options : Settings, ServeSettings {
    // What to do.
    std::optional<std::string> prompt;   // run: PROMPT
    std::string subject;                 // inspect: M; bench: the benchmark's name; recipe: encode or decode
    std::optional<std::string> prompts;  // run, bench: file of JSON lines, "-" for standard input
    bool chat = false;
    std::vector<std::string> image;
    std::optional<std::string> tokens;       // logits: "1,2,3"
    std::optional<std::string> tokens_file;  // logits: JSON array
    std::optional<std::string> out;
    bool all_rows = false;
    std::optional<int64_t> chunk;  // logits: rows of a prefill step
    bool json = false;
    std::optional<std::string> config;

    // Sampling; absent: what the model's authors advise.
    std::optional<int64_t> max_tokens;
    std::optional<double> temperature;
    std::optional<double> top_p;
    std::optional<int64_t> top_k;
    std::vector<std::string> stop;
    std::optional<std::string> json_schema;
    std::optional<std::string> regex;
    std::optional<std::string> grammar;

    // recipe
    std::string dialect = "chat";
    std::string input = "-";
    bool stream = false;

    // bench
    std::optional<int64_t> prompt_tokens;
    std::optional<int64_t> output_tokens;
    std::optional<int64_t> repeat;
    std::optional<int64_t> prompts_count;
    std::optional<int64_t> input_len;   // mean
    std::optional<int64_t> output_len;  // mean
    std::optional<double> length_spread;
    std::optional<std::string> concurrency;  // "1,4,16"
    std::optional<std::string> plot;
};

struct ParsedOptions {
    Command command = Command::kRun;
    Options options;
    // Where each value that is not a default came from, for --log-level debug: "threads = 2 (environment)".
    std::vector<std::string> origins;
    // Unknown environment names and file keys, and known ones that this version cannot honour.
    std::vector<std::string> warnings;
};

// Either what to do, or a text to print and an exit code (help, version).
struct ParseOutcome {
    std::optional<ParsedOptions> parsed;
    std::string text;
    int exit_code = 0;
};

// Arguments without the program's name. `environment` holds the pairs that begin with DEEPINFER_. Errors are usage
// errors (exit code 2).
[[nodiscard]] Result<ParseOutcome> parse_options(const std::vector<std::string>& arguments,
                                                 const std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace di
