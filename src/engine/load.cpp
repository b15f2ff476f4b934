#include "engine/load.h"

#include <utility>

#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "engine/limits.h"
#include "engine/model_options.h"

namespace di {

namespace {

// More threads than this is a typing error, not a machine.
constexpr int32_t kThreadsMax = 4096;

Result<std::unique_ptr<Backend>> make_backend(const EngineOptions& options) {
    if (options.threads < 0 || options.threads > kThreadsMax) {
        return fail(ErrorCode::kInvalidArgument, "threads is {}, expected 0 (as the machine gives) .. {}", options.threads,
                    kThreadsMax);
    }
    const int threads = options.threads > 0 ? options.threads : usable_cpu_count();
    return create_backend(options.backend, {.threads = threads, .activations = options.activations});
}

Result<std::unique_ptr<Checkpoint>> open_checkpoint(const EngineOptions& options, const ModelConfig& config) {
    if (options.load_format == LoadFormat::kDummy && !config.file_dtypes.empty()) {
        return fail(ErrorCode::kInvalidArgument, "load-format is dummy, expected auto for the GGUF file {}",
                    options.model_directory);
    }
    if (options.load_format == LoadFormat::kDummy) {
        DI_TRY(Checkpoint dummy, Checkpoint::dummy(config, options.seed));
        return std::make_unique<Checkpoint>(std::move(dummy));
    }
    DI_TRY(Checkpoint checkpoint, Checkpoint::open(options.model_directory, config));
    return std::make_unique<Checkpoint>(std::move(checkpoint));
}

void log_plan(const MemoryPlan& plan) {
    log_info("memory plan: weights {} resident, {} on demand; cache {} ({} blocks, {} state slots); activations {}; in all {}",
             format_bytes(plan.weights_resident_bytes), format_bytes(plan.weights_on_demand_bytes),
             format_bytes(plan.cache_bytes()), plan.kv_block_count, plan.state_slot_count,
             format_bytes(plan.workspace_bytes + plan.image_bytes), format_bytes(plan.total_bytes()));
}

}  // namespace

Result<std::unique_ptr<LoadedEngine>> load_engine(const EngineOptions& options, const TokenClasses& token_classes) {
    auto loaded = std::make_unique<LoadedEngine>();
    DI_TRY(loaded->config, load_model_config(options.model_directory));
    DI_TRY(loaded->plan, plan_memory(loaded->config, options, 0));
    log_plan(loaded->plan);
    DI_TRY(loaded->backend, make_backend(options));
    std::vector<int32_t> classes;  // the model checks them
    if (loaded->config.engram.present()) {
        DI_TRY(classes, token_classes(loaded->config.vocab_size));
    }
    DI_TRY(loaded->checkpoint, open_checkpoint(options, loaded->config));
    const ModelOptions model_options = make_model_options(options, loaded->plan.limits, std::move(classes));
    DI_TRY(loaded->model, create_model(loaded->config, *loaded->checkpoint, *loaded->backend, model_options));
    DI_TRY(loaded->engine, Engine::create(*loaded->model, *loaded->backend, loaded->plan.limits, options.behaviour,
                                          loaded->config.end_token_ids()));
    return loaded;
}

}  // namespace di
