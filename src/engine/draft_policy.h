#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/accept_statistics.h"
#include "engine/draft_gate.h"
#include "engine/expert_overlap.h"
#include "engine/plain_steps.h"
#include "engine/step_cost.h"
#include "engine/verify_length.h"

namespace di {

// One decoding sequence of the step to be planned.
struct DraftState {
    int32_t draft_count = 0;     // drafts there are to verify
    int64_t context_tokens = 0;  // that a row of it sees
    // Running products of confidences: of these drafts, and of the drafts of the round before. Empty: not known.
    std::span<const float> rates{};
    std::span<const float> previous_rates{};
};

// What the step runs besides drafts.
struct VerifyRoom {
    int32_t rows_max = 0;     // rows of these sequences together, at least one each
    int32_t base_rows = 0;    // rows of prompts in the same step
    int64_t context_sum = 0;  // over the rows of prompts, and one of each sequence, the tokens that each sees
    // The step that made these drafts is not finished, and `rates` are of the drafts before them.
    bool planned_ahead = false;
};

// A finished step.
struct StepSample {
    StepTimes times;                            // experts are filled in from `routing`
    std::span<const VerifyOutcome> outcomes{};  // of sequences that had drafts verified
    Model::RoutingCounts routing{};             // empty: the model has none, or nobody asked
};

// When drafts are made and how many are verified: those that raise expected tokens per millisecond of the whole step,
// drafting included. Everything that this needs is learned from the steps as they run: what rows, context, newly touched
// experts, sampling and drafting cost (StepCost, ExpertOverlap), how far confidences can be believed (AcceptStatistics),
// for how many sequences drafting pays (DraftGate).
//
// To know a cost it must be paid now and then, and what that loses is kept on an account: every step adds 1/256 of its time,
// every try takes what it was slower than the tokens it brought. There is none while the account is overdrawn by the time of
// two steps. So drafts that do not pay cost less than a hundredth of the time.
// Steps without prompts in them try out all drafts and half of the drafts, unless they could not be the best choice if
// they cost as little as is possible (costs never fall with rows), or a few steps showed it: until there are five steps of
// about as many rows each, and once more when the last such step is over 1,024
// steps ago, or 4,096 where even half of the cost would not make it the best choice. Gaps between known
// numbers are halved as long as the cheapest that cost could be there would make it the best choice: this finds stairs that
// a straight line hides.
//
// Rows of prompts in the step are charged to the prompts: what counts is what drafts add to the time of this step, on top
// of what the sequences would take by themselves. Else any draft would look cheap beside a long prompt chunk.
//
// In rejection mode no choice depends on the drafts about to be verified, except for the split (verify_length.h). What is
// learned comes from steps before they were drawn.
class DraftPolicy {
  public:
    // `depth`: drafts of a round; 0: none ever. Not `scheduled`: always that many, all verified as far as there is room.
    DraftPolicy(int32_t depth, bool scheduled, VerifyMode mode);

    // Of each step, in this order: choose(), next_round(), record().

    // drafts_to_verify[i]: the first so many drafts of sequence i.
    void choose(std::span<const DraftState> sequences, const VerifyRoom& room, std::vector<int32_t>& drafts_to_verify);

    // What is drafted behind the step: `depth` tokens for up to so many of its sequences, whichever. Depth 0: nothing.
    struct Round {
        int32_t depth = 0;
        int32_t sequences_max = 0;
    };
    [[nodiscard]] Round next_round(int32_t sequences, bool has_prompts);

    void record(const StepSample& sample);

    // Expected time of a step, for whoever plans one: rows through the model, of these `sampled_rows` drawn or verified,
    // and draft_rows = sequences * depth. 0 before the first step.
    struct StepShape {
        int32_t rows = 0;
        int32_t sampled_rows = 0;
        int32_t draft_rows = 0;
        int64_t context_sum = 0;
    };
    [[nodiscard]] double expected_ms(const StepShape& shape) const;

    [[nodiscard]] const AcceptStatistics& statistics() const { return statistics_; }
    [[nodiscard]] const StepCost& cost() const { return cost_; }
    [[nodiscard]] const ExpertOverlap& overlap() const { return overlap_; }

  private:
    // The step to be planned, in numbers.
    struct Plan {
        int32_t sequences = 0;
        int32_t drafted = 0;   // sequences that have drafts
        int32_t rows_end = 0;  // with all drafts that there is room for
        int32_t base_rows = 0;
        int64_t context_sum = 0;
        int64_t draft_context = 0;  // that a draft sees, on average
        double prompt_ms = 0.0;     // charged to the prompts
        double draft_ms = 0.0;      // of a round of drafting for all
    };
    // What a step was chosen for, until its times are there.
    struct Expected {
        int32_t rows = -1;  // none: not to be judged
        int32_t sequences = 0;
        double tokens = 0.0;
        double plain_ms = 0.0;  // of the same step without drafts
        bool is_try = false;
    };

    [[nodiscard]] Plan make_plan(std::span<const DraftState> sequences, const VerifyRoom& room) const;
    void learn_typical_rates(std::span<const DraftState> sequences);
    void correct_rates(std::span<const DraftState> sequences, const VerifyRoom& room);
    [[nodiscard]] double decode_ms(const Plan& plan, int32_t rows) const;
    [[nodiscard]] PlainSteps& plain_steps(int32_t sequences);
    [[nodiscard]] double plain_ms(const Plan& plan);
    [[nodiscard]] double cheapest_ms(const Plan& plan, int32_t rows) const;
    [[nodiscard]] int32_t choose_total(const Plan& plan);
    [[nodiscard]] double gain_for_all(const Plan& plan, bool is_hopeful) const;
    [[nodiscard]] bool may_try() const;
    void judge(const StepTimes& times);
    [[nodiscard]] int32_t row_count_to_try(const Plan& plan, const VerifyTotal& best) const;
    [[nodiscard]] bool is_worth_a_try(const Plan& plan, int32_t rows, const VerifyTotal& best) const;
    [[nodiscard]] int32_t gap_to_halve(const Plan& plan, const VerifyTotal& best) const;
    [[nodiscard]] bool could_beat(const Plan& plan, const VerifyTotal& best, int32_t rows, double cheapest_ms) const;

    int32_t depth_;
    bool scheduled_;
    VerifyMode mode_;
    StepCost cost_;
    ExpertOverlap overlap_;
    AcceptStatistics statistics_;
    DraftGate gate_;
    std::array<PlainSteps, 32> plain_steps_{};  // by octave of sequences
    Expected step_;                             // of choose(), for record()
    double account_ms_ = 0.0;                   // for tries
    bool may_probe_ = false;                    // in the step chosen last
    std::vector<float> corrected_;              // rates of choose(): newest, previous
    std::vector<float> typical_;      // [depth] rates of late, for sequences of which nothing is known yet; empty: nobody knows
    std::vector<double> expected_;    // tokens by drafts of the step to be planned
    std::vector<VerifyRates> rates_;  // views of these
    std::vector<float> factors_;      // corrections by position
    std::vector<int32_t> rows_;
};

}  // namespace di
