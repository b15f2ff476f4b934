#include <algorithm>
#include <limits>

#include "base/log.h"
#include "base/memory.h"
#include "engine/limits.h"
#include "engine/load.h"
#include "engine/model_options.h"
#include "model/weight_plan.h"

namespace di {

namespace {

// An option within its range, or its default.
Result<int32_t> choose(std::string_view name, int32_t asked, int64_t most, int32_t otherwise) {
    if (asked < 0 || asked > most) {
        return fail(ErrorCode::kInvalidArgument, "{} is {}, expected 1 .. {} (or 0: default)", name, asked, most);
    }
    return asked == 0 ? otherwise : asked;
}

Status check_byte_options(const EngineOptions& options) {
    if (options.kv_memory_bytes < 0) {
        return fail(ErrorCode::kInvalidArgument, "kv_memory_bytes is {}, expected >= 0", options.kv_memory_bytes);
    }
    if (options.snapshot_memory_bytes < -1) {
        return fail(ErrorCode::kInvalidArgument, "snapshot_memory_bytes is {}, expected -1 (chosen) or >= 0",
                    options.snapshot_memory_bytes);
    }
    if (options.weights_memory_bytes < 0) {
        return fail(ErrorCode::kInvalidArgument, "weights_memory_bytes is {}, expected >= 0", options.weights_memory_bytes);
    }
    return {};
}

Result<EngineLimits> choose_limits(const ModelConfig& config, const EngineOptions& options) {
    const int64_t length_max = std::min<int64_t>(config.max_position_embeddings, kModelLengthMax);
    EngineLimits limits;
    DI_TRY(limits.max_model_len, choose("max_model_len", options.max_model_len, length_max, static_cast<int32_t>(length_max)));
    DI_TRY(limits.max_num_seqs, choose("max_num_seqs", options.max_num_seqs, kSequencesMax, kDefaultSequences));
    DI_TRY(limits.max_num_batched_tokens,
           choose("max_num_batched_tokens", options.max_num_batched_tokens, kBatchedTokensMax, kDefaultBatchedTokens));
    return limits;
}

int64_t blocks_for(int64_t tokens, const CacheGeometry& geometry) {
    return (tokens + geometry.block_tokens - 1) / geometry.block_tokens;
}

// Only one prompt is cut by the end of a step, so that the rows of a step and two cut images are the most.
int64_t image_embedding_bytes(const ModelConfig& config, const EngineLimits& limits) {
    if (!config.vision.present()) {
        return 0;
    }
    const int64_t tokens = limits.max_num_batched_tokens + 2 * config.vision.max_image_tokens;
    return tokens * config.hidden_size * static_cast<int64_t>(sizeof(float));
}

// Bytes of one token of context in parts that grow, without the padding of blocks.
int64_t token_bytes(const CacheGeometry& geometry) {
    int64_t bytes = 0;
    for (const BlockPart& part : geometry.blocks) {
        bytes += part.bytes;
    }
    return geometry.block_tokens == 0 ? 0 : bytes / geometry.block_tokens;
}

// One try: all parts of the plan for one choice of limits.
struct Planner {
    const ModelConfig& config;
    const EngineOptions& options;
    int64_t usable_bytes;  // all that may be taken

    // State slots for the ends of cached prefixes, one a block as far as that leaves enough for the blocks themselves.
    [[nodiscard]] int32_t snapshot_slots(const MemoryPlan& plan, int64_t blocks, int64_t left) const {
        const EngineBehaviour& behaviour = options.behaviour;
        if (!behaviour.prefix_cache || options.replay != Replay::kOff || options.snapshot_memory_bytes == 0) {
            return 0;
        }
        if (plan.state_slot_bytes == 0) {
            return 1;  // a model without state: fill_blocks gives every block its mark, which costs nothing
        }
        const auto share = static_cast<int64_t>(static_cast<double>(std::min(left, usable_bytes / 2)) * kSnapshotShare);
        const int64_t bytes = options.snapshot_memory_bytes < 0 ? share : std::min(options.snapshot_memory_bytes, left);
        return static_cast<int32_t>(
            std::clamp<int64_t>(bytes / plan.state_slot_bytes, 0, std::min<int64_t>(blocks, kSnapshotSlotsMax)));
    }

