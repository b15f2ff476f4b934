#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace di {

// Whether drafting is worth its time at all. Kept apart for every octave of the number of sequences: drafts that lose among
// 32 sequences, where the machine is busy anyway, pay well for one.
//
// Open until the smoothed gain was negative for 32 rounds in a row. Closed, it lets a probe of four rounds through after
// 128 steps, and opens again if these gained; else the next probe comes after twice as many steps, up to 4,096. Counts
// steps, knows no clock.
class DraftGate {
  public:
    // Asked once a step: draft in it?
    [[nodiscard]] bool next_step(int32_t sequences);
    // Of a step that had drafts to verify: expected tokens per millisecond with them, relative to those of the same step
    // without drafts and drafting, minus 1.
    void record(int32_t sequences, double gain);
    // As next_step() would say, without counting.
    [[nodiscard]] bool is_open(int32_t sequences) const;

  private:
    struct Octave {
        bool is_open = true;
        double gain = 0.0;       // smoothed while open, summed up in a probe
        int64_t rounds = 0;      // recorded since it was opened, or since the probe began
        int32_t losses = 0;      // in a row, of the smoothed gain
        int64_t wait_steps = 0;  // closed: until the next probe
        int64_t next_wait = 0;   // and until the one after it
    };

    static size_t octave_of(int32_t sequences);
    void close(Octave& octave);

    std::array<Octave, 32> octaves_{};
};

}  // namespace di
