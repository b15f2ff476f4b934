#include "apps/environment.h"

#include <algorithm>

extern "C" char** environ;  // POSIX; no header of C++ declares it

namespace di {
namespace {

constexpr EnvironmentName kNames[] = {
    // Of the reference implementation.
    {"DEEPINFER_ACCELERATOR", "backend"},
    {"DEEPINFER_BATCH_INVARIANT", ""},  // always so on the cpu and ref backends
    {"DEEPINFER_COMPUTE_SUM_SMALLER_PROBS", "", false},
    {"DEEPINFER_CPP_LOG_LEVEL", "log-level"},
    {"DEEPINFER_CUDAGRAPH_BATCH_SIZE_INTERVAL", "", false},
    {"DEEPINFER_DECODE_PERF_CACHE_DIR", "", false},
    {"DEEPINFER_DECODE_PERF_CACHE_TTL_SEC", "", false},
    {"DEEPINFER_DECODE_TOKEN_BLACKLIST", "", false},
    {"DEEPINFER_DFLASH_CONFIDENCE_HEAD_TEMPERATURE", "", false},
    {"DEEPINFER_DFLASH_CUDAGRAPH_BATCH_SIZE_INTERVAL", "", false},
    {"DEEPINFER_DFLASH_ENFORCE_EAGER", "", false},
    {"DEEPINFER_DISABLE_SYNC_GUARD", "", false},
    {"DEEPINFER_ENABLE_MEMORY_TRACING", "", false},
    {"DEEPINFER_ENABLE_MTP_VARLEN", "", false},
    {"DEEPINFER_ENFORCE_EAGER", "", false},
    {"DEEPINFER_ENGRAM_FORCE_GPU_STORAGE", "", false},
    {"DEEPINFER_ENGRAM_PAD_TOKEN", "", false},
    {"DEEPINFER_EXPERT_COUNT_WINDOW_SIZE", "", false},
    {"DEEPINFER_EXPERT_REARRANGEMENT_STEP_INTERVAL", "", false},
    {"DEEPINFER_FORCE_IMBALANCE_RATIO", "", false},
    {"DEEPINFER_FORCE_LOAD_BALANCE", "", false},
    {"DEEPINFER_GC_INTERVAL_STEP", "", false},
    {"DEEPINFER_GLOO_TIMEOUT", "", false},
    {"DEEPINFER_HF_MODEL_DIR", "model"},
    {"DEEPINFER_INDEX_ATTN_MEMORY_LIMIT", "", false},
    {"DEEPINFER_JIT_CACHE_DIR", "", false},
    {"DEEPINFER_LOGGING_INTERVAL_STEP", "", false},
    {"DEEPINFER_MAX_BACKTRACKING_TOKENS", "", false},
    {"DEEPINFER_MOE_LB_STAT_INTERVAL", "", false},
    {"DEEPINFER_MULTIMODAL_POOL_SIZE_GB", "", false},
    {"DEEPINFER_MULTI_MODAL_BUFFER_SIZE", "", false},
    {"DEEPINFER_MULTI_MODAL_WORKER_TIMEOUT", "", false},
    {"DEEPINFER_NCCL_MEMORY_SAMPLE_INTERVAL_STEPS", "", false},
    {"DEEPINFER_NCCL_NUM_SMS", "", false},
    {"DEEPINFER_NUM_STATE_SLOTS_RATIO", "", false},
    {"DEEPINFER_OVERRIDE_NUM_EXTRA_EXPERTS", "", false},
    {"DEEPINFER_PREFILL_ANY_ATTEMPT_INTERVAL", "", false},
    {"DEEPINFER_PREFILL_ATTEMPT_INTERVAL", "", false},
    {"DEEPINFER_PREFILL_MAX_SUM_SEQLEN_K", "", false},
    {"DEEPINFER_PREFILL_STORE_EXTRA_SIZE", "", false},
    {"DEEPINFER_PREFILL_STORE_EXTRA_STATE", "", false},
    {"DEEPINFER_PROFILE_HTTP_ENABLE", "", false},
    {"DEEPINFER_PROFILE_HTTP_PORT_BASE", "", false},
    {"DEEPINFER_PROFILE_TORCH_CUDA_MEMORY", "", false},
    {"DEEPINFER_REARRANGE_AFTER_PREFILL_IN_NORMAL_ENGINE", "", false},
    {"DEEPINFER_REARRANGE_P2P_GROUPS", "", false},
    {"DEEPINFER_RINGBUFFER_WARNING_INTERVAL", "", false},
    {"DEEPINFER_SAMPLER_FORCE_TOPK", "", false},
    {"DEEPINFER_SHOW_EPLB_DETAIL", "", false},
    {"DEEPINFER_SO_BUILDER_CPUS", "", false},
    {"DEEPINFER_TORCH_PROFILER_DIR", "", false},
    {"DEEPINFER_USERBUFFER_COMM_SMS", "", false},
    {"DEEPINFER_USE_MULTIMODAL_POOL", "", false},
    {"DEEPINFER_USE_NEXTN_DECODE", "", false},
    {"DEEPINFER_XGRAMMAR_CACHE_LIMIT_BYTES", "", false},
    {"DEEPINFER_XGRAMMAR_DEBUG", "", false},
    {"DEEPINFER_XGRAMMAR_DISABLE_CACHE", "", false},
    {"DEEPINFER_XGRAMMAR_TIMEOUT", "", false},
    {"DEEPINFER_YOCO_PREFILL_KEEP_TOKENS", "replay-keep"},
    {"DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE", "replay"},
    {"DEEPINFER_ZERO_OVERHEAD_SCHEDULING", "", false},
    // Ours.
    {"DEEPINFER_ACTIVATIONS", "activations"},
    {"DEEPINFER_ACT_QUANT", "act-quant"},
    {"DEEPINFER_CONTRACT_SWEEP", ""},  // the backends' contract test
    {"DEEPINFER_CPU_ISA", ""},         // backend/cpu: forces an instruction set
    {"DEEPINFER_KV_MEMORY", "kv-memory"},
    {"DEEPINFER_KV_QUANT", "kv-quant"},
    {"DEEPINFER_LOG_LEVEL", "log-level"},
    {"DEEPINFER_MAX_MODEL_LEN", "max-model-len"},
    {"DEEPINFER_MAX_NUM_BATCHED_TOKENS", "max-num-batched-tokens"},
    {"DEEPINFER_MAX_NUM_SEQS", "max-num-seqs"},
    {"DEEPINFER_TEST_TOKENIZER", ""},  // tests: the tokenizer file of the release
    {"DEEPINFER_THREADS", "threads"},
    {"DEEPINFER_WEIGHTS_MEMORY", "weights-memory"},
};

constexpr std::string_view kPrefix = "DEEPINFER_";

}  // namespace

const EnvironmentName* find_environment_name(std::string_view name) {
    const auto found =
        std::find_if(std::begin(kNames), std::end(kNames), [&](const EnvironmentName& row) { return row.name == name; });
    return found == std::end(kNames) ? nullptr : found;
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
