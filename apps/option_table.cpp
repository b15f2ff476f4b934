#include "apps/option_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

namespace di {
namespace {

constexpr uint32_t bit(Command command) { return 1U << static_cast<uint32_t>(command); }

constexpr uint32_t kRun = bit(Command::kRun);
constexpr uint32_t kChat = bit(Command::kChat);
constexpr uint32_t kInspect = bit(Command::kInspect);
constexpr uint32_t kLogits = bit(Command::kLogits);
constexpr uint32_t kDoctor = bit(Command::kDoctor);
constexpr uint32_t kBench = bit(Command::kBench);
constexpr uint32_t kText = kRun | kChat;
constexpr uint32_t kEngine = kRun | kChat | kLogits | kBench | kInspect;
constexpr uint32_t kAll = kEngine | kDoctor;

constexpr double kBytesMax = 9e18;

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
     .help = "model directory, or a bare config.json",
     .commands = kInspect,
     .target = &Options::subject,
     .may_stand_in_file = false},
    {.name = "NAME",
     .value_name = "NAME",
     .help = "latency or limits",
     .commands = kBench,
     .target = &Options::subject,
     .is_required = true,
     .may_stand_in_file = false},
    {.name = "prompts",
     .value_name = "F",
     .help = "file of prompts, one JSON object a line; - is standard input",
     .commands = kRun,
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
     .help = "picture of the result (not in this version)",
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
     .help = "0 takes the likeliest token (default: the model's)",
     .commands = kText,
     .target = &Options::temperature,
     .highest = 1e6},
    {.name = "top-p",
     .value_name = "P",
     .help = "likeliest tokens of this share, in (0, 1]",
     .commands = kText,
     .target = &Options::top_p,
     .highest = 1.0},
    {.name = "top-k",
     .value_name = "K",
     .help = "this many likeliest tokens; -1 or 0: all",
     .commands = kText,
     .target = &Options::top_k,
     .lowest = -1},
    {.name = "seed",
     .value_name = "S",
     .help = "same seed, same answer; also of dummy weights",
     .commands = kEngine,
     .target = &Options::seed},
    {.name = "stop",
     .value_name = "S",
     .help = "text that ends the answer; may be repeated",
     .commands = kText,
     .target = &Options::stop},
    {.name = "json-schema",
     .value_name = "F",
     .help = "answer follows a schema (not in this version)",
     .commands = kRun,
     .target = &Options::json_schema,
     .may_stand_in_file = false},
    {.name = "regex",
     .value_name = "R",
     .help = "answer matches an expression (not in this version)",
     .commands = kRun,
     .target = &Options::regex,
     .may_stand_in_file = false},
    {.name = "grammar",
     .value_name = "F",
     .help = "answer follows a grammar (not in this version)",
     .commands = kRun,
     .target = &Options::grammar,
     .may_stand_in_file = false},
    {.name = "drafts",
     .value_name = "K",
     .help = "drafted tokens a round; only 0 in this version",
     .commands = kText,
     .target = &Options::drafts,
     .highest = 64},
    // Model and engine.
    {.name = "model",
     .value_name = "M",
     .help = "model directory (default: DEEPINFER_HF_MODEL_DIR, else the embedded v41-mini)",
     .commands = kText | kLogits | kBench | kDoctor,
     .target = &Options::model},
    {.name = "backend",
     .value_name = "B",
     .help = "auto, cpu, cuda or ref",
     .commands = kAll,
     .target = &Options::backend,
     .choices = "auto|cpu|cuda|ref"},
    {.name = "threads",
     .value_name = "N",
     .help = "threads of the cpu backend (default: all usable cores)",
     .commands = kAll,
     .target = &Options::threads,
     .lowest = 1,
     .highest = 1024},
    {.name = "load-format",
     .value_name = "F",
     .help = "auto, or dummy: random weights",
     .commands = kEngine,
     .target = &Options::load_format,
     .choices = "auto|dummy"},
    {.name = "activations",
     .value_name = "A",
     .help = "intermediate results in f32 or bf16 (default f32)",
     .commands = kEngine,
     .target = &Options::activations,
     .choices = "f32|bf16"},
    {.name = "kv-quant",
     .value_name = "Q",
     .help = "cache formats: reference or off (f32)",
     .commands = kEngine,
     .target = &Options::kv_quant,
     .choices = "reference|off"},
    {.name = "act-quant",
     .value_name = "Q",
     .help = "quantised inputs of linears: none or fp8",
     .commands = kEngine,
     .target = &Options::act_quant,
     .choices = "none|fp8"},
    {.name = "replay",
     .value_name = "R",
     .help = "prompt rows of the layers behind the YoCo split: off, mask, compact or exact",
     .commands = kEngine,
     .target = &Options::replay,
     .choices = "off|mask|compact|exact"},
    {.name = "replay-keep",
     .value_name = "N",
     .help = "prompt rows kept by --replay compact",
     .commands = kEngine,
     .target = &Options::replay_keep},
    {.name = "max-model-len",
     .value_name = "N",
     .help = "longest prompt and answer together, in tokens",
     .commands = kEngine,
     .target = &Options::max_model_len,
     .lowest = 1},
    {.name = "max-num-seqs",
     .value_name = "N",
     .help = "sequences of a step",
     .commands = kEngine,
     .target = &Options::max_num_seqs,
     .lowest = 1},
    {.name = "max-num-batched-tokens",
     .value_name = "N",
     .help = "rows of a step",
     .commands = kEngine,
     .target = &Options::max_num_batched_tokens,
     .lowest = 1},
    {.name = "kv-memory",
     .value_name = "BYTES",
     .help = "cache blocks: 512MiB, 2GB",
     .commands = kEngine,
     .target = &Options::kv_memory,
     .lowest = 1,
     .highest = kBytesMax,
     .is_bytes = true},
    {.name = "weights-memory",
     .value_name = "BYTES",
     .help = "most memory for resident weights",
     .commands = kEngine,
     .target = &Options::weights_memory,
     .lowest = 1,
     .highest = kBytesMax,
     .is_bytes = true},
    {.name = "gpu-memory",
     .value_name = "BYTES",
     .help = "device memory (cuda backend)",
     .commands = kEngine,
     .target = &Options::gpu_memory,
     .lowest = 1,
     .highest = kBytesMax,
     .is_bytes = true},
    {.name = "log-level",
     .value_name = "L",
     .help = "debug, info, warning or error",
     .commands = kAll,
     .target = &Options::log_level,
     .choices = "debug|info|warning|error"},
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
};

