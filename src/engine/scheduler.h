#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/output_estimate.h"
#include "engine/sequence.h"
#include "engine/waiting_queue.h"
#include "kv/block_pool.h"
#include "kv/prefix_cache.h"

namespace di {

struct SchedulerOptions {
    EngineLimits limits;
    EngineBehaviour behaviour;
    int64_t block_tokens = 0;
    int64_t block_count = 0;
    int32_t logit_rows_max = 0;  // of a step
    bool has_prefix_cache = true;
    CacheMiss no_cache_reason = CacheMiss::kDisabled;  // when there is none
};

// Cache memory to copy before a step runs, in this order.
struct CacheCopies {
    struct Pair {
        int32_t from = 0;
        int32_t to = 0;
    };
    std::vector<Pair> slots;
    std::vector<Pair> blocks;
    std::vector<int32_t> slots_to_release;  // once copied

    void clear() {
        slots.clear();
        blocks.clear();
        slots_to_release.clear();
    }
};

// Rows of one sequence in a plan. Positions follow when the step before has been committed.
struct PlannedRows {
    Sequence* sequence = nullptr;
    int32_t row_count = 0;  // of a prompt; 1 in decode
    bool is_decode = false;
    int32_t drafts_max = 0;  // rows and blocks are there for as many drafts
};

struct PlanLimits {
    int32_t rows_max = 0;     // of this step, at most the engine's
    int32_t drafts_max = 0;   // of a sequence
    bool may_preempt = true;  // false: a step runs, nothing that it uses can be taken
};

struct StepPlan {
    std::vector<PlannedRows> rows;
    // Room must be taken from a sequence of the step that runs: commit that one, then plan again.
    bool needs_commit = false;
};

// Decides which rows run next. A pure state machine over sequences and ids of cache pieces: no I/O, no clock, no memory but its
// own; the same calls give the same plans. Owns the pools and the prefix cache, not the sequences.
//
// A step takes one row of every sequence in decode, then rows of prompts that run already, then prompts that wait, then drafts, as far as
// the row budget goes. Blocks are taken as rows need them. When none is left, cached prefixes go first, then the
// sequence of lowest priority that started last is preempted: it waits again with all its tokens.
class Scheduler {
  public:
    explicit Scheduler(const SchedulerOptions& options);

    // A new sequence, in phase kWaiting. Its keys are made here.
    void add(Sequence& sequence);
    // Takes a sequence out, whatever its phase; no step may hold it. What it has run stays in the prefix cache.
    void remove(Sequence& sequence);

    void plan(const PlanLimits& limits, StepPlan& plan);
    // Copies that the next step must make first.
    [[nodiscard]] CacheCopies& copies() { return copies_; }

    // State slots for the block ends that rows [first, first + count) of the sequence pass, as far as there are slots to spare.
    void plan_snapshots(Sequence& sequence, int32_t first, int32_t count, std::vector<StateSnapshot>& snapshots);
    // `rows` of the sequence's rows in the step count. Whole blocks and the snapshots within them join the prefix cache; snapshots behind them
    // are given back. Tokens must have been appended before.
    void commit(Sequence& sequence, int32_t rows, const std::vector<StateSnapshot>& snapshots);
    // A sample of `parent`, whose prompt has just run, starts with copies of its state. False: no room; it waits.
    bool fork(Sequence& parent, Sequence& sample);
    void release_slots(const std::vector<int32_t>& slots);  // of copies that have been made
    // A sequence that ended by itself, for what is expected of others.
    void learn_length(const Sequence& sequence) { outputs_.record(sequence.output_length()); }

    [[nodiscard]] const std::vector<Sequence*>& running() const { return running_; }
    [[nodiscard]] int64_t waiting_count() const { return waiting_.size(); }
    // Rows of prompts that come before a request that arrives now.
    [[nodiscard]] int64_t prompt_rows_ahead() const;
    [[nodiscard]] const BlockPool& blocks() const { return blocks_; }
    [[nodiscard]] const BlockPool& slots() const { return slots_; }
    [[nodiscard]] PrefixCache& cache() { return cache_; }
    [[nodiscard]] int64_t evictable_blocks() const { return cache_.evictable_blocks(); }
    [[nodiscard]] int64_t preemptions() const { return preemptions_; }
    // Sequences that lost their room and may not be computed again; the caller ends them.
    [[nodiscard]] std::vector<Sequence*>& stopped() { return stopped_; }
    // Ends the process when a promise is broken (engine.md 22). For tests and simulation.
    // slots_in_flight: snapshots of the step that runs.
    void check_invariants(int64_t slots_in_flight) const;

  private:
    struct Budget {
        int32_t rows = 0;
        int32_t logits = 0;
    };
    enum class StepKind : uint8_t { kMixed, kDecode, kPrompt };

    [[nodiscard]] StepKind choose_kind();
    void plan_decode(const PlanLimits& limits, Budget& budget, StepPlan& plan);
    void plan_prompts(const PlanLimits& limits, Budget& budget, StepPlan& plan);
    void plan_admissions(Budget& budget, StepPlan& plan);
    void plan_drafts(const PlanLimits& limits, Budget& budget, StepPlan& plan);

    [[nodiscard]] int32_t chunk_rows(const Sequence& sequence, int32_t rows_left, const Budget& budget) const;
    void add_chunk(Sequence& sequence, int32_t rows, Budget& budget, StepPlan& plan);
    [[nodiscard]] bool admit(Sequence& sequence, const Budget& budget);
    [[nodiscard]] bool fits(const Sequence& sequence, int64_t shared_blocks) const;
    void attach_prefix(Sequence& sequence);
    void start(Sequence& sequence);

    // Blocks for tokens [0, tokens) of the sequence, from what is free or only cached.
    [[nodiscard]] bool reserve(Sequence& sequence, int64_t tokens);
    // The same, at the cost of others. False: the sequence itself was preempted, or the plan must wait for a commit.
    [[nodiscard]] bool reserve_or_preempt(Sequence& sequence, int64_t tokens, const PlanLimits& limits, StepPlan& plan);
    [[nodiscard]] Sequence* choose_victim() const;
    void preempt(Sequence& sequence);
    void release(Sequence& sequence);
    [[nodiscard]] std::optional<int32_t> take_slot();
    void extend_keys(Sequence& sequence, int32_t tokens) const;
    // Keys of the blocks that the sequence could take from the cache: the row of its last token must run.
    [[nodiscard]] std::span<const PrefixKey> usable_keys(const Sequence& sequence) const;
    // Into order_: running sequences that go on, those in decode or those in their prompts.
    void collect_running(bool in_decode);
    [[nodiscard]] int64_t available_blocks() const { return blocks_.free_count() + cache_.evictable_blocks(); }
    [[nodiscard]] int64_t blocks_for(int64_t tokens) const;
    [[nodiscard]] int64_t expected_blocks(const Sequence& sequence) const;

    SchedulerOptions options_;
    BlockPool blocks_;
    BlockPool slots_;
    PrefixCache cache_;
    WaitingQueue waiting_;
    OutputEstimate outputs_;
    std::vector<Sequence*> running_;  // by start_index
    std::vector<Sequence*> stopped_;
    CacheCopies copies_;
    int64_t step_ = 0;
    int64_t next_start_ = 0;
    int64_t preemptions_ = 0;
    int64_t decode_steps_ = 0;           // since the last prompt step; separate steps only
    std::vector<Sequence*> order_;       // scratch of a plan
    std::vector<Sequence*> candidates_;  // scratch of a plan
};

}  // namespace di
