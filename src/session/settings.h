#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "session/option_row.h"
#include "session/session.h"

// The typed configuration of a model and its engine, the same for the program, the Python package and the C ABI. A value
// comes from, strongest first: what the caller says, the environment (environment.h), a file, the default written here.
namespace di {

struct Settings {
    // Model.
    std::optional<std::string> model;
    std::optional<std::string> tokenizer;
    std::string load_format = "auto";
    std::optional<uint64_t> seed;  // of dummy weights; the program's requests have it too

    // How it is computed.
    std::string backend = "auto";
    std::optional<int64_t> threads;
    std::string activations;  // empty: the backend's default
    std::string kv_quant = "reference";
    std::string act_quant = "none";
    std::string replay = "off";
    std::optional<int64_t> replay_keep;

    // Memory.
    std::optional<int64_t> max_model_len;
    std::optional<int64_t> max_num_seqs;
    std::optional<int64_t> max_num_batched_tokens;
    std::optional<int64_t> kv_memory;
    std::optional<int64_t> snapshot_memory;
    std::optional<int64_t> weights_memory;
    std::optional<int64_t> gpu_memory;

    // How the engine works (EngineBehaviour).
    bool batch_invariant = false;
    bool async = true;
    bool prefix_cache = true;
    bool chunked_prefill = true;
    bool mixed_steps = true;
    bool stop_preempted = false;
    std::optional<int64_t> drafts;
    std::string draft_schedule = "confidence";
    std::optional<std::string> confidence_temperature;  // one number, or one a depth: "1.0,1.2"
    std::string verify_mode = "exact";
    std::string scheduling_policy = "fcfs";
    std::optional<int64_t> passed_max;
    std::optional<double> step_ms_max;
    std::optional<double> step_stretch_max;
    std::optional<int64_t> queue_max;
    std::optional<double> first_token_ms_max;

    // For every request.
    std::optional<std::string> banned_token_ids;
    std::optional<int64_t> top_k_max;

    // Structured output.
    std::optional<double> grammar_timeout_s;
    std::optional<int64_t> grammar_cache_memory;
    std::optional<int64_t> grammar_threads;

    std::optional<int64_t> log_interval_steps;
    std::string log_level = "info";
};

struct SettingRow {
    OptionRule rule;
    std::string_view value_name;  // "N"; empty for a switch
    std::string_view help;
    OptionTargetOf<Settings> target;
    bool is_on = false;  // a switch that is on by default
};

[[nodiscard]] std::span<const SettingRow> setting_rows();
// nullptr if there is none. Both "kv-memory" and "kv_memory" are found.
[[nodiscard]] const SettingRow* find_setting(std::string_view name);
// Checks a value and puts it into `settings`. `where` begins the message.
[[nodiscard]] Status set_setting(const SettingRow& row, const std::string& value, std::string_view where, Settings& settings);

// Checks them together and against what this build can do. The model's directory is left empty where none is named.
[[nodiscard]] Result<SessionOptions> session_options(const Settings& settings);

// A directory or .gguf file that can be a model; kNotFound or kInvalidFile else.
[[nodiscard]] Status check_model_path(const std::string& path);

// Settings for callers without flags and files: from pairs of the caller, else from the environment of this process, else from
// `defaults` of the caller. Warnings are for a person: unknown variables, variables without effect.
using SettingPairs = std::vector<std::pair<std::string, std::string>>;
struct GivenSettings {
    Settings settings;
    std::vector<std::string> warnings;
};
[[nodiscard]] Result<GivenSettings> given_settings(const SettingPairs& pairs, const SettingPairs& defaults = {});

}  // namespace di
