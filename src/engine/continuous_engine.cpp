#include "engine/continuous_engine.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "engine/image_embeddings.h"
#include "engine/limits.h"
#include "engine/request_check.h"

namespace di {

namespace {

// Weight of the newest step in the running mean of a prompt row's time.
constexpr double kNewest = 0.2;

double microseconds(int64_t from_us, int64_t to_us) { return static_cast<double>(to_us - from_us); }

}  // namespace

ContinuousEngine::~ContinuousEngine() = default;

// --- one step --------------------------------------------------------------------

std::vector<StepOutput> ContinuousEngine::step() {
    expire_deadlines();
    enqueue_compiled();
    if (thread_ == nullptr) {
        if (plan_and_launch()) {
            finish_step();
        }
    } else if (running_ != nullptr || plan_and_launch()) {
        plan_next(false);
        finish_step();
        // What was planned may have ended, or must take room from what ran.
        if (plan_.needs_commit || !launch()) {
            (void)plan_and_launch();
        }
    }
    if (records_.empty() && running_ == nullptr && !blocked_.empty()) {
        clock_.wait_us(kCompilePollUs);  // nothing to do until a constraint is compiled
    }
    return take_records();
}

std::vector<StepOutput> ContinuousEngine::flush() {
    if (running_ != nullptr) {
        finish_step();
    }
    return take_records();
}

void ContinuousEngine::reset_prefix_cache() {
    DI_CHECK(running_ == nullptr, "the cache is reset behind flush()");
    scheduler_.cache().clear();
}

void ContinuousEngine::plan_next(bool may_preempt) {
    const int64_t start_us = clock_.now_us();
    scheduler_.plan({.rows_max = rows_max(), .drafts_max = draft_depth_, .may_preempt = may_preempt}, plan_);
    for (Sequence* sequence : std::exchange(scheduler_.stopped(), {})) {
        finish_with_error(*sequence, Error{ErrorCode::kUnavailable,
                                           "no cache blocks are left for this request (insufficient system resource)"});
    }
    stats_.schedule_us_total += microseconds(start_us, clock_.now_us());
}

double ContinuousEngine::expected_step_ms(int32_t rows, int32_t sequences) const {
    return policy_.expected_ms({.rows = rows, .sampled_rows = sequences});
}

// Rows that the next step may have so that it takes no longer than it may.
int32_t ContinuousEngine::rows_max() const {
    const int32_t most = limits_.max_num_batched_tokens;
    int32_t decoding = 0;
    for (const Sequence* sequence : scheduler_.running()) {
        decoding += sequence->output_length() > 0 ? 1 : 0;
    }
    double limit_ms = behaviour_.step_ms_max;
    if (behaviour_.step_stretch_max > 0.0 && decoding > 0) {
        const double stretched = behaviour_.step_stretch_max * expected_step_ms(decoding, decoding);
        limit_ms = limit_ms > 0.0 ? std::min(limit_ms, stretched) : stretched;
    }
    if (limit_ms <= 0.0) {
        return most;
    }
    // A step has room for what decodes and for some of a prompt, or prompts would never end.
    const int32_t least = std::min(most, decoding + kPromptRowsLeast);
    int32_t low = least;
    int32_t high = most;
    while (low < high) {
        const int32_t middle = low + (high - low + 1) / 2;
        if (expected_step_ms(middle, std::max(1, decoding)) <= limit_ms) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

// Nothing runs: plans with all that is known.
bool ContinuousEngine::plan_and_launch() {
    plan_next(true);
    const bool is_empty = plan_.rows.empty();
    DI_CHECK(!is_empty || scheduler_.waiting_count() == 0 || !records_.empty(), "requests wait, but no step can be made");
    return launch();
}

// Starts the planned step with what is known now. False: nothing is left of it.
bool ContinuousEngine::launch() {
    const int64_t start_us = clock_.now_us();
    StepWork& work = works_[next_work_];
    fill_work(work);
    stats_.schedule_us_total += microseconds(start_us, clock_.now_us());
    if (work.used == 0) {
        return false;
    }
    next_work_ = 1 - next_work_;
    start(work);
    return true;
}

void ContinuousEngine::fill_work(StepWork& work) {
    choose_drafts();
    work.used = 0;
    work.context_tokens = 0;
    work.prompt_rows = 0;
    if (work.rows.size() < plan_.rows.size()) {
        work.rows.resize(plan_.rows.size());
    }
    for (size_t i = 0; i < plan_.rows.size(); ++i) {
        StepRows& rows = work.rows[work.used];
        if (!fill_rows(plan_.rows[i], draft_counts_[i], rows)) {
            continue;
        }
        ++work.used;
        work.context_tokens += int64_t{rows.row_count} * (rows.first_position + rows.row_count);
        work.prompt_rows += plan_.rows[i].is_decode ? 0 : rows.row_count;
    }
    if (work.used == 0) {
        return;  // copies wait for the step that needs them
    }
    std::swap(work.copies, scheduler_.copies());
    scheduler_.copies().clear();
    const DraftPolicy::Round round = policy_.next_round(static_cast<int32_t>(work.used), work.prompt_rows > 0);
    work.draft_depth = round.depth;
    work.draft_sequences_max = round.sequences_max;
    build_batch(context_, work);
}

// How many of the drafts that are there each planned sequence verifies.
void ContinuousEngine::choose_drafts() {
    draft_states_.clear();
    VerifyRoom room;
    for (const PlannedRows& planned : plan_.rows) {
        const Sequence& sequence = *planned.sequence;
        const bool is_there = planned.is_decode && sequence.phase == SequencePhase::kRunning;
        const int32_t count =
            is_there ? std::min({planned.drafts_max, static_cast<int32_t>(sequence.drafts.size()), sequence.drafts_useful()})
                     : 0;
        room.context_sum += int64_t{planned.row_count} * sequence.length();
        if (!planned.is_decode) {
            room.base_rows += planned.row_count;
            continue;
        }
        draft_states_.push_back({.draft_count = count,
                                 .context_tokens = sequence.length(),
                                 .rates = sequence.rates.current,
                                 .previous_rates = sequence.rates.previous});
    }
    chosen_drafts_.assign(draft_states_.size(), 0);
    room.rows_max = limits_.max_num_batched_tokens - room.base_rows;
    if (draft_depth_ > 0 && !draft_states_.empty()) {
        policy_.choose(draft_states_, room, chosen_drafts_);
    }
    draft_counts_.clear();
    auto chosen = chosen_drafts_.begin();
    for (const PlannedRows& planned : plan_.rows) {
        draft_counts_.push_back(planned.is_decode ? *chosen++ : 0);
    }
}

bool ContinuousEngine::fill_rows(const PlannedRows& planned, int32_t drafts, StepRows& rows) {
    Sequence& sequence = *planned.sequence;
    if (sequence.phase != SequencePhase::kRunning) {
        return false;  // it has ended since the plan was made
    }
    DI_CHECK(!planned.is_decode || sequence.rows_wanted() == 1, "a sequence in decode has one row, and drafts");
    rows.sequence = &sequence;
    rows.first_position = sequence.cached;
    rows.drafts.assign(sequence.drafts.begin(), sequence.drafts.begin() + drafts);
    rows.draft_rates = sequence.rates.current;
    rows.draft_rates.resize(static_cast<size_t>(drafts));
    rows.row_count = planned.row_count + drafts;
    rows.draws_token = planned.row_count == sequence.rows_wanted();
    rows.verified = {};
    rows.samples.clear();
    if (Status status = reserve_image_embeddings(model_, backend_, sequence, rows.first_position, rows.row_count); !status) {
        finish_with_error(sequence, std::move(status.error()));
        return false;
    }
    for (Sequence* sample : sequence.samples) {
        if (rows.draws_token && sample->phase == SequencePhase::kHeld) {
            sample->is_drawn_by_step = true;
            rows.samples.push_back({.sequence = sample, .verified = {}});
        }
    }
    scheduler_.plan_snapshots(sequence, rows.first_position, rows.row_count, rows.snapshots);
    sequence.in_flight = rows.row_count;
    if (sequence.times.first_row_us < 0) {
        sequence.times.first_row_us = clock_.now_us();
        stats_.cached_tokens += sequence.counts.cached_tokens;
    }
    return true;
}

void ContinuousEngine::start(StepWork& work) {
    running_ = &work;
    if (result_us_ >= 0) {
        stats_.cpu_bubble_us_total += microseconds(result_us_, clock_.now_us());
    }
    if (thread_ == nullptr) {
        fill_masks(work, model_.vocab_size());
        runner_.run(work);
        return;
    }
    masks_ready_.store(false, std::memory_order_relaxed);
    thread_->start([this, &work] { runner_.run(work, &masks_ready_); });
    fill_masks(work, model_.vocab_size());  // while the model computes
    masks_ready_.store(true, std::memory_order_release);
    masks_ready_.notify_all();
}

// Waits for the step that runs and takes its results.
void ContinuousEngine::finish_step() {
    if (thread_ != nullptr) {
        thread_->wait();
    }
    const int64_t start_us = clock_.now_us();
    result_us_ = start_us;
    StepWork& work = *std::exchange(running_, nullptr);
    scheduler_.release_slots(work.copies.slots_to_release);
    for (StepRows& rows : work.used_rows()) {
        commit(rows);
    }
    learn(work);
    stats_.schedule_us_total += microseconds(start_us, clock_.now_us());
}

void ContinuousEngine::commit(StepRows& rows) {
    Sequence& sequence = *rows.sequence;
    sequence.in_flight = 0;
    for (DrawnTokens& sample : rows.samples) {
        sample.sequence->is_drawn_by_step = false;
    }
    sequence.prompt_logprobs.insert(sequence.prompt_logprobs.end(), rows.prompt_logprobs.begin(), rows.prompt_logprobs.end());
    std::move(rows.top_prompt_logprobs.begin(), rows.top_prompt_logprobs.end(),
              std::back_inserter(sequence.top_prompt_logprobs));
    const auto known_rows = rows.row_count - static_cast<int32_t>(rows.drafts.size());
    if (sequence.is_aborted || sequence.failure || rows.prompt_error) {
        scheduler_.commit(sequence, known_rows, rows.snapshots);
        std::optional<Error> error = sequence.failure ? sequence.failure : rows.prompt_error;
        end_or_mark(sequence, std::move(error));
        return;
    }
    StepOutput output;
    output.draft_token_ids = rows.drafts;
    output.accepted_drafts = rows.verified.accepted_drafts;
    sequence.counts.drafted_tokens += static_cast<int64_t>(rows.drafts.size());
    sequence.counts.accepted_tokens += rows.verified.accepted_drafts;
    // Rows of drafts count as far as the drafts were taken; the last token drawn has no row yet.
    const auto drawn = static_cast<int32_t>(rows.verified.tokens.size());
    const int32_t kept_rows = known_rows + std::max(0, drawn - 1);
    take_tokens(sequence, rows.verified, output);
    scheduler_.commit(sequence, kept_rows, rows.snapshots);
    drop_passed_images(sequence);
    if (!rows.draws_token) {
        return;
    }
    if (sequence.sample_index == 0 && sequence.output_length() == drawn) {
        output.prompt_logprobs = std::exchange(sequence.prompt_logprobs, {});
        output.top_prompt_logprobs = std::exchange(sequence.top_prompt_logprobs, {});
    }
    commit_samples(rows);
    if (output.finish != FinishReason::kNone) {
        finish(sequence, std::move(output));
        return;
    }
    take_drafts(rows);
    record(sequence, std::move(output));
}

// Tokens of a sequence into the sequence and its record.
void ContinuousEngine::take_tokens(Sequence& sequence, VerifyResult& verified, StepOutput& output) {
    if (verified.tokens.empty() && !verified.error) {
        return;
    }
    const int64_t now_us = clock_.now_us();
    if (sequence.times.prefill_done_us < 0) {
        sequence.times.prefill_done_us = now_us;
    }
    if (sequence.times.first_token_us < 0 && !verified.tokens.empty()) {
        sequence.times.first_token_us = now_us;
    }
    sequence.tokens.insert(sequence.tokens.end(), verified.tokens.begin(), verified.tokens.end());
    stats_.output_tokens += static_cast<int64_t>(verified.tokens.size());
    output.token_ids = std::move(verified.tokens);
    output.logprobs = std::move(verified.logprobs);
    output.top_logprobs = std::move(verified.top_logprobs);
    output.finish = verified.error ? FinishReason::kError : verified.finish;
    output.error = std::move(verified.error);
}

// The other samples have their first token from the same row. Those that find room go on from a copy of the state, the others run the prompt
// again when there is, mostly from the cache; their answers are the same.
void ContinuousEngine::commit_samples(StepRows& rows) {
    Sequence& parent = *rows.sequence;
    for (DrawnTokens& drawn : rows.samples) {
        Sequence& sample = *drawn.sequence;
        if (sample.is_aborted || sample.failure) {
            end_or_mark(sample, std::move(sample.failure));
            continue;
        }
        StepOutput output;
        sample.times.first_row_us = parent.times.first_row_us;
        sample.counts.cached_tokens = parent.counts.cached_tokens;
        sample.cache_miss = parent.cache_miss;
        take_tokens(sample, drawn.verified, output);
        if (output.finish != FinishReason::kNone) {
            finish(sample, std::move(output));
            continue;
        }
        record(sample, std::move(output));
        if (!scheduler_.fork(parent, sample)) {
            scheduler_.add(sample);
        }
    }
    parent.samples.clear();
}

void ContinuousEngine::take_drafts(StepRows& rows) {
    Sequence& sequence = *rows.sequence;
    sequence.drafts.swap(rows.next_drafts);
    sequence.draft_distributions.swap(rows.next_distributions);
    sequence.rates.previous.swap(sequence.rates.current);
    sequence.rates.current.clear();
    float rate = 1.0F;
    for (const float confidence : rows.confidences) {
        rate *= confidence;
        sequence.rates.current.push_back(rate);
    }
}

// What the step says about time and acceptance.
void ContinuousEngine::learn(StepWork& work) {
    ++stats_.steps;
    stats_.prompt_tokens += work.prompt_rows;
    const double total_ms = work.times.forward_ms + work.times.sample_ms + work.times.draft_ms;
    stats_.model_ms_total += total_ms;
    const int32_t rows = work.batch.row_count();
    if (work.prompt_rows > 0) {
        const double row_ms = total_ms / static_cast<double>(rows);
        prompt_row_ms_ = prompt_row_ms_ <= 0.0 ? row_ms : prompt_row_ms_ + kNewest * (row_ms - prompt_row_ms_);
    }
    outcomes_.clear();
    int32_t sampled_rows = 0;
    for (StepRows& step : work.used_rows()) {
        sampled_rows += step.logit_row_count;
        if (!step.drafts.empty()) {
            ++stats_.draft_rounds;
            stats_.drafted_tokens += static_cast<int64_t>(step.drafts.size());
            stats_.accepted_tokens += step.verified.accepted_drafts;
            outcomes_.push_back({.verified = static_cast<int32_t>(step.drafts.size()),
                                 .accepted = step.verified.accepted_drafts,
                                 .rates = step.draft_rates});
        }
    }
    policy_.record({.times = {.rows = rows,
                              .context_sum = work.context_tokens,
                              .model_ms = work.times.forward_ms,
                              .sampled_rows = sampled_rows,
                              .sampler_ms = work.times.sample_ms,
                              .draft_rows = work.draft_rows,
                              .draft_ms = work.times.draft_ms},
                    .outcomes = outcomes_,
                    .routing = model_.routing_counts()});
}

EngineStats ContinuousEngine::stats() const {
    EngineStats stats = stats_;
    stats.verified_by_position = policy_.statistics().verified_by_position();
    stats.accepted_by_position = policy_.statistics().accepted_by_position();
    stats.preemptions = scheduler_.preemptions();
    stats.running = static_cast<int32_t>(scheduler_.running().size());
    stats.waiting = static_cast<int32_t>(scheduler_.waiting_count() + static_cast<int64_t>(blocked_.size()));
    stats.blocks_used = scheduler_.blocks().used_count();
    stats.blocks_cached = scheduler_.evictable_blocks();
    stats.blocks_total = scheduler_.blocks().count();
    return stats;
}

void ContinuousEngine::check_invariants() const {
    int64_t slots_in_flight = 0;
    if (running_ != nullptr) {
        slots_in_flight += static_cast<int64_t>(running_->copies.slots_to_release.size());
        for (size_t i = 0; i < running_->used; ++i) {
            slots_in_flight += static_cast<int64_t>(running_->rows[i].snapshots.size());
        }
    }
    scheduler_.check_invariants(slots_in_flight);
}

}  // namespace di
