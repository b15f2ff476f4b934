#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace di {

// For whom drafts are made. Kept apart for every octave of the number of sequences: drafts that lose among 32 sequences,
// where the machine is busy anyway, may pay well for one.
//
// Closed at first. Where drafting stands is found out by probes: four rounds of drafts for an eighth of the sequences, then
// for twice as many, and so on while what is known by then leaves hope. The gate opens when drafts for all are likely to
// gain. When hope ends, the next probe comes after 128 steps, the one after it after twice as many, up to 4,096. Open until
// rounds have lost, since their best moment, what eight steps without drafts take. Counts steps, knows no clock.
class DraftGate {
  public:
    // Asked once a step: how many of its sequences draft. `may_probe`: this step can be one of a probe.
    [[nodiscard]] int32_t next_step(int32_t sequences, bool may_probe);

    // What a step of a probe says about drafts for all: their gain in tokens per millisecond relative to none, minus 1. `likely`
    // takes unknown costs as they seem to be, `hopeful` as low as they can be.
    struct Outlook {
        double likely = 0.0;
        double hopeful = 0.0;
    };
    void record_probe(int32_t sequences, const Outlook& outlook);

    // Of a step with drafts while the gate is open: its tokens less its time, both in steps without drafts.
    void record_profit(int32_t sequences, double profit);

    [[nodiscard]] bool is_open(int32_t sequences) const;
    [[nodiscard]] bool is_probing(int32_t sequences) const;

  private:
    enum class Mode : uint8_t { kClosed, kProbing, kOpen };
    struct Octave {
        Mode mode = Mode::kClosed;
        int32_t share_shift = 0;  // a probe drafts for sequences >> share_shift
        int32_t rounds = 0;       // of the probe with this share
        int32_t repeats = 0;      // of the probe for all
        double likely = 0.0;      // sums of these rounds
        double hopeful = 0.0;
        int64_t open_rounds = 0;
        double balance = 0.0;   // profit since it was opened
        double drawdown = 0.0;  // <= 0: profit since its best moment
        double profit = 0.0;    // of a round, smoothed
        int64_t plain_interval = 0;
        int64_t plain_after = 0;  // open: steps until some without drafts
        int32_t plain_left = 0;   // of these
        int64_t wait_steps = 0;   // closed: until the next probe
        int64_t next_wait = 0;    // and until the one after it
    };

    static size_t octave_of(int32_t sequences);
    static void close(Octave& octave);
    static void open(Octave& octave);
    static void end_rounds(Octave& octave);

    std::array<Octave, 32> octaves_{};
};

}  // namespace di