struct CommandName {
    Command command;
    std::string_view name;
    std::string_view help;
};

constexpr CommandName kCommands[] = {
    {Command::kRun, "run", "continues a prompt, or a file of prompts"},
    {Command::kChat, "chat", "talks to the model in the terminal"},
    {Command::kInspect, "inspect", "shows config, tensors, cache geometry and memory plan of a model"},
    {Command::kLogits, "logits", "writes the logits of given token ids to a file"},
    {Command::kDoctor, "doctor", "shows what this machine has, what will be used and why"},
    {Command::kBench, "bench", "measures: latency, limits"},
};

bool is_positional(const OptionRow& row) { return row.name.front() >= 'A' && row.name.front() <= 'Z'; }

template <typename T>
std::optional<T> parse_number(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
        return std::nullopt;
    }
    return value;
}

std::string plain_number(double value) {
    return std::abs(value) < 1e15 && value == std::floor(value) ? fmt::format("{}", static_cast<int64_t>(value))
                                                                : fmt::format("{}", value);
}

std::string choices_text(std::string_view choices) {
    std::string text;
    for (const char c : choices) {
        text += c == '|' ? std::string(", ") : std::string(1, c);
    }
    if (const size_t last = text.rfind(", "); last != std::string::npos) {
        text.replace(last, 2, " or ");
    }
    return text;
}

Status set_text(const OptionRow& row, const std::string& value, std::string_view where, std::string& target) {
    if (!row.choices.empty()) {
        const std::string all = fmt::format("|{}|", row.choices);
        if (value.empty() || value.find('|') != std::string::npos || all.find("|" + value + "|") == std::string::npos) {
            return fail(ErrorCode::kInvalidArgument, "{}: \"{}\", expected {}", where, value, choices_text(row.choices));
        }
    }
    target = value;
    return {};
}

Status set_integer(const OptionRow& row, const std::string& value, std::string_view where, std::optional<int64_t>& target) {
    const std::optional<int64_t> number = row.is_bytes ? parse_bytes(value) : parse_number<int64_t>(value);
    if (!number || static_cast<double>(*number) < row.lowest || static_cast<double>(*number) > row.highest) {
        return row.is_bytes
                   ? fail(ErrorCode::kInvalidArgument, "{}: \"{}\", expected bytes such as 512MiB or 2GB", where, value)
                   : fail(ErrorCode::kInvalidArgument, "{}: \"{}\", expected an integer from {} to {}", where, value,
                          plain_number(row.lowest), plain_number(row.highest));
    }
    target = *number;
    return {};
}

