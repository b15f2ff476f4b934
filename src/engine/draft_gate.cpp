#include "engine/draft_gate.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace di {

namespace {

constexpr int32_t kProbeRounds = 4;
// A probe drafts for an eighth of the sequences first: enough to see a price, little enough to be lost.
constexpr int32_t kFirstShareShift = 3;
// So often a probe for all goes on because costs that it needs are not known yet.
constexpr int32_t kRepeatsMax = 4;
constexpr int64_t kFirstWait = 128;
constexpr int64_t kLongestWait = 4096;
// Steps without drafts. What was earned may be lost again as far as the draws of some rounds can lose it where drafts pay.
constexpr double kLossMax = 4.0;
constexpr double kDrawdownMax = 8.0;
// One round counts no more: a step that was interrupted says nothing about drafts.
constexpr double kRoundLossMax = 2.0;
// Open, so many steps of each interval do without drafts: the first still has some to verify. What drafts are compared with
// may have been measured at a bad moment, so that the first intervals are short.
constexpr int32_t kPlainSteps = 9;
constexpr int64_t kFirstPlainInterval = 32;
constexpr int64_t kPlainInterval = 256;
// What gains half a step a round would not lose by a small error, and has more to lose by asking.
constexpr int64_t kPlainIntervalOfGains = 2048;
constexpr double kLargeGain = 0.5;
constexpr double kSmoothing = 1.0 / 32.0;
// Open for so long, the next closing is a new story and waits as the first one did.
constexpr int64_t kRoundsToTrust = 512;

}  // namespace

size_t DraftGate::octave_of(int32_t sequences) {
    DI_CHECK(sequences >= 0, "a step has a negative number of sequences");
    return static_cast<size_t>(std::bit_width(static_cast<uint32_t>(sequences)));
}

bool DraftGate::is_open(int32_t sequences) const { return octaves_[octave_of(sequences)].mode == Mode::kOpen; }

bool DraftGate::is_probing(int32_t sequences) const { return octaves_[octave_of(sequences)].mode == Mode::kProbing; }

int32_t DraftGate::next_step(int32_t sequences, bool may_probe) {
    Octave& octave = octaves_[octave_of(sequences)];
    if (octave.mode == Mode::kOpen) {
        if (--octave.plain_after <= 0) {
            const int64_t longest = octave.profit > kLargeGain ? kPlainIntervalOfGains : kPlainInterval;
            octave.plain_interval = std::min(octave.plain_interval * 2, longest);
            octave.plain_left = kPlainSteps;
            octave.plain_after = octave.plain_interval;
        }
        const bool is_plain = octave.plain_left > 0;
        octave.plain_left -= is_plain ? 1 : 0;
        return is_plain ? 0 : sequences;
    }
    if (octave.mode == Mode::kClosed) {
        if (octave.wait_steps > 0) {
            --octave.wait_steps;
            return 0;
        }
        if (may_probe && sequences > 0) {
            octave.mode = Mode::kProbing;
            octave.share_shift = std::min(kFirstShareShift, static_cast<int32_t>(octave_of(sequences)) - 1);
            octave.repeats = 0;
            end_rounds(octave);
        }
    }
    return may_probe && sequences > 0 ? sequences >> octave.share_shift : 0;
}

void DraftGate::record_probe(int32_t sequences, const Outlook& outlook) {
    Octave& octave = octaves_[octave_of(sequences)];
    if (octave.mode != Mode::kProbing) {
        return;  // drafts left over
    }
    octave.likely += outlook.likely;
    octave.hopeful += outlook.hopeful;
    if (++octave.rounds < kProbeRounds) {
        return;
    }
    const bool is_of_all = octave.share_shift == 0;
    if (is_of_all && octave.likely > 0.0) {
        open(octave);
        return;
    }
    if (octave.hopeful <= 0.0 || (is_of_all && octave.repeats >= kRepeatsMax)) {
        close(octave);
        return;
    }
    if (is_of_all) {
        ++octave.repeats;
    } else {
        --octave.share_shift;
    }
    end_rounds(octave);
}

void DraftGate::record_profit(int32_t sequences, double profit) {
    Octave& octave = octaves_[octave_of(sequences)];
    if (octave.mode != Mode::kOpen) {
        return;
    }
    ++octave.open_rounds;
    const double counted = std::max(profit, -kRoundLossMax);
    octave.profit += (counted - octave.profit) * kSmoothing;
    octave.balance += counted;
    octave.drawdown = std::min(0.0, octave.drawdown + counted);
    if (octave.balance < -kLossMax || octave.drawdown < -kDrawdownMax) {
        close(octave);
    }
}

void DraftGate::end_rounds(Octave& octave) {
    octave.rounds = 0;
    octave.likely = 0.0;
    octave.hopeful = 0.0;
}

void DraftGate::open(Octave& octave) {
    octave.mode = Mode::kOpen;
    octave.open_rounds = 0;
    octave.balance = 0.0;
    octave.drawdown = 0.0;
    octave.profit = 0.0;
    octave.plain_interval = kFirstPlainInterval;
    octave.plain_after = kFirstPlainInterval;
    octave.plain_left = 0;
}

void DraftGate::close(Octave& octave) {
    if (octave.next_wait == 0 || (octave.mode == Mode::kOpen && octave.open_rounds >= kRoundsToTrust)) {
        octave.next_wait = kFirstWait;
    }
    octave.mode = Mode::kClosed;
    octave.wait_steps = octave.next_wait;
    octave.next_wait = std::min(octave.next_wait * 2, kLongestWait);
}

}  // namespace di
