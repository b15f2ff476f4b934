#include "apps/option_table.h"

#include <algorithm>

#include "session/settings.h"

namespace di {
namespace {

constexpr uint32_t bit(Command command) { return 1U << static_cast<uint32_t>(command); }

constexpr uint32_t kRun = bit(Command::kRun);
constexpr uint32_t kChat = bit(Command::kChat);
constexpr uint32_t kInspect = bit(Command::kInspect);
constexpr uint32_t kLogits = bit(Command::kLogits);
constexpr uint32_t kDoctor = bit(Command::kDoctor);
constexpr uint32_t kBench = bit(Command::kBench);
constexpr uint32_t kServe = bit(Command::kServe);
constexpr uint32_t kRecipe = bit(Command::kRecipe);
constexpr uint32_t kText = kRun | kChat;
constexpr uint32_t kEngine = kRun | kChat | kLogits | kBench | kInspect | kServe;
constexpr uint32_t kAll = kEngine | kDoctor;

const OptionRow kRows[] = {
    // What to do.
    {.name = "PROMPT",
     .value_name = "PROMPT",
     .help = "text to continue",
     .commands = kRun,
     .target = &Options::prompt,
     .may_stand_in_file = false},
    {.name = "M",
     .value_name = "M",
     .help = "model directory, .gguf file, or a bare config.json",
     .commands = kInspect,
     .target = &Options::subject,
     .may_stand_in_file = false},
    {.name = "NAME",
     .value_name = "NAME",
     .help = "latency, throughput, sweep or limits",
     .commands = kBench,
     .target = &Options::subject,
     .is_required = true,
     .may_stand_in_file = false},
    {.name = "WHAT",
     .value_name = "WHAT",
     .help = "encode (a request to a prompt) or decode (an output to an answer)",
     .commands = kRecipe,
     .target = &Options::subject,
     .is_required = true,
     .may_stand_in_file = false},
    {.name = "dialect",
     .value_name = "D",
     .help = "whose request it is (default chat)",
     .commands = kRecipe,
     .target = &Options::dialect,
     .choices = "chat|responses|messages",
     .may_stand_in_file = false},
    {.name = "input",
     .value_name = "F",
     .help = "file with the JSON (default: standard input)",
     .commands = kRecipe,
     .target = &Options::input,
     .may_stand_in_file = false},
    {.name = "stream",
     .value_name = "",
     .help = "decode: the events of a stream instead of the body",
     .commands = kRecipe,
     .target = &Options::stream,
     .may_stand_in_file = false},
    {.name = "prompts",
     .value_name = "F",
     .help = "file of prompts, one JSON object a line; - is standard input",
     .commands = kRun | kBench,
     .target = &Options::prompts,
     .may_stand_in_file = false},
    {.name = "chat", .value_name = "", .help = "the prompt is a user's message", .commands = kRun, .target = &Options::chat},
    {.name = "image",
     .value_name = "F",
     .help = "image of the prompt (PNG, JPEG, WebP); may be repeated",
     .commands = kRun,
     .target = &Options::image,
     .may_stand_in_file = false},
    {.name = "tokens",
     .value_name = "IDS",
     .help = "token ids: 1,2,3",
     .commands = kLogits,
     .target = &Options::tokens,
     .may_stand_in_file = false},
    {.name = "tokens-file",
     .value_name = "F",
     .help = "file with a JSON array of token ids",
     .commands = kLogits,
     .target = &Options::tokens_file,
     .may_stand_in_file = false},
    {.name = "out",
     .value_name = "F",
     .help = "safetensors file to write: logits, f32 [rows, vocab]",
     .commands = kLogits,
     .target = &Options::out,
     .is_required = true,
     .may_stand_in_file = false},
    {.name = "all-rows",
     .value_name = "",
     .help = "logits of every position, not only of the last",
     .commands = kLogits,
     .target = &Options::all_rows,
     .may_stand_in_file = false},
    {.name = "chunk",
     .value_name = "N",
     .help = "rows of a prefill step",
     .commands = kLogits,
     .target = &Options::chunk,
     .lowest = 1,
     .may_stand_in_file = false},
    {.name = "json",
     .value_name = "",
     .help = "print JSON",
     .commands = kRun | kInspect | kDoctor | kBench,
     .target = &Options::json,
     .may_stand_in_file = false},
    {.name = "plot",
     .value_name = "F",
     .help = "refused: examples/sweep/plot.py draws the JSON of bench sweep",
     .commands = kBench,
     .target = &Options::plot,
     .may_stand_in_file = false},
    {.name = "config",
     .value_name = "F",
     .help = "JSON file with the same names as these flags",
     .commands = kAll,
     .target = &Options::config,
     .may_stand_in_file = false},
    // Sampling.
    {.name = "max-tokens",
     .value_name = "N",
     .help = "longest answer (default 256)",
     .commands = kText,
     .target = &Options::max_tokens},
    {.name = "temperature",
     .value_name = "T",
     .help = "0 takes the likeliest token (default: the model's; bench: 0)",
     .commands = kText | kBench,
     .target = &Options::temperature,
     .highest = 1e6},
    {.name = "top-p",
     .value_name = "P",
     .help = "likeliest tokens of this share, in (0, 1]",
     .commands = kText,
     .target = &Options::top_p,
     .highest = 1.0,
     .excludes_lowest = true},
    {.name = "top-k",
     .value_name = "K",
     .help = "this many likeliest tokens; -1 or 0: all",
     .commands = kText,
     .target = &Options::top_k,
     .lowest = -1},
    {.name = "stop",
     .value_name = "S",
     .help = "text that ends the answer; may be repeated",
     .commands = kText,
     .target = &Options::stop},
    {.name = "json-schema",
     .value_name = "F",
     .help = "answer is JSON of a schema: a file, or the schema itself",
     .commands = kRun,
     .target = &Options::json_schema,
     .may_stand_in_file = false},
    {.name = "regex",
     .value_name = "R",
     .help = "answer is a match of a regular expression",
     .commands = kRun,
     .target = &Options::regex,
     .may_stand_in_file = false},
    {.name = "grammar",
     .value_name = "F",
     .help = "answer follows an EBNF grammar: a file, or the grammar itself",
     .commands = kRun,
     .target = &Options::grammar,
     .may_stand_in_file = false},
    // Benchmarks.
    {.name = "prompt-tokens",
     .value_name = "N",
     .help = "bench latency: length of the prompt (default 512)",
     .commands = kBench,
     .target = &Options::prompt_tokens,
     .lowest = 1,
     .may_stand_in_file = false},
    {.name = "output-tokens",
     .value_name = "N",
     .help = "bench latency: decoded tokens of a run (default 64)",
     .commands = kBench,
     .target = &Options::output_tokens,
     .lowest = 1,
     .may_stand_in_file = false},
    {.name = "repeat",
     .value_name = "N",
     .help = "bench latency: runs, of which the median counts (default 5)",
     .commands = kBench,
     .target = &Options::repeat,
     .lowest = 5,
     .highest = 1000,
     .may_stand_in_file = false},
    {.name = "prompts-count",
     .value_name = "N",
     .help = "bench throughput: requests (default 32); bench sweep: of each point (default 4 for each in flight, at least 16)",
     .commands = kBench,
     .target = &Options::prompts_count,
     .lowest = 1,
     .highest = 1e6,
     .may_stand_in_file = false},
    {.name = "input-len",
     .value_name = "N",
     .help = "bench throughput, sweep: mean length of made-up prompts (default 256)",
     .commands = kBench,
     .target = &Options::input_len,
     .lowest = 1,
     .may_stand_in_file = false},
    {.name = "output-len",
     .value_name = "N",
     .help = "bench throughput, sweep: mean length of answers (default 128)",
     .commands = kBench,
     .target = &Options::output_len,
     .lowest = 1,
     .may_stand_in_file = false},
    {.name = "length-spread",
     .value_name = "X",
     .help = "bench throughput, sweep: lengths lie within this share of the mean around it (default 0.5)",
     .commands = kBench,
     .target = &Options::length_spread,
     .highest = 1.0,
     .may_stand_in_file = false},
    {.name = "concurrency",
     .value_name = "LIST",
     .help = "bench sweep: requests in flight: 1,2,4 (default 1,4,16)",
     .commands = kBench,
     .target = &Options::concurrency,
     .may_stand_in_file = false},
};

struct CommandName {
    Command command;
    std::string_view name;
    std::string_view help;
};

constexpr CommandName kCommands[] = {
    {Command::kRun, "run", "continues a prompt, or a file of prompts"},
    {Command::kChat, "chat", "talks to the model in the terminal"},
    {Command::kServe, "serve", "serves the model over HTTP: Chat Completions, Responses, Messages"},
    {Command::kInspect, "inspect", "shows config, tensors, cache geometry and memory plan of a model"},
    {Command::kLogits, "logits", "writes the logits of given token ids to a file"},
    {Command::kDoctor, "doctor", "shows what this machine has, what will be used and why"},
    {Command::kBench, "bench", "measures: latency, throughput, sweep, limits"},
    {Command::kRecipe, "recipe", "turns requests into prompts and outputs into answers, without a model"},
};

bool is_positional(const OptionRow& row) { return row.name.front() >= 'A' && row.name.front() <= 'Z'; }

// A member of Settings or ServeSettings is one of Options, which has them as its bases.
template <typename T>
T Options::*as_option(T Settings::*member) {
    return member;
}
template <typename T>
T Options::*as_option(T ServeSettings::*member) {
    return member;
}

// Who takes a setting of the model or the engine.
uint32_t commands_of(std::string_view setting) {
    if (setting == "model") {
        return kText | kLogits | kBench | kDoctor | kRecipe | kServe;  // inspect has it as its argument
    }
    if (setting == "tokenizer") {
        return kEngine | kRecipe;
    }
    return setting == "backend" || setting == "threads" || setting == "log-level" ? kAll : kEngine;
}

std::vector<OptionRow> all_rows() {
    std::vector<OptionRow> rows(std::begin(kRows), std::end(kRows));
    for (const SettingRow& setting : setting_rows()) {
        OptionRow& row = rows.emplace_back();
        row.name = setting.rule.name;
        row.value_name = setting.value_name;
        row.help = setting.help;
        row.commands = commands_of(setting.rule.name);
        row.target = std::visit([](auto member) -> OptionTarget { return as_option(member); }, setting.target);
        row.choices = setting.rule.choices;
        row.lowest = setting.rule.lowest;
        row.highest = setting.rule.highest;
        row.is_bytes = setting.rule.is_bytes;
        row.excludes_lowest = setting.rule.excludes_lowest;
        row.is_on = setting.is_on;
    }
    for (const ServeSettingRow& setting : serve_setting_rows()) {
        rows.push_back({.name = setting.rule.name,
                        .value_name = setting.value_name,
                        .help = setting.help,
                        .commands = kServe,
                        .target = std::visit([](auto member) -> OptionTarget { return as_option(member); }, setting.target),
                        .choices = setting.rule.choices,
                        .lowest = setting.rule.lowest,
                        .highest = setting.rule.highest,
                        .is_bytes = setting.rule.is_bytes,
                        .excludes_lowest = setting.rule.excludes_lowest,
                        .is_on = setting.is_on});
    }
    return rows;
}

}  // namespace

std::span<const OptionRow> option_rows() {
    static const std::vector<OptionRow> rows = all_rows();
    return rows;
}

const OptionRow* find_option(std::string_view name) {
    std::string wanted(name);
    std::replace(wanted.begin(), wanted.end(), '_', '-');
    const std::span<const OptionRow> rows = option_rows();
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const OptionRow& row) { return row.name == wanted; });
    return found == rows.end() ? nullptr : &*found;
}

std::vector<CommandFlags> command_flags() {
    std::vector<CommandFlags> commands;
    for (const CommandName& command : kCommands) {
        CommandFlags& flags = commands.emplace_back();
        flags.command = command.command;
        flags.name = command.name;
        flags.help = command.help;
        for (const OptionRow& row : option_rows()) {
            if ((row.commands & bit(command.command)) == 0) {
                continue;
            }
            flags.flags.push_back({.name = is_positional(row) ? std::string(row.name) : "--" + std::string(row.name),
                                   .value_name = std::string(row.value_name),
                                   .help = std::string(row.help),
                                   .takes_many = std::holds_alternative<std::vector<std::string> Options::*>(row.target),
                                   .is_required = row.is_required,
                                   .may_be_negated = row.is_on});
        }
    }
    return commands;
}

Status set_option(const OptionRow& row, const std::vector<std::string>& values, std::string_view where, Options& options) {
    return set_target<Options>({.name = row.name,
                                .choices = row.choices,
                                .lowest = row.lowest,
                                .highest = row.highest,
                                .is_bytes = row.is_bytes,
                                .excludes_lowest = row.excludes_lowest},
                               row.target, values, where, options);
}

}  // namespace di