Status set_real(const OptionRow& row, const std::string& value, std::string_view where, std::optional<double>& target) {
    const std::optional<double> number = parse_number<double>(value);
    // top-p is the one number whose lower end does not belong to it.
    const bool excludes_lowest = row.name == "top-p";
    if (!number || !std::isfinite(*number) || *number < row.lowest || *number > row.highest ||
        (excludes_lowest && *number == row.lowest)) {
        return fail(ErrorCode::kInvalidArgument, "{}: \"{}\", expected a number {} {} to {}", where, value,
                    excludes_lowest ? "above" : "from", plain_number(row.lowest), plain_number(row.highest));
    }
    target = *number;
    return {};
}

}  // namespace

std::span<const OptionRow> option_rows() { return kRows; }

const OptionRow* find_option(std::string_view name) {
    std::string wanted(name);
    std::replace(wanted.begin(), wanted.end(), '_', '-');
    const auto found =
        std::find_if(std::begin(kRows), std::end(kRows), [&](const OptionRow& row) { return row.name == wanted; });
    return found == std::end(kRows) ? nullptr : found;
}

std::vector<CommandFlags> command_flags() {
    std::vector<CommandFlags> commands;
    for (const CommandName& command : kCommands) {
        CommandFlags& flags = commands.emplace_back();
        flags.command = command.command;
        flags.name = command.name;
        flags.help = command.help;
        for (const OptionRow& row : kRows) {
            if ((row.commands & bit(command.command)) == 0) {
                continue;
            }
            flags.flags.push_back({.name = is_positional(row) ? std::string(row.name) : "--" + std::string(row.name),
                                   .value_name = std::string(row.value_name),
                                   .help = std::string(row.help),
                                   .takes_many = std::holds_alternative<std::vector<std::string> Options::*>(row.target),
                                   .is_required = row.is_required});
        }
    }
    return commands;
}

std::optional<int64_t> parse_bytes(std::string_view text) {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::optional<int64_t> number = parse_number<int64_t>(text.substr(0, digits));
    if (!number) {
        return std::nullopt;
    }
    std::string unit(text.substr(digits));
    std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    static constexpr std::array<std::string_view, 5> kPrefixes = {"", "k", "m", "g", "t"};
    int64_t binary = 1;
    int64_t decimal = 1;
    for (const std::string_view prefix : kPrefixes) {
        const std::string letter(prefix);
        const bool is_decimal = unit == letter + "b";
        if (is_decimal || unit == letter || unit == letter + "ib") {
            int64_t bytes = 0;
            if (__builtin_mul_overflow(*number, is_decimal ? decimal : binary, &bytes)) {
                return std::nullopt;
            }
            return bytes;
        }
        binary *= 1024;
        decimal *= 1000;
    }
    return std::nullopt;
}

Status set_option(const OptionRow& row, const std::vector<std::string>& values, std::string_view where, Options& options) {
    const auto set = [&](auto member) -> Status {
        using Member = std::remove_reference_t<decltype(options.*member)>;
        if constexpr (std::is_same_v<Member, std::vector<std::string>>) {
            options.*member = values;
            return {};
        } else {
            if (values.size() != 1) {
                return fail(ErrorCode::kInvalidArgument, "{}: {} values, expected one", where, values.size());
            }
            const std::string& value = values.front();
            if constexpr (std::is_same_v<Member, bool>) {
                if (value != "true" && value != "false" && value != "1" && value != "0") {
                    return fail(ErrorCode::kInvalidArgument, "{}: \"{}\", expected true or false", where, value);
                }
                options.*member = value == "true" || value == "1";
                return {};
            } else if constexpr (std::is_same_v<Member, std::string>) {
                return set_text(row, value, where, options.*member);
            } else if constexpr (std::is_same_v<Member, std::optional<std::string>>) {
                return set_text(row, value, where, (options.*member).emplace());
            } else if constexpr (std::is_same_v<Member, std::optional<int64_t>>) {
                return set_integer(row, value, where, options.*member);
            } else if constexpr (std::is_same_v<Member, std::optional<double>>) {
                return set_real(row, value, where, options.*member);
            } else {
                const std::optional<uint64_t> number = parse_number<uint64_t>(value);
                if (!number) {
                    return fail(ErrorCode::kInvalidArgument, "{}: \"{}\", expected an integer from 0 to {}", where, value,
                                std::numeric_limits<uint64_t>::max());
                }
                options.*member = *number;
                return {};
            }
        }
    };
    return std::visit(set, row.target);
}

}  // namespace di
