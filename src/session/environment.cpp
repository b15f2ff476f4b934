#include "session/environment.h"

#include <algorithm>

extern "C" char** environ;  // POSIX; no header of C++ declares it

namespace di {
namespace {

using enum EnvironmentEffect;

constexpr std::string_view kOneMachine = "one process on one machine has no groups of devices";
constexpr std::string_view kNoGraphs = "the cpu backend has no graphs to capture";
constexpr std::string_view kLearned = "the cost of a step is learned while running, in memory";
constexpr std::string_view kNoMoves = "experts are read where they lie; no device holds copies of them";
constexpr std::string_view kImages = "images are decoded where they are used, behind size limits";
constexpr std::string_view kMixed = "prompt chunks and decoding share a step, nobody votes";
constexpr std::string_view kTrace = "there is no profile server in this version";

constexpr EnvironmentRow kRows[] = {
    // Of the reference implementation, in the order of its documentation.
    {"DEEPINFER_ACCELERATOR", "auto", kSets, "backend", "ascend is refused", "nvidia>cuda"},
    {"DEEPINFER_JIT_CACHE_DIR", "none", kNone, "", "nothing is compiled at run time"},
    {"DEEPINFER_COMPUTE_SUM_SMALLER_PROBS", "0", kNone, "", "the sum is not computed; records say -1"},
    {"DEEPINFER_NCCL_NUM_SMS", "32", kNone, "", kOneMachine},
    {"DEEPINFER_USERBUFFER_COMM_SMS", "0", kNone, "", kOneMachine},
    {"DEEPINFER_GLOO_TIMEOUT", "60", kNone, "", kOneMachine},
    {"DEEPINFER_REARRANGE_P2P_GROUPS", "1", kNone, "", kNoMoves},
    {"DEEPINFER_OVERRIDE_NUM_EXTRA_EXPERTS", "0", kNone, "", kNoMoves},
    {"DEEPINFER_EXPERT_COUNT_WINDOW_SIZE", "100", kNone, "", kNoMoves},
    {"DEEPINFER_EXPERT_REARRANGEMENT_STEP_INTERVAL", "0", kNone, "", kNoMoves},
    {"DEEPINFER_REARRANGE_AFTER_PREFILL_IN_NORMAL_ENGINE", "0", kNone, "", kNoMoves},
    {"DEEPINFER_MOE_LB_STAT_INTERVAL", "128", kNone, "", kNoMoves},
    {"DEEPINFER_FORCE_IMBALANCE_RATIO", "0", kNone, "", kNoMoves},
    {"DEEPINFER_FORCE_LOAD_BALANCE", "0", kNone, "", kNoMoves},
    {"DEEPINFER_SHOW_EPLB_DETAIL", "0", kNone, "", kNoMoves},
    {"DEEPINFER_PREFILL_MAX_SUM_SEQLEN_K", "none", kNone, "",
     "a step is bounded by rows and, with step-ms-max, by its expected time"},
    {"DEEPINFER_INDEX_ATTN_MEMORY_LIMIT", "none", kNone, "",
     "index scores take a fixed part of the workspace, see the memory plan"},
    {"DEEPINFER_USE_NEXTN_DECODE", "what the model's drafter gives", kSets, "drafts"},
    {"DEEPINFER_ENABLE_MTP_VARLEN", "1", kSets, "draft-schedule", "", "0>fixed|1>confidence"},
    {"DEEPINFER_MAX_BACKTRACKING_TOKENS", "drafts + 1", kNone, "", "the ring margin follows the drafter"},
    {"DEEPINFER_DFLASH_CONFIDENCE_HEAD_TEMPERATURE", "1.0", kSets, "confidence-temperature"},
    {"DEEPINFER_ENGRAM_PAD_TOKEN", "of the model", kNone, "", "it is part of the model's config.json"},
    {"DEEPINFER_ENGRAM_FORCE_GPU_STORAGE", "0", kNone, "", "there is no device memory on the cpu backend"},
    {"DEEPINFER_SAMPLER_FORCE_TOPK", "0", kSets, "top-k-max"},
    {"DEEPINFER_DECODE_TOKEN_BLACKLIST", "empty", kSets, "banned-token-ids"},
    {"DEEPINFER_ENFORCE_EAGER", "0", kNone, "", kNoGraphs},
    {"DEEPINFER_CUDAGRAPH_BATCH_SIZE_INTERVAL", "8", kNone, "", kNoGraphs},
    {"DEEPINFER_DFLASH_ENFORCE_EAGER", "0", kNone, "", kNoGraphs},
    {"DEEPINFER_DFLASH_CUDAGRAPH_BATCH_SIZE_INTERVAL", "8", kNone, "", kNoGraphs},
    {"DEEPINFER_DECODE_PERF_CACHE_DIR", "none", kNone, "", kLearned},
    {"DEEPINFER_DECODE_PERF_CACHE_TTL_SEC", "3600", kNone, "", kLearned},
    {"DEEPINFER_NUM_STATE_SLOTS_RATIO", "by the memory plan", kNone, "",
     "the memory plan decides how many state slots there are"},
    {"DEEPINFER_PREFILL_STORE_EXTRA_STATE", "0", kNone, "", "the prefix cache keeps the states that it needs"},
    {"DEEPINFER_PREFILL_STORE_EXTRA_SIZE", "128", kNone, "", "the prefix cache keeps the states that it needs"},
    {"DEEPINFER_XGRAMMAR_DEBUG", "0", kNone, "", "structured output has no debug mode; log-level debug shows its errors"},
    {"DEEPINFER_XGRAMMAR_TIMEOUT", "5", kSets, "grammar-timeout-s"},
    {"DEEPINFER_XGRAMMAR_DISABLE_CACHE", "0", kSets, "grammar-cache-memory", "1 keeps nothing", "1>0|0>"},
    {"DEEPINFER_XGRAMMAR_CACHE_LIMIT_BYTES", "1 GiB", kSets, "grammar-cache-memory"},
    {"DEEPINFER_SO_BUILDER_CPUS", "4", kSets, "grammar-threads"},
    {"DEEPINFER_PREFILL_ATTEMPT_INTERVAL", "70", kNone, "", kMixed},
    {"DEEPINFER_PREFILL_ANY_ATTEMPT_INTERVAL", "100", kNone, "", kMixed},
    {"DEEPINFER_ZERO_OVERHEAD_SCHEDULING", "1", kSets, "async"},
    {"DEEPINFER_LOGGING_INTERVAL_STEP", "0; LLMEngine: 100", kSets, "log-interval-steps"},
    {"DEEPINFER_NCCL_MEMORY_SAMPLE_INTERVAL_STEPS", "1000", kNone, "", kOneMachine},
    {"DEEPINFER_RINGBUFFER_WARNING_INTERVAL", "60", kNone, "", "there are no helper processes to wait for"},
    {"DEEPINFER_GC_INTERVAL_STEP", "1000", kNone, "", "no Python runs in the loop"},
    {"DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE", "off", kSets, "replay"},
    {"DEEPINFER_YOCO_PREFILL_KEEP_TOKENS", "computed", kSets, "replay-keep"},
    {"DEEPINFER_BATCH_INVARIANT", "0", kSets, "batch-invariant"},
    {"DEEPINFER_DISABLE_SYNC_GUARD", "0", kNone, "", "there is no guard to switch off"},
    {"DEEPINFER_PROFILE_TORCH_CUDA_MEMORY", "none", kNone, "", "deepinfer inspect shows the memory plan"},
    {"DEEPINFER_ENABLE_MEMORY_TRACING", "0", kNone, "", "deepinfer inspect shows the memory plan"},
    {"DEEPINFER_PROFILE_HTTP_ENABLE", "0", kNone, "", kTrace},
    {"DEEPINFER_PROFILE_HTTP_PORT_BASE", "6070", kNone, "", kTrace},
    {"DEEPINFER_TORCH_PROFILER_DIR", "none", kNone, "", kTrace},
    {"DEEPINFER_USE_MULTIMODAL_POOL", "0", kNone, "", kImages},
    {"DEEPINFER_MULTIMODAL_POOL_SIZE_GB", "8", kNone, "", kImages},
    {"DEEPINFER_MULTI_MODAL_BUFFER_SIZE", "512", kNone, "", kImages},
    {"DEEPINFER_MULTI_MODAL_WORKER_TIMEOUT", "30", kNone, "", kImages},
    {"DEEPINFER_CPP_LOG_LEVEL", "info", kSets, "log-level"},
    {"DEEPINFER_HF_MODEL_DIR", "the embedded v41-mini", kSets, "model"},
    {"CUDA_VISIBLE_DEVICES", "all", kElsewhere, "", "CUDA itself; not needed"},
    {"MASTER_ADDR", "localhost", kElsewhere, "", kOneMachine},
    {"MASTER_PORT", "23333", kElsewhere, "", kOneMachine},
    // Ours.
    {"DEEPINFER_ACTIVATIONS", "f32", kSets, "activations"},
    {"DEEPINFER_ACT_QUANT", "none", kSets, "act-quant"},
    {"DEEPINFER_CONTRACT_SWEEP", "full", kElsewhere, "", "the contract test of the backends"},
    {"DEEPINFER_CPU_ISA", "the best", kElsewhere, "", "the cpu backend: forces an instruction set"},
    {"DEEPINFER_KV_MEMORY", "what the limits need", kSets, "kv-memory"},
    {"DEEPINFER_KV_QUANT", "reference", kSets, "kv-quant"},
    {"DEEPINFER_LOG_LEVEL", "info", kSets, "log-level"},
    {"DEEPINFER_MAX_MODEL_LEN", "the model's", kSets, "max-model-len"},
    {"DEEPINFER_MAX_NUM_BATCHED_TOKENS", "by backend", kSets, "max-num-batched-tokens"},
    {"DEEPINFER_MAX_NUM_SEQS", "by backend", kSets, "max-num-seqs"},
    {"DEEPINFER_PROGRAM", "build/deepinfer", kElsewhere, "", "the tests: the program to be tested"},
    {"DEEPINFER_SCHEDULING_POLICY", "fcfs", kSets, "scheduling-policy"},
    {"DEEPINFER_TEST_SMOLLM2", "none", kElsewhere, "", "the tests: the GGUF file of SmolLM2"},
    {"DEEPINFER_TEST_TOKENIZER", "none", kElsewhere, "", "the tests: the tokenizer file of the release"},
    {"DEEPINFER_THREADS", "all usable cores", kSets, "threads"},
    {"DEEPINFER_VERIFY_MODE", "exact", kSets, "verify-mode"},
    {"DEEPINFER_WEIGHTS_MEMORY", "no limit", kSets, "weights-memory"},
};

constexpr std::string_view kPrefix = "DEEPINFER_";
// Settings of the service (server/settings.h), which reads them itself; they say nothing to anything else.
constexpr std::string_view kServePrefix = "DEEPINFER_SERVE_";

// "nvidia>cuda|1>true": what `value` is called here.
std::string translated(std::string_view values, const std::string& value) {
    while (!values.empty()) {
        const std::string_view pair = values.substr(0, std::min(values.find('|'), values.size()));
        const size_t arrow = pair.find('>');
        if (pair.substr(0, arrow) == value) {
            return std::string(pair.substr(arrow + 1));
        }
        values.remove_prefix(std::min(pair.size() + 1, values.size()));
    }
    return value;
}

}  // namespace

std::span<const EnvironmentRow> environment_rows() { return kRows; }

const EnvironmentRow* find_environment_row(std::string_view name) {
    const auto found =
        std::find_if(std::begin(kRows), std::end(kRows), [&](const EnvironmentRow& row) { return row.name == name; });
    return found == std::end(kRows) ? nullptr : found;
}

Result<EnvironmentMeaning> meaning_of(std::string_view name, const std::string& value) {
    EnvironmentMeaning meaning;
    if (name.starts_with(kServePrefix)) {
        return meaning;
    }
    const EnvironmentRow* row = find_environment_row(name);
    if (row == nullptr) {
        meaning.warning = fmt::format("unknown environment variable {}", name);
        return meaning;
    }
    if (row->effect == kNone) {
        meaning.warning = fmt::format("{} has no effect: {}", name, row->note);
        return meaning;
    }
    if (row->effect == kElsewhere || value.empty()) {
        return meaning;
    }
    if (row->setting == "backend" && value == "ascend") {
        return fail(ErrorCode::kUnsupported, "{}: \"ascend\" is not supported, expected auto, cpu or ref", name);
    }
    meaning.value = translated(row->values, value);
    if (!meaning.value.empty()) {  // else it says what holds anyway
        meaning.setting = find_setting(row->setting);
    }
    return meaning;
}

std::vector<std::pair<std::string, std::string>> deepinfer_environment() {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const size_t equals = text.find('=');
        if (text.starts_with(kPrefix) && equals != std::string_view::npos) {
            pairs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    std::sort(pairs.begin(), pairs.end());
    return pairs;
}

}  // namespace di
