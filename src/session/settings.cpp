#include "session/settings.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <system_error>

#include "engine/load.h"
#include "session/environment.h"

namespace di {
namespace {

namespace fs = std::filesystem;

constexpr double kBytesMax = 9e18;
// More of it is a typing error: the deepest drafter of today gives 5.
constexpr double kDraftsMax = 64;

const SettingRow kRows[] = {
    {.rule = {.name = "model"},
     .value_name = "M",
     .help = "model directory or .gguf file (default: DEEPINFER_HF_MODEL_DIR, else the embedded v41-mini)",
     .target = &Settings::model},
    {.rule = {.name = "tokenizer"},
     .value_name = "DIR",
     .help = "directory of the tokenizer (default: the model's)",
     .target = &Settings::tokenizer},
    {.rule = {.name = "load-format", .choices = "auto|dummy"},
     .value_name = "F",
     .help = "auto, or dummy: random weights",
     .target = &Settings::load_format},
    {.rule = {.name = "seed"},
     .value_name = "S",
     .help = "same seed, same answer; also of dummy weights",
     .target = &Settings::seed},
    {.rule = {.name = "backend", .choices = "auto|cpu|cuda|ref"},
     .value_name = "B",
     .help = "auto, cpu, cuda or ref",
     .target = &Settings::backend},
    {.rule = {.name = "threads", .lowest = 1, .highest = 1024},
     .value_name = "N",
     .help = "threads of the cpu backend (default: all usable cores)",
     .target = &Settings::threads},
    {.rule = {.name = "activations", .choices = "f32|bf16"},
     .value_name = "A",
     .help = "intermediate results in f32 or bf16 (default f32)",
     .target = &Settings::activations},
    {.rule = {.name = "kv-quant", .choices = "reference|off"},
     .value_name = "Q",
     .help = "cache formats: reference or off (f32)",
     .target = &Settings::kv_quant},
    {.rule = {.name = "act-quant", .choices = "none|fp8"},
     .value_name = "Q",
     .help = "quantised inputs of linears: none or fp8",
     .target = &Settings::act_quant},
    {.rule = {.name = "replay", .choices = "off|mask|compact|exact"},
     .value_name = "R",
     .help = "prompt rows of the layers behind the YoCo split: off, mask, compact or exact",
     .target = &Settings::replay},
    {.rule = {.name = "replay-keep"},
     .value_name = "N",
     .help = "prompt rows kept by --replay compact",
     .target = &Settings::replay_keep},
    {.rule = {.name = "max-model-len", .lowest = 1},
     .value_name = "N",
     .help = "longest prompt and answer together, in tokens",
     .target = &Settings::max_model_len},
    {.rule = {.name = "max-num-seqs", .lowest = 1},
     .value_name = "N",
     .help = "sequences of a step",
     .target = &Settings::max_num_seqs},
    {.rule = {.name = "max-num-batched-tokens", .lowest = 1},
     .value_name = "N",
     .help = "rows of a step",
     .target = &Settings::max_num_batched_tokens},
    {.rule = {.name = "kv-memory", .lowest = 1, .highest = kBytesMax, .is_bytes = true},
     .value_name = "BYTES",
     .help = "cache blocks: 512MiB, 2GB",
     .target = &Settings::kv_memory},
    {.rule = {.name = "snapshot-memory", .highest = kBytesMax, .is_bytes = true},
     .value_name = "BYTES",
     .help = "states at the ends of cached prefixes; 0: no prefix cache (default: a share of the memory)",
     .target = &Settings::snapshot_memory},
    {.rule = {.name = "weights-memory", .lowest = 1, .highest = kBytesMax, .is_bytes = true},
     .value_name = "BYTES",
     .help = "most memory for resident weights",
     .target = &Settings::weights_memory},
    {.rule = {.name = "gpu-memory", .lowest = 1, .highest = kBytesMax, .is_bytes = true},
     .value_name = "BYTES",
     .help = "device memory (cuda backend)",
     .target = &Settings::gpu_memory},
    {.rule = {.name = "batch-invariant"},
     .value_name = "",
     .help = "a request with a seed has one answer, whatever else runs",
     .target = &Settings::batch_invariant},
    {.rule = {.name = "async"},
     .value_name = "",
     .help = "plan the next step while one runs (default)",
     .target = &Settings::async,
     .is_on = true},
    {.rule = {.name = "prefix-cache"},
     .value_name = "",
     .help = "reuse prefixes that were seen before (default)",
     .target = &Settings::prefix_cache,
     .is_on = true},
    {.rule = {.name = "chunked-prefill"},
     .value_name = "",
     .help = "cut long prompts into several steps (default)",
     .target = &Settings::chunked_prefill,
     .is_on = true},
    {.rule = {.name = "mixed-steps"},
     .value_name = "",
     .help = "prompt chunks and decoding in one step (default)",
     .target = &Settings::mixed_steps,
     .is_on = true},
    {.rule = {.name = "stop-preempted"},
     .value_name = "",
     .help = "a request that loses its room fails instead of being computed again",
     .target = &Settings::stop_preempted},
    {.rule = {.name = "drafts", .highest = kDraftsMax},
     .value_name = "K",
     .help = "drafted tokens a round; 0: none (default: what the model's drafter gives)",
     .target = &Settings::drafts},
    {.rule = {.name = "draft-schedule", .choices = "fixed|confidence"},
     .value_name = "S",
     .help = "how many drafts are verified: fixed: all; confidence: what pays",
     .target = &Settings::draft_schedule},
    {.rule = {.name = "confidence-temperature"},
     .value_name = "T",
     .help = "divides the logits of draft confidences: one number, or one a depth: 1.0,1.2 (default 1)",
     .target = &Settings::confidence_temperature},
    {.rule = {.name = "verify-mode", .choices = "exact|rejection"},
     .value_name = "V",
     .help = "exact: drafts change no token; rejection: they keep the distribution",
     .target = &Settings::verify_mode},
    {.rule = {.name = "scheduling-policy", .choices = "fcfs|priority|shortest-prefill|fair-share"},
     .value_name = "P",
     .help = "who goes first: fcfs, priority, shortest-prefill or fair-share",
     .target = &Settings::scheduling_policy},
    {.rule = {.name = "passed-max"},
     .value_name = "N",
     .help = "later requests that may overtake one that does not fit yet (default 64)",
     .target = &Settings::passed_max},
    {.rule = {.name = "step-stretch-max", .highest = 1e9},
     .value_name = "X",
     .help = "rows of prompts beside running answers, so that a step takes at most X times as long (default: no limit)",
     .target = &Settings::step_stretch_max},
    {.rule = {.name = "step-ms-max", .highest = 1e9},
     .value_name = "MS",
     .help = "cut prompt chunks so that a step takes no longer (default: no limit)",
     .target = &Settings::step_ms_max},
    {.rule = {.name = "queue-max"},
     .value_name = "N",
     .help = "waiting requests; more are refused (default 0: no limit)",
     .target = &Settings::queue_max},
    {.rule = {.name = "first-token-ms-max", .highest = 1e9},
     .value_name = "MS",
     .help = "refuse requests whose first token is expected later (default 0: no limit)",
     .target = &Settings::first_token_ms_max},
    {.rule = {.name = "banned-token-ids"},
     .value_name = "IDS",
     .help = "token ids that are never produced: 1,2,3",
     .target = &Settings::banned_token_ids},
    {.rule = {.name = "top-k-max"},
     .value_name = "K",
     .help = "no request draws among more likeliest tokens; 0: no cap",
     .target = &Settings::top_k_max},
    {.rule = {.name = "grammar-timeout-s", .highest = 1e6},
     .value_name = "S",
     .help = "longest compilation of a schema or grammar (default 5)",
     .target = &Settings::grammar_timeout_s},
    {.rule = {.name = "grammar-cache-memory", .highest = kBytesMax, .is_bytes = true},
     .value_name = "BYTES",
     .help = "compiled grammars kept for the next request (default 1GiB); 0: none",
     .target = &Settings::grammar_cache_memory},
    {.rule = {.name = "grammar-threads", .lowest = 1, .highest = 64},
     .value_name = "N",
     .help = "threads that compile grammars (default 4, or the machine's cores where they are fewer)",
     .target = &Settings::grammar_threads},
    {.rule = {.name = "log-interval-steps"},
     .value_name = "N",
     .help = "log a line of statistics every N steps; 0: never (default)",
     .target = &Settings::log_interval_steps},
    {.rule = {.name = "log-level", .choices = "debug|info|warning|error"},
     .value_name = "L",
     .help = "debug, info, warning or error",
     .target = &Settings::log_level},
};

Status check_supported(const Settings& settings) {
    if (settings.backend == "cuda") {
        return fail(ErrorCode::kInvalidArgument, "backend \"cuda\": no cuda backend in this build, expected auto, cpu or ref");
    }
    if (settings.gpu_memory) {
        return fail(ErrorCode::kInvalidArgument,
                    "gpu-memory {}: no cuda backend in this build, expected the option to be absent", *settings.gpu_memory);
    }
    if (settings.replay_keep && settings.replay == "off") {
        return fail(ErrorCode::kInvalidArgument, "replay-keep {} without replay, expected replay compact",
                    *settings.replay_keep);
    }
    if (settings.batch_invariant && settings.verify_mode == "rejection") {
        return fail(ErrorCode::kInvalidArgument,
                    "verify-mode \"rejection\" with batch-invariant: its tokens depend on the drafts, expected exact");
    }
    if (settings.batch_invariant && settings.replay != "off" && settings.replay != "exact") {
        return fail(ErrorCode::kInvalidArgument,
                    "replay \"{}\" with batch-invariant: its result depends on how a prompt is cut, expected off or exact",
                    settings.replay);
    }
    return {};
}

Replay replay_of(const std::string& name) {
    return name == "mask"      ? Replay::kMask
           : name == "compact" ? Replay::kCompact
           : name == "exact"   ? Replay::kExact
                               : Replay::kOff;
}

SchedulingPolicy policy_of(const std::string& name) {
    return name == "priority"           ? SchedulingPolicy::kPriority
           : name == "shortest-prefill" ? SchedulingPolicy::kShortestPrefill
           : name == "fair-share"       ? SchedulingPolicy::kFairShare
                                        : SchedulingPolicy::kFirstCome;
}

int32_t to_int32(const std::optional<int64_t>& value, int32_t absent = 0) {
    return value ? static_cast<int32_t>(*value) : absent;
}

EngineBehaviour behaviour_of(const Settings& settings) {
    EngineBehaviour behaviour;
    behaviour.deterministic = settings.batch_invariant;
    behaviour.asynchronous = settings.async;
    behaviour.prefix_cache = settings.prefix_cache;
    behaviour.chunked_prefill = settings.chunked_prefill;
    behaviour.mixed_steps = settings.mixed_steps;
    behaviour.stop_preempted = settings.stop_preempted;
    behaviour.drafts = to_int32(settings.drafts, behaviour.drafts);
    behaviour.scheduled_verify = settings.draft_schedule == "confidence";
    behaviour.verify_mode = settings.verify_mode == "rejection" ? VerifyMode::kRejection : VerifyMode::kExact;
    behaviour.policy = policy_of(settings.scheduling_policy);
    behaviour.passed_max = to_int32(settings.passed_max, behaviour.passed_max);
    behaviour.step_ms_max = settings.step_ms_max.value_or(behaviour.step_ms_max);
    behaviour.step_stretch_max = settings.step_stretch_max.value_or(behaviour.step_stretch_max);
    behaviour.queue_max = to_int32(settings.queue_max, behaviour.queue_max);
    behaviour.first_token_ms_max = settings.first_token_ms_max.value_or(behaviour.first_token_ms_max);
    return behaviour;
}

EngineOptions engine_options_of(const Settings& settings) {
    EngineOptions engine;
    engine.model_directory = settings.model.value_or("");
    engine.load_format = settings.load_format == "dummy" ? LoadFormat::kDummy : LoadFormat::kAuto;
    engine.backend = settings.backend;
    engine.threads = to_int32(settings.threads);
    engine.activations = settings.activations == "bf16" ? Activations::kBF16 : Activations::kF32;
    engine.kv_quant = settings.kv_quant == "off" ? KvQuant::kOff : KvQuant::kReference;
    engine.act_quant = settings.act_quant == "fp8" ? ActQuant::kFp8 : ActQuant::kNone;
    engine.replay = replay_of(settings.replay);
    engine.replay_keep = to_int32(settings.replay_keep);
    engine.max_model_len = to_int32(settings.max_model_len);
    engine.max_num_seqs = to_int32(settings.max_num_seqs);
    engine.max_num_batched_tokens = to_int32(settings.max_num_batched_tokens);
    engine.kv_memory_bytes = settings.kv_memory.value_or(0);
    engine.snapshot_memory_bytes = settings.snapshot_memory.value_or(engine.snapshot_memory_bytes);
    engine.weights_memory_bytes = settings.weights_memory.value_or(0);
    engine.seed = settings.seed.value_or(0);
    engine.behaviour = behaviour_of(settings);
    return engine;
}

// "1,2,3", in which every word is a number from 0.
template <typename T>
Result<std::vector<T>> parse_list(std::string_view name, std::string_view text, std::string_view expected) {
    std::vector<T> values;
    while (!text.empty()) {
        const std::string_view word = text.substr(0, std::min(text.find(','), text.size()));
        T value{};
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (error != std::errc() || end != word.data() + word.size() || !(value >= T{}) ||
            value > std::numeric_limits<T>::max()) {
            return fail(ErrorCode::kInvalidArgument, "{}: \"{}\", expected {}", name, word, expected);
        }
        values.push_back(value);
        text.remove_prefix(std::min(word.size() + 1, text.size()));
    }
    return values;
}

Status apply_pairs(const SettingPairs& pairs, Settings& settings) {
    for (const auto& [name, value] : pairs) {
        const SettingRow* row = find_setting(name);
        if (row == nullptr) {
            return fail(ErrorCode::kInvalidArgument, "there is no option \"{}\"", name);
        }
        DI_TRY_STATUS(set_setting(*row, value, name, settings));
    }
    return {};
}

}  // namespace

std::span<const SettingRow> setting_rows() { return kRows; }

const SettingRow* find_setting(std::string_view name) {
    std::string wanted(name);
    std::replace(wanted.begin(), wanted.end(), '_', '-');
    const auto found =
        std::find_if(std::begin(kRows), std::end(kRows), [&](const SettingRow& row) { return row.rule.name == wanted; });
    return found == std::end(kRows) ? nullptr : found;
}

Status set_setting(const SettingRow& row, const std::string& value, std::string_view where, Settings& settings) {
    return set_target<Settings>(row.rule, row.target, {value}, where, settings);
}

Result<SessionOptions> session_options(const Settings& settings) {
    DI_TRY_STATUS(check_supported(settings));
    SessionOptions options;
    options.engine = engine_options_of(settings);
    options.tokenizer_directory = settings.tokenizer.value_or("");
    DI_TRY(options.preparer.banned_token_ids,
           parse_list<int32_t>("banned-token-ids", settings.banned_token_ids.value_or(""), "token ids such as 1,2,3"));
    DI_TRY(options.engine.confidence_temperatures,
           parse_list<float>("confidence-temperature", settings.confidence_temperature.value_or(""),
                             "numbers from 0 such as 1.0,1.2"));
    options.preparer.top_k_max = to_int32(settings.top_k_max);
    if (settings.grammar_timeout_s) {
        options.preparer.grammar.timeout_ms = static_cast<int64_t>(*settings.grammar_timeout_s * 1000.0);
    }
    options.preparer.grammar.cache_bytes = settings.grammar_cache_memory.value_or(options.preparer.grammar.cache_bytes);
    options.preparer.grammar.thread_count = to_int32(settings.grammar_threads, options.preparer.grammar.thread_count);
    options.log_interval_steps = settings.log_interval_steps.value_or(0);
    return options;
}

Status check_model_path(const std::string& path) {
    std::error_code error;
    if (!fs::exists(path, error)) {
        return fail(ErrorCode::kNotFound, "model {} does not exist, expected a directory with config.json or a .gguf file",
                    path);
    }
    if (!fs::is_directory(path, error) && !is_gguf_path(path)) {
        return fail(ErrorCode::kInvalidFile, "model {} is no directory, expected one with config.json or a .gguf file", path);
    }
    return {};
}

Result<GivenSettings> given_settings(const SettingPairs& pairs, const SettingPairs& defaults) {
    GivenSettings given;
    DI_TRY_STATUS(apply_pairs(defaults, given.settings));
    for (const auto& [name, value] : deepinfer_environment()) {
        DI_TRY(const EnvironmentMeaning meaning, meaning_of(name, value));
        if (!meaning.warning.empty()) {
            given.warnings.push_back(meaning.warning);
        }
        if (meaning.setting != nullptr) {
            DI_TRY_STATUS(set_setting(*meaning.setting, meaning.value, name, given.settings));
        }
    }
    DI_TRY_STATUS(apply_pairs(pairs, given.settings));
    return given;
}

}  // namespace di
