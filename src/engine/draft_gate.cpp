#include "engine/draft_gate.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace di {

namespace {

constexpr int32_t kLossesMax = 32;
constexpr double kSmoothing = 1.0 / 16.0;
constexpr int64_t kProbeRounds = 4;
constexpr int64_t kFirstWait = 128;
constexpr int64_t kLongestWait = 4096;
// Open for so long, the next closing is a new story and waits as the first one did.
constexpr int64_t kRoundsToTrust = 512;

}  // namespace

size_t DraftGate::octave_of(int32_t sequences) {
    DI_CHECK(sequences >= 0, "a step has a negative number of sequences");
    return static_cast<size_t>(std::bit_width(static_cast<uint32_t>(sequences)));
}

bool DraftGate::is_open(int32_t sequences) const {
    const Octave& octave = octaves_[octave_of(sequences)];
    return octave.is_open || octave.wait_steps == 0;
}

bool DraftGate::next_step(int32_t sequences) {
    Octave& octave = octaves_[octave_of(sequences)];
    if (octave.is_open || octave.wait_steps == 0) {
        return true;
    }
    --octave.wait_steps;
    return false;
}

void DraftGate::record(int32_t sequences, double gain) {
    Octave& octave = octaves_[octave_of(sequences)];
    if (octave.is_open) {
        ++octave.rounds;
        // A mean of all rounds at first, so that the first one does not weigh for long.
        octave.gain += (gain - octave.gain) * std::max(kSmoothing, 1.0 / static_cast<double>(octave.rounds));
        octave.losses = octave.gain < 0.0 ? octave.losses + 1 : 0;
        if (octave.losses >= kLossesMax) {
            close(octave);
        }
        return;
    }
    if (octave.wait_steps > 0) {
        return;  // drafts left over from before it closed
    }
    octave.gain += gain;
    if (++octave.rounds < kProbeRounds) {
        return;
    }
    if (octave.gain < 0.0) {
        close(octave);
        return;
    }
    octave.is_open = true;
    octave.gain = 0.0;
    octave.rounds = 0;
    octave.losses = 0;
}

void DraftGate::close(Octave& octave) {
    if (octave.next_wait == 0 || (octave.is_open && octave.rounds >= kRoundsToTrust)) {
        octave.next_wait = kFirstWait;
    }
    octave.is_open = false;
    octave.gain = 0.0;
    octave.rounds = 0;
    octave.wait_steps = octave.next_wait;
    octave.next_wait = std::min(octave.next_wait * 2, kLongestWait);
}

}  // namespace di
