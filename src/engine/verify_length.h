#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"

// How many drafts of each sequence the next step verifies. A step costs time by its number of rows; a draft is worth the
// probability that it is accepted. Pure functions: no clock, no state.
namespace di {

// What is known of one sequence's drafts. Rates are running products of confidences (`rate[r]` = probability that drafts
// 0 .. r are all accepted), so they never rise; empty = not known yet, which counts as 1 for every draft that is there.
struct VerifyRates {
    int32_t draft_count = 0;          // drafts there are to verify
    std::span<const float> budget{};  // [>= draft_count] chooses the total
    std::span<const float> split{};   // [>= draft_count] chooses whose drafts fill it
};

// Rates of a sequence's last two rounds of drafting, and which of them may choose what.
//
// Whether a draft is verified must not depend on what was drawn behind it: the confidence of draft r + 1 is a function of
// draft r, and a total that grows with it would favour texts with confident continuations. Rejection is lossless only if
// the total comes from the round before. Dealing a given total out by falling rates is safe: later drafts of a sequence
// rank below earlier ones and cannot push them out. In exact verification the output is the target's own draw whatever is
// verified, so that the newest rates choose both.
//
// `newest_known`: the newest rates are of the drafts about to be verified. False when a step runs ahead: the host then has
// only rates of drafts that are being verified already, which is the older round itself.
[[nodiscard]] VerifyRates choose_rates(VerifyMode mode, bool newest_known, int32_t draft_count, std::span<const float> newest,
                                       std::span<const float> previous);

// Milliseconds of a step that runs `rows` rows; infinite: there can be no such step, nor a larger one.
using StepMilliseconds = std::function<double(int32_t rows)>;

struct VerifyTotal {
    int32_t rows = 0;  // of all sequences together: one each, and the drafts
    double expected_tokens = 0.0;
    double tokens_per_ms = 0.0;
};

// Expected tokens of a step by its number of drafts, the likeliest ones first: [0 .. all drafts], one a sequence at [0].
[[nodiscard]] std::vector<double> expected_tokens(std::span<const VerifyRates> sequences);

// The total with the most expected tokens per millisecond; the smallest of equals. Every total up to `rows_max` is looked
// at, since cost is a staircase: a search that stops at the first loss would not climb the next stair.
// rows_max >= sequences.size().
[[nodiscard]] VerifyTotal choose_verify_total(std::span<const VerifyRates> sequences, const StepMilliseconds& cost_ms,
                                              int32_t rows_max);
// The same from expected_tokens().
[[nodiscard]] VerifyTotal choose_verify_total(std::span<const double> expected, int32_t sequence_count,
                                              const StepMilliseconds& cost_ms, int32_t rows_max);

// Deals `total_rows` out: one row a sequence, the rest to drafts by falling `split` rate, ties to the lower sequence index.
// rows[i] = 1 + drafts of sequence i to verify; their sum is less than the total when there are fewer drafts.
void split_verify_rows(std::span<const VerifyRates> sequences, int32_t total_rows, std::vector<int32_t>& rows);

// Both: what a step that is not planned ahead does.
VerifyTotal choose_verify_rows(std::span<const VerifyRates> sequences, const StepMilliseconds& cost_ms, int32_t rows_max,
                               std::vector<int32_t>& rows);

// The split of a step that was planned ahead, once the confidences of its drafts exist. `confidences` [previous step's
// sequences, depth]; remap[i] = row of sequence i there, -1 = it was not in that step (rates 0). All
// sequences * depth drafts are ranked by (rate descending, flat index ascending), and the first total_rows - sequences of
// them are verified: no order of summation, so that every device gives the same integers.
void resplit_verify_rows(std::span<const float> confidences, int32_t depth, std::span<const int32_t> remap, int32_t total_rows,
                         std::vector<int32_t>& rows);

}  // namespace di
