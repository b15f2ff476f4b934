#include "engine/step_cost.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/check.h"
#include "engine/limits.h"

namespace di {

namespace {

struct Slope {
    double value = 0.0;
    double weight = 0.0;
};

// Some of the steps of one number of rows.
struct Part {
    double by = 0.0;  // both medians, so that outliers and skew of one do not tilt the line
    double value = 0.0;
};

float median_value(std::span<float> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

double weighted_median(std::vector<Slope>& slopes) {
    std::sort(slopes.begin(), slopes.end(), [](const Slope& a, const Slope& b) { return a.value < b.value; });
    double half = 0.0;
    for (const Slope& slope : slopes) {
        half += slope.weight / 2.0;
    }
    for (const Slope& slope : slopes) {
        half -= slope.weight;
        if (half <= 0.0) {
            return slope.value;
        }
    }
    return 0.0;
}

}  // namespace

void StepCost::record(const StepTimes& times) {
    DI_CHECK(times.rows >= 0 && times.sampled_rows >= 0 && times.draft_rows >= 0, "a step has a negative number of rows");
    if (times.rows > 0 && std::isfinite(times.model_ms)) {
        const ModelSample sample = {.rows = times.rows,
                                    .ms = static_cast<float>(times.model_ms),
                                    .experts = static_cast<float>(times.experts),
                                    .context_sum = static_cast<float>(times.context_sum)};
        if (samples_.size() < kCostSamples) {
            samples_.push_back(sample);
        } else {
            samples_[next_] = sample;
            next_ = (next_ + 1) % kCostSamples;
        }
        curve_.add(sample.rows, rest_of(sample));
        if (++recorded_ % kCostRefreshSteps == 0) {
            refresh();
        }
    }
    if (times.sampled_rows > 0) {
        sampler_.add(times.sampled_rows, times.sampler_ms);
    }
    if (times.draft_rows > 0) {
        draft_.add(times.draft_rows, times.draft_ms);
    }
}

double StepCost::model_ms(int32_t rows, int64_t context_sum, double experts) const {
    return curve_.at(rows) + context_slope_ * static_cast<double>(context_sum) + expert_ms_ * experts;
}

double StepCost::sampler_ms(int32_t sampled_rows) const { return sampled_rows > 0 ? sampler_.at(sampled_rows) : 0.0; }

double StepCost::draft_ms(int32_t draft_rows) const { return draft_rows > 0 ? draft_.at(draft_rows) : 0.0; }

double StepCost::rest_of(const ModelSample& sample) const {
    const double slopes =
        context_slope_ * static_cast<double>(sample.context_sum) + expert_ms_ * static_cast<double>(sample.experts);
    return std::max(0.0, static_cast<double>(sample.ms) - slopes);
}

// One of the slopes anew, in turn (each costs a sort of all samples), and the curve of what they leave.
void StepCost::refresh() {
    if (recorded_ / kCostRefreshSteps % 2 == 1) {
        context_slope_ = slope_by(&ModelSample::context_sum, &ModelSample::experts, expert_ms_);
    } else {
        expert_ms_ = slope_by(&ModelSample::experts, &ModelSample::context_sum, context_slope_);
    }
    rest_.clear();
    for (size_t i = 0; i < samples_.size(); ++i) {
        const ModelSample& sample = samples_[(next_ + i) % samples_.size()];
        rest_.push_back({sample.rows, rest_of(sample)});
    }
    curve_.assign(rest_);
}

double StepCost::slope_by(float ModelSample::*which, float ModelSample::*other, double other_slope) {
    places_.clear();
    for (const ModelSample& sample : samples_) {
        const double value = static_cast<double>(sample.ms) - other_slope * static_cast<double>(sample.*other);
        places_.push_back({sample.rows, sample.*which, static_cast<float>(value)});
    }
    std::sort(places_.begin(), places_.end(),
              [](const Place& a, const Place& b) { return a.rows != b.rows ? a.rows < b.rows : a.by < b.by; });
    std::vector<Slope> slopes;
    std::vector<float> values;
    const auto part = [&](size_t first, size_t count) {
        values.clear();
        for (size_t i = first; i < first + count; ++i) {
            values.push_back(places_[i].value);
        }
        const auto by = static_cast<double>(places_[first + count / 2].by);
        return Part{.by = by, .value = static_cast<double>(median_value(values))};
    };
    for (size_t first = 0; first < places_.size();) {
        size_t end = first;
        while (end < places_.size() && places_[end].rows == places_[first].rows) {
            ++end;
        }
        const size_t third = (end - first) / 3;
        if (end - first >= kSlopeSamplesMin) {
            const Part low = part(first, third);
            const Part high = part(end - third, third);
            const double distance = high.by - low.by;
            if (distance >= kSlopeSpreadMin * high.by && distance > 0.0) {
                slopes.push_back({(high.value - low.value) / distance, static_cast<double>(third)});
            }
        }
        first = end;
    }
    return std::max(0.0, weighted_median(slopes));
}

}  // namespace di
