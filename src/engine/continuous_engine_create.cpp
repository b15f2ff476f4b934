// From limits to an engine: checks, sizes, memory.
#include <algorithm>

#include "base/check.h"
#include "engine/continuous_engine.h"
#include "engine/limits.h"

namespace di {

namespace {

Status check_limits(const EngineLimits& limits) {
    if (limits.max_model_len < 1 || limits.max_model_len > kModelLengthMax) {
        return fail(ErrorCode::kInvalidArgument, "max_model_len is {}, expected 1 .. {}", limits.max_model_len,
                    kModelLengthMax);
    }
    if (limits.max_num_seqs < 1 || limits.max_num_seqs > kSequencesMax) {
        return fail(ErrorCode::kInvalidArgument, "max_num_seqs is {}, expected 1 .. {}", limits.max_num_seqs, kSequencesMax);
    }
    if (limits.max_num_batched_tokens < 1 || limits.max_num_batched_tokens > kBatchedTokensMax) {
        return fail(ErrorCode::kInvalidArgument, "max_num_batched_tokens is {}, expected 1 .. {}",
                    limits.max_num_batched_tokens, kBatchedTokensMax);
    }
    if (limits.snapshot_slots < 0 || limits.snapshot_slots > kSnapshotSlotsMax) {
        return fail(ErrorCode::kInvalidArgument, "snapshot_slots is {}, expected 0 .. {}", limits.snapshot_slots,
                    kSnapshotSlotsMax);
    }
    if (limits.kv_memory_bytes < 0) {
        return fail(ErrorCode::kInvalidArgument, "kv_memory_bytes is {}, expected >= 0", limits.kv_memory_bytes);
    }
    return {};
}

// Blocks that the limits ask for. A model without growing cache has blocks of no bytes: as many as can be of use.
Result<int64_t> count_blocks(const CacheGeometry& geometry, const EngineLimits& limits) {
    if (limits.kv_memory_bytes == 0 || geometry.block_bytes == 0) {
        const int64_t blocks = (limits.max_model_len + geometry.block_tokens - 1) / geometry.block_tokens;
        return std::min<int64_t>(blocks * limits.max_num_seqs, INT32_MAX);
    }
    const int64_t blocks = limits.kv_memory_bytes / geometry.block_bytes;
    if (blocks < 1 || blocks > INT32_MAX) {
        return fail(ErrorCode::kInvalidArgument, "kv_memory_bytes is {}, expected room for 1 .. {} blocks of {} bytes",
                    limits.kv_memory_bytes, INT32_MAX, geometry.block_bytes);
    }
    return blocks;
}

Status check_behaviour(const EngineBehaviour& behaviour, const Model& model) {
    const int32_t depth_max = std::min(model.draft_depth_max(), model.geometry().backtrack_tokens);
    if (behaviour.drafts < -1 || behaviour.drafts > depth_max) {
        return fail(ErrorCode::kInvalidArgument, "drafts is {}, expected -1 (as many as the model drafts) or 0 .. {}",
                    behaviour.drafts, depth_max);
    }
    if (behaviour.passed_max < 0 || behaviour.queue_max < 0) {
        return fail(ErrorCode::kInvalidArgument, "passed_max is {} and queue_max {}, expected >= 0", behaviour.passed_max,
                    behaviour.queue_max);
    }
    const bool are_numbers =
        behaviour.step_ms_max >= 0.0 && behaviour.step_stretch_max >= 0.0 && behaviour.first_token_ms_max >= 0.0;
    if (!are_numbers) {
        return fail(ErrorCode::kInvalidArgument,
                    "step_ms_max is {}, step_stretch_max {} and first_token_ms_max {}, expected numbers >= 0",
                    behaviour.step_ms_max, behaviour.step_stretch_max, behaviour.first_token_ms_max);
    }
    if (behaviour.deterministic && model.replays()) {
        return fail(ErrorCode::kInvalidArgument, "a replay mode changes results, expected replay off in deterministic mode");
    }
    return {};
}

VerifyMode verify_mode(const EngineBehaviour& behaviour) {
    return behaviour.deterministic ? VerifyMode::kExact : behaviour.verify_mode;
}

int32_t draft_depth(const EngineBehaviour& behaviour, const Model& model) {
    const int32_t depth_max = std::min(model.draft_depth_max(), model.geometry().backtrack_tokens);
    return behaviour.drafts < 0 ? depth_max : behaviour.drafts;
}

SchedulerOptions scheduler_options(const Model& model, const EngineLimits& limits, const EngineBehaviour& behaviour,
                                   int64_t block_count) {
    SchedulerOptions options;
    options.limits = limits;
    options.behaviour = behaviour;
    options.block_tokens = model.geometry().block_tokens;
    options.block_count = block_count;
    options.logit_rows_max = model.logit_rows_max();
    // A prefix is of use only with the state at its end.
    options.has_prefix_cache = behaviour.prefix_cache && limits.snapshot_slots > 0 && !model.replays();
    options.no_cache_reason = model.replays() ? CacheMiss::kReplay : CacheMiss::kDisabled;
    return options;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(Model& model, Backend& backend, const EngineLimits& limits,
                                               const EngineBehaviour& behaviour, std::vector<int32_t> eos_token_ids) {
    static SystemClock clock;
    static SystemRandom random;
    DI_TRY(auto engine, ContinuousEngine::create(model, backend, limits, behaviour, std::move(eos_token_ids), clock, random));
    return std::unique_ptr<Engine>(std::move(engine));
}

Result<std::unique_ptr<ContinuousEngine>> ContinuousEngine::create(Model& model, Backend& backend, const EngineLimits& limits,
                                                                   const EngineBehaviour& behaviour,
                                                                   std::vector<int32_t> eos_token_ids, Clock& clock,
                                                                   Random& random) {
    DI_TRY_STATUS(check_limits(limits));
    DI_TRY_STATUS(check_behaviour(behaviour, model));
    const CacheGeometry& geometry = model.geometry();
    DI_CHECK(geometry.block_tokens > 0, "a cache geometry without block size");
    DI_TRY(const int64_t block_count, count_blocks(geometry, limits));
    for (const int32_t id : eos_token_ids) {
        if (id < 0 || id >= model.vocab_size()) {
            return fail(ErrorCode::kInvalidArgument, "the end token id is {}, expected 0 .. {}", id, model.vocab_size() - 1);
        }
    }
    DI_TRY(CacheStorage storage, CacheStorage::allocate(backend, {.block_bytes = geometry.block_bytes,
                                                                  .block_count = block_count,
                                                                  .state_bytes = geometry.state_bytes,
                                                                  .state_count = limits.max_num_seqs + limits.snapshot_slots}));
    return std::unique_ptr<ContinuousEngine>(
        new ContinuousEngine(model, backend, limits, behaviour, std::move(eos_token_ids), clock, random, std::move(storage)));
}

ContinuousEngine::ContinuousEngine(Model& model, Backend& backend, const EngineLimits& limits, const EngineBehaviour& behaviour,
                                   std::vector<int32_t> eos_token_ids, Clock& clock, Random& random, CacheStorage storage)
    : model_(model),
      backend_(backend),
      limits_(limits),
      behaviour_(behaviour),
      eos_token_ids_(std::move(eos_token_ids)),
      clock_(clock),
      random_(random),
      storage_(std::move(storage)),
      draft_depth_(draft_depth(behaviour, model)),
      scheduler_(scheduler_options(model, limits, behaviour, storage_.size().block_count)),
      policy_(draft_depth_, behaviour.scheduled_verify, verify_mode(behaviour)),
      runner_({.model = model, .backend = backend, .storage = storage_, .clock = clock}, verify_mode(behaviour)) {
    context_.block_tokens = model.geometry().block_tokens;
    context_.history_tokens = model.geometry().history_tokens;
    context_.embedding_size = model.has_vision() ? model.embedding_size() : 0;
    context_.embedding_dtype = backend.activation_dtype();
    context_.cache = {.blocks = storage_.blocks(), .states = storage_.states()};
    if (behaviour.asynchronous) {
        thread_ = std::make_unique<StepThread>();
    }
}

}  // namespace di
