#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/model.h"

namespace di {

// How many experts a step of n rows touches, learned from routing. Each touched expert is read from memory once, however
// many rows chose it: that is what one more row costs where weights are the bottleneck, and it depends on how much the
// model's choices overlap, not on the number of rows alone.
//
// With p(l, e) = share of rows that choose expert e of layer l, n independent rows touch
//   distinct(n) = sum over l, e of 1 - (1 - p(l, e))^n
// experts. Rows of one text choose more alike than that: what steps touched is averaged in every octave of n, and the formula
// bent through these averages. The table of 512 values is made anew every 128 steps (sooner at the start), from shares
// sorted into steps of 1/8 octave, so that a refresh costs some 10^5 multiplications whatever the number of experts.
class ExpertOverlap {
  public:
    // After a step; empty counts (models without experts) are ignored.
    void record(const Model::RoutingCounts& counts);

    // Experts that a step of `rows` rows is expected to touch over all layers; never falls. 0 while nothing is known.
    [[nodiscard]] double expected(int32_t rows) const;
    // Touched by the last recorded step.
    [[nodiscard]] double touched() const { return touched_; }

  private:
    static constexpr int32_t kTableRows = 512;
    static constexpr size_t kOctaves = 32;

    void refresh();
    void correct_table();
    [[nodiscard]] double distinct(double rows) const;

    // Experts of about the same share.
    struct ShareClass {
        double count = 0.0;
        double share_sum = 0.0;
    };

    // Steps of an octave of rows.
    struct OctaveSums {
        double steps = 0.0;
        double rows = 0.0;
        double touched = 0.0;
    };
    // A place that the curve goes through.
    struct Anchor {
        double rows = 0.0;
        double distinct = 0.0;
        double touched = 0.0;
    };
    [[nodiscard]] Anchor anchor_of(const OctaveSums& sums) const;

    std::vector<float> layer_rows_;   // [layers], fading
    std::vector<float> expert_rows_;  // [layers, experts], fading
    std::vector<ShareClass> classes_;
    std::vector<double> table_;                   // [kTableRows + 1]
    std::array<OctaveSums, kOctaves> octaves_{};  // fading
    int64_t steps_ = 0;
    int64_t next_refresh_ = 1;
    double touched_ = 0.0;
};

}  // namespace di
