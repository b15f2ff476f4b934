#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

// From a model directory and options to an engine that is ready: config, memory plan, weights, backend, model, pools.
namespace di {

enum class LoadFormat : uint8_t { kAuto, kDummy };

struct EngineOptions {
    std::string model_directory;
    LoadFormat load_format = LoadFormat::kAuto;
    std::string backend = "auto";
    int32_t threads = 0;  // 0: what the machine gives
    Activations activations = Activations::kF32;
    KvQuant kv_quant = KvQuant::kReference;
    ActQuant act_quant = ActQuant::kNone;
    Replay replay = Replay::kOff;
    int32_t replay_keep = 0;
    int32_t max_model_len = 0;           // 0: the model's, lowered to what the memory gives
    int32_t max_num_seqs = 0;            // 0: default
    int32_t max_num_batched_tokens = 0;  // 0: default
    int64_t kv_memory_bytes = 0;         // 0: what the limits above need
    int64_t snapshot_memory_bytes = -1;  // states at the ends of cached prefixes; -1: a share of the memory, 0: no prefix cache
    int64_t weights_memory_bytes = 0;    // 0: no limit; weights that must be resident may not need more
    bool logits_of_all_rows = false;     // room for logits of every row of a step
    uint64_t seed = 0;                   // of dummy weights
    EngineBehaviour behaviour{};
    // Of draft confidences, as in ModelOptions.
    std::vector<float> confidence_temperatures{};
};

// Every byte the process will hold, part by part, before anything is allocated.
struct MemoryPlan {
    int64_t weights_resident_bytes = 0;   // touched by every token
    int64_t weights_on_demand_bytes = 0;  // experts and tables: mapped, read when used
    int64_t kv_block_bytes = 0;
    int64_t kv_block_count = 0;
    int64_t state_slot_bytes = 0;
    int64_t state_slot_count = 0;
    int64_t workspace_bytes = 0;
    int64_t image_bytes = 0;      // most that embeddings of images take while their prompts run
    int64_t bytes_per_token = 0;  // growing cache of one token of context
    EngineLimits limits;          // as they will be used

    [[nodiscard]] int64_t cache_bytes() const { return kv_block_bytes * kv_block_count + state_slot_bytes * state_slot_count; }
    // What is allocated, and the weights in full.
    [[nodiscard]] int64_t total_bytes() const {
        return weights_resident_bytes + weights_on_demand_bytes + cache_bytes() + workspace_bytes + image_bytes;
    }
};

// No file is read. `memory_bytes` = what the machine has available; 0: ask it. The plan fills at most kMemoryShare of it
// (limits.h); weights that are read on demand need not fit. Limits that the options leave open are chosen: a context that
// does not fit once is lowered (and logged), cache blocks are as many as the sequences could use or as fit. Limits that were
// asked for and do not fit are kOutOfMemory.
[[nodiscard]] Result<MemoryPlan> plan_memory(const ModelConfig& config, const EngineOptions& options, int64_t memory_bytes);

// Gives the Engram class of every id of a vocabulary of this size (text/token_classes.h).
using TokenClasses = std::function<Result<std::vector<int32_t>>(int64_t vocab_size)>;

// Owns everything below the engine, in the order of destruction.
struct LoadedEngine {
    ModelConfig config;
    MemoryPlan plan;
    std::unique_ptr<Checkpoint> checkpoint;
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Model> model;
    std::unique_ptr<Engine> engine;
};

[[nodiscard]] Result<std::unique_ptr<LoadedEngine>> load_engine(const EngineOptions& options,
                                                                const TokenClasses& token_classes);

}  // namespace di
