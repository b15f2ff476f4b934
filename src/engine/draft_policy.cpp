#include "engine/draft_policy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "engine/limits.h"

namespace di {

namespace {

// A median of five survives two interrupted steps.
constexpr int32_t kTriesMin = 5;
// Fewer steps of a number of rows have cost at most so much more than others will.
constexpr double kFewTriesShare = 0.75;
// Of the time of every step, for tries.
constexpr double kTryShare = 1.0 / 256.0;
// Steps without drafts that tries may cost before they are paid for: nothing is known without the first of them.
constexpr double kOverdraftSteps = 2.0;
// One try each of the wrong numbers of rows, as bad as a lost step or two, is then below half a percent.
constexpr int64_t kRetrySteps = 1024;
// Even what looks hopeless is tried again: the first steps of a process also pay for reading the weights.
constexpr int64_t kLateRetrySteps = 4096;
constexpr float kTypicalSmoothing = 1.0F / 32.0F;
// Steps at a number of rows until a gap ends there.
constexpr int32_t kGapTries = 3;
// What a clock cannot see still takes time.
constexpr double kLeastMs = 1e-9;
// What a number of rows has to promise to be tried, relative to the best that is known.
constexpr double kWorthwhile = 1.01;

}  // namespace

DraftPolicy::DraftPolicy(int32_t depth, bool scheduled, VerifyMode mode)
    : depth_(depth), scheduled_(scheduled), mode_(mode), statistics_(depth) {
    DI_CHECK(depth >= 0, "a negative number of drafts was asked for");
}

DraftPolicy::Round DraftPolicy::next_round(int32_t sequences, bool has_prompts) {
    if (depth_ == 0 || sequences == 0) {
        return {};
    }
    if (!scheduled_) {
        return {.depth = depth_, .sequences_max = sequences};
    }
    const int32_t drafting = gate_.next_step(sequences, !has_prompts && may_probe_);
    return {.depth = drafting > 0 ? depth_ : 0, .sequences_max = drafting};
}

void DraftPolicy::choose(std::span<const DraftState> sequences, const VerifyRoom& room,
                         std::vector<int32_t>& drafts_to_verify) {
    drafts_to_verify.assign(sequences.size(), 0);
    const Plan plan = make_plan(sequences, room);
    step_ = {.rows = plan.base_rows == 0 ? plan.sequences : -1,
             .sequences = plan.sequences,
             .tokens = static_cast<double>(plan.sequences),
             .plain_ms = plain_ms(plan)};
    may_probe_ = may_try() && plain_steps(plan.sequences).is_known();
    if (plan.rows_end == plan.sequences) {
        return;
    }
    correct_rates(sequences, room);
    const int32_t total = scheduled_ ? choose_total(plan) : plan.rows_end;
    split_verify_rows(rates_, total, rows_);
    learn_typical_rates(sequences);  // behind the choice, which they must not see
    for (size_t i = 0; i < rows_.size(); ++i) {
        drafts_to_verify[i] = rows_[i] - 1;
    }
}

void DraftPolicy::record(const StepSample& sample) {
    judge(sample.times);
    overlap_.record(sample.routing);
    StepTimes times = sample.times;
    times.experts = sample.routing.layer_count > 0 ? overlap_.touched() : overlap_.expected(times.rows);
    cost_.record(times);
    for (const VerifyOutcome& outcome : sample.outcomes) {
        statistics_.record(outcome);
    }
    statistics_.end_step();
}

double DraftPolicy::expected_ms(const StepShape& shape) const {
    return cost_.model_ms(shape.rows, shape.context_sum, overlap_.expected(shape.rows)) + cost_.sampler_ms(shape.sampled_rows) +
           cost_.draft_ms(shape.draft_rows);
}

DraftPolicy::Plan DraftPolicy::make_plan(std::span<const DraftState> sequences, const VerifyRoom& room) const {
    const auto count = static_cast<int32_t>(sequences.size());
    DI_CHECK(room.rows_max >= count, "a step has less room than one row a sequence");
    int32_t drafts = 0;
    int32_t drafted = 0;
    int64_t context = 0;
    for (const DraftState& sequence : sequences) {
        DI_CHECK(sequence.draft_count >= 0 && sequence.draft_count <= depth_, "a sequence has more drafts than a round makes");
        drafts += sequence.draft_count;
        drafted += sequence.draft_count > 0 ? 1 : 0;
        context += sequence.context_tokens;
    }
    Plan plan = {.sequences = count,
                 .drafted = drafted,
                 .rows_end = std::min(room.rows_max, count + drafts),
                 .base_rows = room.base_rows,
                 .context_sum = room.context_sum,
                 .draft_context = count > 0 ? context / count : 0};
    if (room.base_rows > 0) {
        const int32_t rows = room.base_rows + count;
        const double together = cost_.model_ms(rows, room.context_sum, overlap_.expected(rows));
        const double alone = cost_.model_ms(count, context, overlap_.expected(count));
        plan.prompt_ms = std::max(0.0, together - alone);
    }
    plan.draft_ms = cost_.draft_ms(count * depth_);
    return plan;
}

// Rates as they turn out, by what was accepted of others like them.
void DraftPolicy::correct_rates(std::span<const DraftState> sequences, const VerifyRoom& room) {
    corrected_.resize(sequences.size() * static_cast<size_t>(depth_) * 2);
    rates_.clear();
    factors_.clear();
    for (int32_t position = 0; position < depth_; ++position) {
        factors_.push_back(statistics_.correction(position));
    }
    float* next = corrected_.data();
    // A round before may have had fewer drafts; its last rate then stands for those behind it.
    const auto correct = [&](std::span<const float> rates, int32_t draft_count) {
        const std::span<const float> known = rates.empty() ? typical_ : rates;
        const size_t count = known.empty() ? 0 : static_cast<size_t>(draft_count);
        for (size_t i = 0; i < count; ++i) {
            const float rate = known[std::min(i, known.size() - 1)];
            next[i] = std::min(rate * factors_[i], 1.0F);  // no number stays none
        }
        const std::span<const float> corrected(next, count);
        next += count;
        return corrected;
    };
    for (const DraftState& sequence : sequences) {
        const std::span<const float> newest = correct(sequence.rates, sequence.draft_count);
        const std::span<const float> previous = correct(sequence.previous_rates, sequence.draft_count);
        rates_.push_back(choose_rates(mode_, !room.planned_ahead, sequence.draft_count, newest, previous));
    }
}

void DraftPolicy::learn_typical_rates(std::span<const DraftState> sequences) {
    for (size_t position = 0; position < static_cast<size_t>(depth_); ++position) {
        float sum = 0.0F;
        int32_t count = 0;
        for (const DraftState& sequence : sequences) {
            if (position < sequence.rates.size() && std::isfinite(sequence.rates[position])) {
                sum += sequence.rates[position];
                ++count;
            }
        }
        if (count == 0) {
            return;  // nor are there any behind
        }
        if (position >= typical_.size()) {
            typical_.push_back(sum / static_cast<float>(count));
        }
        typical_[position] += (sum / static_cast<float>(count) - typical_[position]) * kTypicalSmoothing;
    }
}

// Of a step in which the sequences have `rows` rows, without what is charged to prompts.
double DraftPolicy::decode_ms(const Plan& plan, int32_t rows) const {
    const int32_t all = plan.base_rows + rows;
    const int64_t context = plan.context_sum + (rows - plan.sequences) * plan.draft_context;
    return cost_.model_ms(all, context, overlap_.expected(all)) - plan.prompt_ms + cost_.sampler_ms(rows);
}

PlainSteps& DraftPolicy::plain_steps(int32_t sequences) {
    return plain_steps_.at(static_cast<size_t>(std::bit_width(static_cast<uint32_t>(sequences))));
}

// Without drafts. The curve only carries the mean over to another number of sequences.
double DraftPolicy::plain_ms(const Plan& plan) {
    const double here = decode_ms(plan, plan.sequences);
    const PlainSteps& plain = plain_steps(plan.sequences);
    if (!plain.is_known() || plan.base_rows > 0) {
        return here;
    }
    const double there = decode_ms(plan, static_cast<int32_t>(std::lround(plain.sequences())));
    return there > 0.0 ? plain.ms() * here / there : here;
}

// The same as decode_ms(), as low as it can be: costs never fall with rows.
double DraftPolicy::cheapest_ms(const Plan& plan, int32_t rows) const {
    if (cost_.recent_steps(rows, kCostSamples) > 0) {
        return decode_ms(plan, rows);
    }
    return decode_ms(plan, std::max(plan.sequences, cost_.last_known(rows)));
}

int32_t DraftPolicy::choose_total(const Plan& plan) {
    const StepMilliseconds cost_ms = [&](int32_t rows) { return decode_ms(plan, rows) + plan.draft_ms; };
    expected_ = expected_tokens(rates_);
    const VerifyTotal best = choose_verify_total(expected_, plan.sequences, cost_ms, plan.rows_end);
    const bool is_probe = plan.base_rows == 0 && gate_.is_probing(plan.sequences);
    if (is_probe) {
        gate_.record_probe(plan.sequences, {.likely = gain_for_all(plan, false), .hopeful = gain_for_all(plan, true)});
    }
    // Few drafts say what some more rows cost; which of them are worth it is asked when there are all.
    const bool is_part = is_probe && plan.drafted < plan.sequences;
    const bool may_try_rows = plan.base_rows == 0 && may_try();
    const int32_t to_try = is_part ? plan.rows_end : may_try_rows ? row_count_to_try(plan, best) : 0;
    const int32_t rows = to_try > 0 ? to_try : best.rows;
    if (step_.rows >= 0) {
        step_.rows = rows;
        step_.tokens = expected_[static_cast<size_t>(rows - plan.sequences)];
        step_.is_try = to_try > 0;
    }
    return rows;
}

// Tokens per millisecond relative to no drafts, minus 1, if every sequence had drafts such as these.
double DraftPolicy::gain_for_all(const Plan& plan, bool is_hopeful) const {
    const double copies = static_cast<double>(plan.sequences) / std::max(1, plan.drafted);
    double best = 0.0;
    for (int32_t drafts = 0; drafts <= plan.rows_end - plan.sequences; ++drafts) {
        const auto rows = plan.sequences + static_cast<int32_t>(std::lround(copies * drafts));
        const double tokens = plan.sequences + copies * (expected_[static_cast<size_t>(drafts)] - plan.sequences);
        const double ms = (is_hopeful ? cheapest_ms(plan, rows) : decode_ms(plan, rows)) + plan.draft_ms;
        best = std::max(best, tokens / std::max(ms, kLeastMs));
    }
    return best * std::max(step_.plain_ms, kLeastMs) / plan.sequences - 1.0;
}

bool DraftPolicy::may_try() const { return account_ms_ >= -kOverdraftSteps * step_.plain_ms; }

// Was the step worth its time?
void DraftPolicy::judge(const StepTimes& times) {
    const double ms = times.model_ms + times.sampler_ms + times.draft_ms;
    account_ms_ += std::isfinite(ms) ? kTryShare * ms : 0.0;
    const Expected step = std::exchange(step_, {});
    const bool has_drafts = times.draft_rows > 0 || times.rows > step.sequences;
    if (!scheduled_ || step.rows != times.rows || !std::isfinite(ms)) {
        return;
    }
    PlainSteps& plain = plain_steps(step.sequences);
    if (!has_drafts) {
        plain.record(ms, step.sequences);
        return;
    }
    const double steps_of_tokens = step.tokens / step.sequences;
    if (step.is_try || !gate_.is_open(step.sequences)) {
        account_ms_ += steps_of_tokens * step.plain_ms - ms;
        return;
    }
    plain.restart();
    gate_.record_profit(step.sequences, steps_of_tokens - ms / std::max(step.plain_ms, kLeastMs));
}

// A number of rows whose cost is not known well enough, 0 if there is none.
int32_t DraftPolicy::row_count_to_try(const Plan& plan, const VerifyTotal& best) const {
    const int32_t half = plan.sequences + (plan.rows_end - plan.sequences) / 2;
    for (const int32_t rows : {plan.rows_end, half}) {
        if (is_worth_a_try(plan, rows, best)) {
            return rows;
        }
    }
    return gap_to_halve(plan, best);
}

bool DraftPolicy::is_worth_a_try(const Plan& plan, int32_t rows, const VerifyTotal& best) const {
    const int32_t tries = cost_.recent_steps(rows, kCostSamples);
    if (tries < kTriesMin) {
        return could_beat(plan, best, rows, tries == 0 ? cheapest_ms(plan, rows) : kFewTriesShare * decode_ms(plan, rows));
    }
    if (cost_.recent_steps(rows, kRetrySteps) > 0) {
        return false;
    }
    return could_beat(plan, best, rows, decode_ms(plan, rows) / 2.0) || cost_.recent_steps(rows, kLateRetrySteps) == 0;
}

int32_t DraftPolicy::gap_to_halve(const Plan& plan, const VerifyTotal& best) const {
    for (int32_t below = plan.sequences; below < plan.rows_end;) {
        const int32_t known = cost_.next_known(below, kGapTries);
        const int32_t above = known < 0 ? plan.rows_end : std::min(known, plan.rows_end);
        // Finer than the curve keeps numbers apart there is nothing to find.
        const bool is_wide = above - below > std::max(1, below / 16);
        const int32_t middle = (below + above) / 2;
        if (is_wide && could_beat(plan, best, middle, decode_ms(plan, below))) {
            return middle;
        }
        below = above;
    }
    return 0;
}

// Would `rows` rows be the better choice, by more than noise, if they cost no more than this?
bool DraftPolicy::could_beat(const Plan& plan, const VerifyTotal& best, int32_t rows, double cheapest_ms) const {
    const double tokens = expected_[static_cast<size_t>(rows - plan.sequences)];
    return tokens > kWorthwhile * best.tokens_per_ms * (cheapest_ms + plan.draft_ms);
}

}  // namespace di
