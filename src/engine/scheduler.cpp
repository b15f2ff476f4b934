#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "engine/limits.h"

namespace di {

namespace {

// The step that runs ends with a token for it, or did already: the next step has one row, and drafts.
bool will_decode(const Sequence& sequence) {
    return sequence.in_flight > 0 ? sequence.cached + sequence.in_flight >= sequence.length() : !sequence.is_prefilling();
}

bool is_ending(const Sequence& sequence) { return sequence.is_aborted || sequence.failure.has_value(); }

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options),
      blocks_(static_cast<int32_t>(options.block_count)),
      slots_(options.limits.max_num_seqs + options.limits.snapshot_slots),
      cache_(blocks_, slots_, {.snapshots_max = options.limits.snapshot_slots}),
      waiting_(options.behaviour.policy, options.behaviour.passed_max) {
    DI_CHECK(options.block_tokens > 0 && options.logit_rows_max > 0, "a scheduler without a model's sizes");
    running_.reserve(static_cast<size_t>(options.limits.max_num_seqs));
}

int64_t Scheduler::blocks_for(int64_t tokens) const { return (tokens + options_.block_tokens - 1) / options_.block_tokens; }

// --- sequences come and go --------------------------------------------------------

void Scheduler::add(Sequence& sequence) {
    sequence.phase = SequencePhase::kWaiting;
    extend_keys(sequence, sequence.length());
    waiting_.push(sequence);
}

void Scheduler::remove(Sequence& sequence) {
    DI_CHECK(sequence.in_flight == 0, "a sequence was removed while a step holds it");
    if (sequence.phase == SequencePhase::kWaiting) {
        waiting_.remove(sequence);
    }
    if (sequence.phase == SequencePhase::kRunning) {
        std::erase(running_, &sequence);
        release(sequence);
    }
    sequence.phase = SequencePhase::kFinished;
}

void Scheduler::release(Sequence& sequence) {
    blocks_.release_all(sequence.block_table);
    slots_.release(sequence.state_slot);
    sequence.state_slot = -1;
}

void Scheduler::extend_keys(Sequence& sequence, int32_t tokens) const {
    if (options_.has_prefix_cache) {
        extend_prefix_keys(sequence.key_root, std::span(sequence.tokens).first(static_cast<size_t>(tokens)),
                           sequence.key_images, options_.block_tokens, sequence.keys);
    }
}

std::span<const PrefixKey> Scheduler::usable_keys(const Sequence& sequence) const {
    const auto blocks = static_cast<size_t>((sequence.length() - 1) / options_.block_tokens);
    return std::span(sequence.keys).first(std::min(blocks, sequence.keys.size()));
}

int64_t Scheduler::prompt_rows_ahead() const {
    int64_t rows = waiting_.rows_wanted();
    for (const Sequence* sequence : running_) {
        rows += will_decode(*sequence) ? 0 : sequence->rows_wanted() - sequence->in_flight;
    }
    return rows;
}

// --- a plan -----------------------------------------------------------------------

void Scheduler::plan(const PlanLimits& limits, StepPlan& plan) {
    plan.rows.clear();
    plan.needs_commit = false;
    const int64_t decode_steps_before = decode_steps_;
    Budget budget{.rows = std::min(limits.rows_max, options_.limits.max_num_batched_tokens), .logits = options_.logit_rows_max};
    const StepKind kind = options_.behaviour.mixed_steps ? StepKind::kMixed : choose_kind();
    if (kind != StepKind::kPrompt) {
        plan_decode(limits, budget, plan);
    }
    if (kind != StepKind::kDecode && !plan.needs_commit) {
        plan_prompts(limits, budget, plan);
        if (!plan.needs_commit) {
            plan_admissions(budget, plan);
        }
    }
    if (kind == StepKind::kPrompt && plan.rows.empty() && !plan.needs_commit) {
        plan_decode(limits, budget, plan);  // no prompt found room
    }
    if (!plan.needs_commit) {
        plan_drafts(limits, budget, plan);
    }
    if (plan.needs_commit) {
        decode_steps_ = decode_steps_before;
        return;
    }
    ++step_;
    for (const PlannedRows& rows : plan.rows) {
        rows.sequence->last_step = step_;
        waiting_.charge(rows.sequence->user, rows.row_count);
    }
}

// Steps of one kind: prompts get a turn when nothing decodes, and every so many decode steps while there is room.
Scheduler::StepKind Scheduler::choose_kind() {
    const auto decodes = [](const Sequence* sequence) { return !is_ending(*sequence) && will_decode(*sequence); };
    const bool has_decode = std::any_of(running_.begin(), running_.end(), decodes);
    const bool has_prompt =
        !waiting_.empty() || std::any_of(running_.begin(), running_.end(), [&](const Sequence* s) { return !decodes(s); });
    const auto used = static_cast<double>(blocks_.used_count() - cache_.evictable_blocks());
    const bool has_room = used <= kPromptWatermark * static_cast<double>(blocks_.count());
    const bool is_turn = decode_steps_ % kPromptStepInterval == 0;
    if (has_prompt && (!has_decode || (is_turn && has_room))) {
        decode_steps_ = 0;
        return StepKind::kPrompt;
    }
    ++decode_steps_;
    return StepKind::kDecode;
}

void Scheduler::collect_running(bool in_decode) {
    order_.clear();
    for (Sequence* sequence : running_) {
        if (!is_ending(*sequence) && will_decode(*sequence) == in_decode) {
            order_.push_back(sequence);
        }
    }
}

void Scheduler::plan_decode(const PlanLimits& limits, Budget& budget, StepPlan& plan) {
    collect_running(true);
    // Where not all fit, who waited longest goes first.
    if (static_cast<int32_t>(order_.size()) > budget.rows) {
        std::stable_sort(order_.begin(), order_.end(),
                         [](const Sequence* left, const Sequence* right) { return left->last_step < right->last_step; });
    }
    for (Sequence* sequence : order_) {
        if (budget.rows == 0 || budget.logits == 0) {
            return;
        }
        if (sequence->phase != SequencePhase::kRunning) {
            continue;  // preempted for one before it
        }
        const int64_t tokens = int64_t{sequence->cached} + sequence->in_flight + 1;
        if (!reserve_or_preempt(*sequence, tokens, limits, plan)) {
            if (plan.needs_commit) {
                return;
            }
            continue;
        }
        plan.rows.push_back({.sequence = sequence, .row_count = 1, .is_decode = true});
        --budget.rows;
        --budget.logits;
    }
}

void Scheduler::plan_prompts(const PlanLimits& limits, Budget& budget, StepPlan& plan) {
    collect_running(false);
    for (Sequence* sequence : order_) {
        if (sequence->phase != SequencePhase::kRunning) {
            continue;
        }
        const int32_t from = sequence->cached + sequence->in_flight;
        const int32_t rows = chunk_rows(*sequence, sequence->length() - from, budget);
        if (rows == 0) {
            continue;
        }
        if (!reserve_or_preempt(*sequence, int64_t{from} + rows, limits, plan)) {
            if (plan.needs_commit) {
                return;
            }
            continue;
        }
        add_chunk(*sequence, rows, budget, plan);
    }
}

// Rows of a prompt that this step can take.
int32_t Scheduler::chunk_rows(const Sequence& sequence, int32_t rows_left, const Budget& budget) const {
    int32_t rows = std::min(rows_left, budget.rows);
    if (sequence.sampling.prompt_logprobs) {
        rows = std::min(rows, budget.logits);
    }
    const bool is_last = rows == rows_left;
    if (is_last && budget.logits == 0) {
        return 0;
    }
    return is_last || options_.behaviour.chunked_prefill ? rows : 0;
}

void Scheduler::add_chunk(Sequence& sequence, int32_t rows, Budget& budget, StepPlan& plan) {
    plan.rows.push_back({.sequence = &sequence, .row_count = rows});
    budget.rows -= rows;
    budget.logits -= sequence.sampling.prompt_logprobs ? rows : 1;
}

void Scheduler::plan_admissions(Budget& budget, StepPlan& plan) {
    while (budget.rows > 0 && budget.logits > 0 && !waiting_.empty() &&
           static_cast<int32_t>(running_.size()) < options_.limits.max_num_seqs) {
        waiting_.candidates(static_cast<size_t>(options_.behaviour.passed_max) + 1, candidates_);
        const auto chosen = std::find_if(candidates_.begin(), candidates_.end(),
                                         [&](Sequence* candidate) { return admit(*candidate, budget); });
        if (chosen == candidates_.end()) {
            return;
        }
        Sequence& sequence = **chosen;
        const int32_t rows = chunk_rows(sequence, sequence.rows_wanted(), budget);
        const bool has_blocks = reserve(sequence, int64_t{sequence.cached} + rows);
        DI_CHECK(rows > 0 && has_blocks, "a sequence was admitted without room for its first rows");
        add_chunk(sequence, rows, budget, plan);
    }
}

// Drafts take what is left: no one is preempted for them.
void Scheduler::plan_drafts(const PlanLimits& limits, Budget& budget, StepPlan& plan) {
    for (PlannedRows& rows : plan.rows) {
        if (!rows.is_decode || limits.drafts_max == 0) {
            continue;
        }
        Sequence& sequence = *rows.sequence;
        int32_t drafts = std::min({limits.drafts_max, budget.rows, budget.logits, sequence.drafts_useful()});
        const int64_t tokens = int64_t{sequence.cached} + sequence.in_flight + 1;
        while (drafts > 0 && !reserve(sequence, tokens + drafts)) {
            --drafts;
        }
        rows.drafts_max = drafts;
        budget.rows -= drafts;
        budget.logits -= drafts;
    }
}

// --- admission --------------------------------------------------------------------

// Blocks that a sequence is expected to take in all.
int64_t Scheduler::expected_blocks(const Sequence& sequence) const {
    const int64_t output = std::max<int64_t>(outputs_.tokens(), sequence.output_length());
    // The last token is never run.
    return blocks_for(std::min<int64_t>(sequence.length_max, int64_t{sequence.prompt_length} + output) - 1);
}

// Whether what runs and this one are expected to find blocks to their ends. Alone, any sequence may start: the whole cache is its.
bool Scheduler::fits(const Sequence& sequence, int64_t shared_blocks) const {
    if (running_.empty()) {
        return true;
    }
    int64_t wanted = std::max(expected_blocks(sequence), blocks_for(sequence.length())) - shared_blocks;
    for (const Sequence* other : running_) {
        wanted += std::max<int64_t>(0, expected_blocks(*other) - static_cast<int64_t>(other->block_table.size()));
    }
    return wanted <= available_blocks();
}

bool Scheduler::admit(Sequence& sequence, const Budget& budget) {
    const bool reads_cache = options_.has_prefix_cache && !sequence.sampling.prompt_logprobs;
    const int32_t cached_blocks = reads_cache ? cache_.peek(usable_keys(sequence)) : 0;
    const auto cached = static_cast<int32_t>(cached_blocks * options_.block_tokens);
    const int32_t rows = chunk_rows(sequence, sequence.length() - cached, budget);
    // Cached blocks count as wanted: those that it would use are not there to be evicted.
    if (rows == 0 || !fits(sequence, 0) || blocks_for(int64_t{cached} + rows) > available_blocks()) {
        return false;
    }
    const std::optional<int32_t> slot = take_slot();
    if (!slot) {
        return false;
    }
    waiting_.admit(sequence);
    sequence.state_slot = *slot;
    start(sequence);
    if (reads_cache) {
        attach_prefix(sequence);
    } else {
        sequence.cache_miss = options_.has_prefix_cache ? CacheMiss::kPromptRows : options_.no_cache_reason;
    }
    return true;
}

void Scheduler::start(Sequence& sequence) {
    sequence.phase = SequencePhase::kRunning;
    sequence.start_index = next_start_++;
    running_.push_back(&sequence);
}

// Starts behind the longest prefix that is cached with the state at its end.
void Scheduler::attach_prefix(Sequence& sequence) {
    const std::span<const PrefixKey> keys = usable_keys(sequence);
    PrefixMatch match = cache_.match(keys);
    sequence.block_table = std::move(match.blocks);
    sequence.cached = static_cast<int32_t>(match.block_count * options_.block_tokens);
    sequence.admitted_from = sequence.cached;
    if (match.block_count > 0) {
        copies_.slots.push_back({.from = match.snapshot_slot, .to = sequence.state_slot});
        copies_.slots_to_release.push_back(match.snapshot_slot);
    }
    if (sequence.output_length() > 0) {
        return;  // computed again: what counts is what its prompt found at first
    }
    sequence.counts.cached_tokens = std::min(sequence.cached, sequence.prompt_length);
    sequence.cache_miss = CacheMiss::kNone;
    if (match.block_count < static_cast<int32_t>(keys.size())) {
        sequence.cache_miss = match.known_block_count > match.block_count ? CacheMiss::kEvicted : CacheMiss::kNew;
    }
}

std::optional<int32_t> Scheduler::take_slot() {
    if (!slots_.can_allocate(1) && !cache_.evict_snapshots(1)) {
        return std::nullopt;
    }
    return slots_.allocate();
}

// --- blocks -----------------------------------------------------------------------

bool Scheduler::reserve(Sequence& sequence, int64_t tokens) {
    const int64_t missing = blocks_for(tokens) - static_cast<int64_t>(sequence.block_table.size());
    if (missing <= 0) {
        return true;
    }
    if (missing > available_blocks()) {
        return false;  // and nothing is evicted in vain
    }
    if (!blocks_.can_allocate(missing) && !cache_.evict_blocks(missing)) {
        return false;
    }
    blocks_.allocate(missing, sequence.block_table);
    return true;
}

bool Scheduler::reserve_or_preempt(Sequence& sequence, int64_t tokens, const PlanLimits& limits, StepPlan& plan) {
    while (!reserve(sequence, tokens)) {
        if (!limits.may_preempt) {
            plan.needs_commit = true;
            return false;
        }
        Sequence* victim = choose_victim();
        DI_CHECK(victim != nullptr, "no sequence runs, but blocks are missing");
        std::erase_if(plan.rows, [victim](const PlannedRows& rows) { return rows.sequence == victim; });
        preempt(*victim);
        if (victim == &sequence) {
            return false;
        }
    }
    return true;
}

// Lowest priority, then the one that started last: the oldest always goes on, so that all end. Computing it again is
// cheap as far as its prefix stays cached.
Sequence* Scheduler::choose_victim() const {
    Sequence* victim = nullptr;
    for (Sequence* sequence : running_) {
        const bool is_worse = victim == nullptr || sequence->priority < victim->priority ||
                              (sequence->priority == victim->priority && sequence->start_index > victim->start_index);
        if (is_worse && !is_ending(*sequence)) {
            victim = sequence;
        }
    }
    return victim;
}

void Scheduler::preempt(Sequence& sequence) {
    DI_CHECK(sequence.in_flight == 0, "a sequence was preempted while a step holds it");
    ++preemptions_;
    std::erase(running_, &sequence);
    // A copy into its slot that has not been made yet is void.
    std::erase_if(copies_.slots, [&](const CacheCopies::Pair& pair) { return pair.to == sequence.state_slot; });
    std::erase_if(copies_.blocks, [&](const CacheCopies::Pair& pair) {
        return std::find(sequence.block_table.begin(), sequence.block_table.end(), pair.to) != sequence.block_table.end();
    });
    release(sequence);
    sequence.cached = 0;
    sequence.drafts.clear();
    sequence.rates = {};
    if (options_.behaviour.stop_preempted) {
        sequence.phase = SequencePhase::kHeld;
        stopped_.push_back(&sequence);
        return;
    }
    add(sequence);
}

// --- what a step has done ----------------------------------------------------------

void Scheduler::plan_snapshots(Sequence& sequence, int32_t first, int32_t count, std::vector<StateSnapshot>& snapshots) {
    snapshots.clear();
    if (!options_.has_prefix_cache || options_.limits.snapshot_slots == 0) {
        return;
    }
    for (int64_t end = (first / options_.block_tokens + 1) * options_.block_tokens; end <= int64_t{first} + count;
         end += options_.block_tokens) {
        const auto block_end = static_cast<size_t>(end / options_.block_tokens);
        const bool is_known =
            block_end <= sequence.keys.size() && !cache_.needs_snapshot(std::span(sequence.keys).first(block_end));
        if (is_known) {
            continue;
        }
        // Running sequences come first: slots that they may still ask for stay theirs.
        const std::optional<int32_t> slot = take_slot();
        if (!slot) {
            return;
        }
        snapshots.push_back({.position = static_cast<int32_t>(end), .state_slot = *slot});
    }
}

void Scheduler::commit(Sequence& sequence, int32_t rows, const std::vector<StateSnapshot>& snapshots) {
    const auto block_tokens = static_cast<int32_t>(options_.block_tokens);
    const int32_t first_block = sequence.cached / block_tokens;
    sequence.cached += rows;
    DI_CHECK(sequence.cached <= sequence.length(), "more rows were committed than there are tokens");
    extend_keys(sequence, sequence.cached);
    auto snapshot = snapshots.begin();
    for (int32_t block = first_block; options_.has_prefix_cache && block < sequence.cached / block_tokens; ++block) {
        const int32_t end = (block + 1) * block_tokens;
        int32_t slot = -1;
        if (snapshot != snapshots.end() && snapshot->position == end) {
            slot = snapshot->state_slot;
            ++snapshot;
        }
        cache_.insert(std::span(sequence.keys).first(static_cast<size_t>(block) + 1),
                      sequence.block_table[static_cast<size_t>(block)], slot);
    }
    // Behind drafts that were refused.
    for (; snapshot != snapshots.end(); ++snapshot) {
        slots_.release(snapshot->state_slot);
    }
}

void Scheduler::release_slots(const std::vector<int32_t>& slots) {
    for (const int32_t slot : slots) {
        slots_.release(slot);
    }
}

bool Scheduler::fork(Sequence& parent, Sequence& sample) {
    DI_CHECK(parent.phase == SequencePhase::kRunning && parent.in_flight == 0, "a sample of a sequence that does not run");
    const int64_t whole_blocks = parent.cached / options_.block_tokens;
    const bool has_tail = parent.cached % options_.block_tokens != 0;
    const bool has_blocks = !has_tail || blocks_.can_allocate(1) || cache_.evict_blocks(1);
    if (static_cast<int32_t>(running_.size()) >= options_.limits.max_num_seqs || !has_blocks || !fits(sample, whole_blocks)) {
        return false;
    }
    const std::optional<int32_t> slot = take_slot();
    if (!slot) {
        return false;
    }
    sample.state_slot = *slot;
    copies_.slots.push_back({.from = parent.state_slot, .to = *slot});
    for (int64_t block = 0; block < whole_blocks; ++block) {
        const int32_t id = parent.block_table[static_cast<size_t>(block)];
        blocks_.share(id);
        sample.block_table.push_back(id);
    }
    if (has_tail) {
        const int32_t id = *blocks_.allocate();
        copies_.blocks.push_back({.from = parent.block_table[static_cast<size_t>(whole_blocks)], .to = id});
        sample.block_table.push_back(id);
    }
    sample.keys = parent.keys;
    sample.cached = parent.cached;
    start(sample);
    return true;
}

void Scheduler::check_invariants(int64_t slots_in_flight) const {
    int64_t owners = cache_.block_count();
    int64_t slot_owners = cache_.snapshot_count() + static_cast<int64_t>(copies_.slots_to_release.size()) + slots_in_flight;
    for (const Sequence* sequence : running_) {
        DI_CHECK(sequence->phase == SequencePhase::kRunning && sequence->state_slot >= 0, "a running sequence without a slot");
        DI_CHECK(sequence->cached <= sequence->length(), "more tokens cached than there are");
        DI_CHECK(blocks_for(sequence->cached) <= static_cast<int64_t>(sequence->block_table.size()), "rows without blocks");
        owners += static_cast<int64_t>(sequence->block_table.size());
        ++slot_owners;
    }
    int64_t counted = 0;
    for (int32_t id = 0; id < blocks_.count(); ++id) {
        counted += blocks_.owner_count(id);
    }
    DI_CHECK(counted == owners, "block owners do not add up");
    counted = 0;
    for (int32_t id = 0; id < slots_.count(); ++id) {
        counted += slots_.owner_count(id);
    }
    DI_CHECK(counted == slot_owners, "state slot owners do not add up");
    DI_CHECK(static_cast<int32_t>(running_.size()) <= options_.limits.max_num_seqs, "more sequences run than may");
}

}  // namespace di