    // Everything but the blocks.
    [[nodiscard]] Result<MemoryPlan> fixed_parts(const EngineLimits& limits) const {
        const ModelOptions model_options = make_model_options(options, limits, {});
        DI_TRY(const CacheGeometry geometry, cache_geometry(config, model_options));
        const WeightBytes weights = weight_bytes(config);
        MemoryPlan plan;
        plan.limits = limits;
        plan.weights_resident_bytes = weights.resident;
        plan.weights_on_demand_bytes = weights.on_demand;
        plan.kv_block_bytes = geometry.block_bytes;
        plan.state_slot_bytes = geometry.state_bytes;
        plan.state_slot_count = limits.max_num_seqs;
        DI_TRY(plan.workspace_bytes, di::workspace_bytes(config, model_options, DType::kF32));
        plan.image_bytes = image_embedding_bytes(config, limits);
        plan.bytes_per_token = token_bytes(geometry);
        return plan;
    }

    // Bytes left for blocks; negative: the rest does not fit.
    [[nodiscard]] int64_t left_bytes(const MemoryPlan& plan) const {
        return usable_bytes - plan.weights_resident_bytes - plan.state_slot_bytes * plan.state_slot_count -
               plan.workspace_bytes - plan.image_bytes;
    }

    // Blocks of the plan with these limits; 0: not even one sequence of this length fits.
    [[nodiscard]] Result<MemoryPlan> try_limits(const EngineLimits& limits) const {
        DI_TRY(MemoryPlan plan, fixed_parts(limits));
        DI_TRY(const CacheGeometry geometry, cache_geometry(config, make_model_options(options, limits, {})));
        const int64_t one_sequence = blocks_for(limits.max_model_len, geometry);
        const int64_t left = left_bytes(plan);
        if (left < 0) {
            return plan;
        }
        const int64_t useful = one_sequence * limits.max_num_seqs;
        const int32_t snapshots = snapshot_slots(plan, useful, left);
        DI_TRY(MemoryPlan with_snapshots, fill_blocks(plan, snapshots, one_sequence, useful, left));
        // A prefix cache is of no use to a context that then does not fit.
        return with_snapshots.kv_block_count > 0 ? with_snapshots : fill_blocks(plan, 0, one_sequence, useful, left);
    }

    // The plan with as many snapshots and the blocks that the rest gives.
    [[nodiscard]] Result<MemoryPlan> fill_blocks(MemoryPlan plan, int32_t snapshots, int64_t one_sequence, int64_t useful,
                                                 int64_t left) const {
        plan.limits.snapshot_slots = snapshots;
        plan.state_slot_count += snapshots;
        left -= plan.state_slot_bytes * snapshots;
        int64_t blocks = useful;
        if (plan.kv_block_bytes > 0 && options.kv_memory_bytes > 0) {
            blocks = options.kv_memory_bytes / plan.kv_block_bytes;
        } else if (plan.kv_block_bytes > 0) {
            blocks = std::min(useful, left / plan.kv_block_bytes);
        }
        blocks = std::min<int64_t>(blocks, std::numeric_limits<int32_t>::max());
        const bool fits = blocks >= one_sequence && blocks * plan.kv_block_bytes <= left;
        plan.kv_block_count = fits ? blocks : 0;
        if (plan.state_slot_bytes == 0 && snapshots > 0) {
            plan.limits.snapshot_slots =
                static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(blocks, 1), kSnapshotSlotsMax));
            plan.state_slot_count = plan.limits.max_num_seqs + plan.limits.snapshot_slots;
        }
        return plan;
    }

    // The longest context that fits, on the grain of blocks; 0: none.
    [[nodiscard]] Result<int32_t> longest_length(EngineLimits limits) const {
        DI_TRY(const CacheGeometry geometry, cache_geometry(config, make_model_options(options, limits, {})));
        int64_t low = 0;  // blocks of a length that fits; what a step needs only grows with the length
        int64_t high = blocks_for(limits.max_model_len, geometry);
        while (high - low > 1) {
            const int64_t middle = low + (high - low) / 2;
            limits.max_model_len = static_cast<int32_t>(middle * geometry.block_tokens);
            DI_TRY(const MemoryPlan plan, try_limits(limits));
            (plan.kv_block_count > 0 ? low : high) = middle;
        }
        return static_cast<int32_t>(low * geometry.block_tokens);
    }

