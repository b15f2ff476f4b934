#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/running_curve.h"

namespace di {

// What one step ran and how long each part took.
struct StepTimes {
    int32_t rows = 0;         // through the model
    int64_t context_sum = 0;  // over these rows, the tokens that each sees
    double experts = 0.0;     // touched over all layers; 0 without experts
    double model_ms = 0.0;
    int32_t sampled_rows = 0;  // drawn or verified
    double sampler_ms = 0.0;
    int32_t draft_rows = 0;  // sequences * depth of the drafting behind it; 0: none
    double draft_ms = 0.0;
};

// The cost of a step, learned from the steps themselves: nothing is measured at the start, so that the engine starts as
// fast as the disk reads.
//
//   model ms = curve(rows) + context_slope * context_sum + expert_ms * experts
//
// The curve takes what the two slopes leave, and is thereby smooth where the experts that more rows touch are not. The
// slopes come from how steps of the same number of rows differ: a third of them with the least of it against the third
// with the most, medians of each, over the last 5,000 steps; negative counts as 0. Sampler and drafter have curves of
// their own. Without samples everything costs 0, with samples of one number of rows every number costs the same: what is
// not known seems to be free, and whoever may pay for the knowledge tries it.
class StepCost {
  public:
    void record(const StepTimes& times);

    [[nodiscard]] double model_ms(int32_t rows, int64_t context_sum, double experts) const;
    [[nodiscard]] double sampler_ms(int32_t sampled_rows) const;
    [[nodiscard]] double draft_ms(int32_t draft_rows) const;

    // How many of the last `newest` steps ran about that many rows.
    [[nodiscard]] int32_t recent_steps(int32_t rows, int64_t newest) const { return curve_.recent_samples(rows, newest); }
    // The next number of rows above with at least so many steps of it, -1 if there is none.
    [[nodiscard]] int32_t next_known(int32_t rows, int32_t steps) const { return curve_.next_known(rows, steps); }
    // The nearest number of rows, these or fewer, that some step ran, -1 if none did: these rows cost at least as much.
    [[nodiscard]] int32_t last_known(int32_t rows) const { return curve_.last_known(rows); }
    [[nodiscard]] double context_slope() const { return context_slope_; }  // ms for each token that a row sees
    [[nodiscard]] double expert_ms() const { return expert_ms_; }          // ms for each expert touched

  private:
    struct ModelSample {
        int32_t rows = 0;
        float ms = 0.0F;
        float experts = 0.0F;
        float context_sum = 0.0F;
    };
    struct Place {
        int32_t rows = 0;
        float by = 0.0F;
        float value = 0.0F;
    };

    [[nodiscard]] double rest_of(const ModelSample& sample) const;
    void refresh();
    [[nodiscard]] double slope_by(float ModelSample::*which, float ModelSample::*other, double other_slope);

    std::vector<ModelSample> samples_;  // ring of the newest
    size_t next_ = 0;
    int64_t recorded_ = 0;
    double context_slope_ = 0.0;
    double expert_ms_ = 0.0;
    RunningCurve curve_, sampler_, draft_;
    std::vector<Place> places_;               // of slope_by()
    std::vector<RunningCurve::Sample> rest_;  // of refresh()
};

}  // namespace di