    // What is missing, in numbers.
    [[nodiscard]] tl::unexpected<Error> not_enough(const MemoryPlan& plan, int64_t blocks_wanted) const {
        if (options.kv_memory_bytes > 0 && options.kv_memory_bytes < blocks_wanted * plan.kv_block_bytes) {
            return fail(ErrorCode::kOutOfMemory,
                        "kv_memory_bytes is {}, expected at least {} ({} blocks of {} bytes for one context of {} tokens)",
                        options.kv_memory_bytes, blocks_wanted * plan.kv_block_bytes, blocks_wanted, plan.kv_block_bytes,
                        plan.limits.max_model_len);
        }
        const int64_t states = plan.state_slot_bytes * plan.state_slot_count;
        const int64_t blocks = std::max(blocks_wanted * plan.kv_block_bytes, options.kv_memory_bytes);
        return fail(
            ErrorCode::kOutOfMemory,
            "not enough memory: resident weights {}, {} state slots {}, workspace {}, images {}, cache of {} tokens {}, "
            "in all {}; {} may be used: lower max_model_len, max_num_seqs, max_num_batched_tokens or kv_memory_bytes",
            format_bytes(plan.weights_resident_bytes), plan.state_slot_count, format_bytes(states),
            format_bytes(plan.workspace_bytes), format_bytes(plan.image_bytes), plan.limits.max_model_len, format_bytes(blocks),
            format_bytes(plan.weights_resident_bytes + states + plan.workspace_bytes + plan.image_bytes + blocks),
            format_bytes(usable_bytes));
    }
};

Result<MemoryPlan> finish(MemoryPlan plan) {
    // The engine makes its blocks from this number.
    plan.limits.kv_memory_bytes = plan.kv_block_bytes * plan.kv_block_count;
    return plan;
}

Status check_weights(const MemoryPlan& plan, const EngineOptions& options) {
    if (options.weights_memory_bytes > 0 && plan.weights_resident_bytes > options.weights_memory_bytes) {
        return fail(ErrorCode::kOutOfMemory,
                    "weights that every token needs take {} ({} bytes), more than weights_memory_bytes {}",
                    format_bytes(plan.weights_resident_bytes), plan.weights_resident_bytes, options.weights_memory_bytes);
    }
    return {};
}

}  // namespace

Result<MemoryPlan> plan_memory(const ModelConfig& config, const EngineOptions& options, int64_t memory_bytes) {
    DI_TRY_STATUS(check_byte_options(options));
    DI_TRY(EngineLimits limits, choose_limits(config, options));
    const int64_t memory = memory_bytes > 0 ? memory_bytes : available_memory_bytes();
    const Planner planner{config, options, static_cast<int64_t>(static_cast<double>(memory) * kMemoryShare)};
    DI_TRY(MemoryPlan plan, planner.try_limits(limits));
    DI_TRY_STATUS(check_weights(plan, options));
    if (plan.kv_block_count > 0) {
        return finish(plan);
    }
    const int32_t asked = limits.max_model_len;
    const bool may_lower = options.max_model_len == 0;
    DI_TRY(limits.max_model_len, may_lower ? planner.longest_length(limits) : Result<int32_t>(0));
    if (limits.max_model_len == 0) {
        DI_TRY(const CacheGeometry geometry, cache_geometry(config, make_model_options(options, plan.limits, {})));
        if (may_lower) {
            // Not even one block: say what the smallest context would need.
            plan.limits.max_model_len = static_cast<int32_t>(std::min<int64_t>(asked, geometry.block_tokens));
            DI_TRY(plan, planner.fixed_parts(plan.limits));
        }
        return planner.not_enough(plan, blocks_for(plan.limits.max_model_len, geometry));
    }
    log_info(
        "max_model_len lowered from {} to {}: cache for more does not fit ({} of memory may be used, kv_memory_bytes is {})",
        asked, limits.max_model_len, format_bytes(planner.usable_bytes), options.kv_memory_bytes);
    DI_TRY(plan, planner.try_limits(limits));
    return finish(plan);
}

}  // namespace di
