#include "engine/expert_overlap.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace di {

namespace {

constexpr int64_t kRefreshSteps = 128;
// What a refresh leaves of the counts before it: half of what is known is of the last 128 steps.
constexpr float kFade = 0.5F;

// Class of a share in (0, 1]: its exponent and three bits of its mantissa. Below 2^-24 all shares are one class.
constexpr uint32_t kClassShift = 20;
constexpr uint32_t kFirstClass = std::bit_cast<uint32_t>(0x1p-24F) >> kClassShift;
constexpr uint32_t kLastClass = std::bit_cast<uint32_t>(1.0F) >> kClassShift;

size_t share_class(float share) {
    const uint32_t place = std::bit_cast<uint32_t>(share) >> kClassShift;
    return std::clamp(place, kFirstClass, kLastClass) - kFirstClass;
}

size_t octave_of(int32_t rows) { return static_cast<size_t>(std::bit_width(static_cast<uint32_t>(rows))); }

}  // namespace

void ExpertOverlap::record(const Model::RoutingCounts& counts) {
    const auto layers = static_cast<size_t>(counts.layer_count);
    const auto experts = static_cast<size_t>(counts.expert_count);
    if (layers * experts == 0) {
        return;
    }
    DI_CHECK(counts.rows_of_layer.size() == layers && counts.rows_of_expert.size() == layers * experts,
             "routing counts have another shape than they say");
    layer_rows_.resize(layers, 0.0F);
    expert_rows_.resize(layers * experts, 0.0F);
    const int32_t rows = counts.rows_of_layer[0];
    bool is_even = rows > 0;  // all layers ran the same rows
    for (size_t layer = 0; layer < layers; ++layer) {
        layer_rows_[layer] += static_cast<float>(counts.rows_of_layer[layer]);
        is_even = is_even && counts.rows_of_layer[layer] == rows;
    }
    int64_t touched = 0;
    for (size_t i = 0; i < layers * experts; ++i) {
        expert_rows_[i] += static_cast<float>(counts.rows_of_expert[i]);
        touched += counts.rows_of_expert[i] > 0 ? 1 : 0;
    }
    touched_ = static_cast<double>(touched);
    if (is_even) {
        OctaveSums& sums = octaves_.at(octave_of(rows));
        sums.steps += 1.0;
        sums.rows += rows;
        sums.touched += touched_;
    }
    if (++steps_ >= next_refresh_) {
        refresh();
        next_refresh_ = std::min(steps_ * 2, steps_ + kRefreshSteps);
    }
}

double ExpertOverlap::expected(int32_t rows) const {
    if (table_.empty() || rows <= 0) {
        return 0.0;
    }
    if (rows <= kTableRows) {
        return table_[static_cast<size_t>(rows)];
    }
    const double last_step = table_[kTableRows] - table_[kTableRows - 1];
    const auto all = static_cast<double>(expert_rows_.size());
    return std::min(all, table_[kTableRows] + (rows - kTableRows) * last_step);
}

void ExpertOverlap::refresh() {
    classes_.assign(kLastClass - kFirstClass + 1, {});
    const size_t experts = expert_rows_.size() / layer_rows_.size();
    const bool fades = steps_ >= kRefreshSteps;
    for (size_t i = 0; i < expert_rows_.size(); ++i) {
        if (expert_rows_[i] > 0.0F) {
            const float share = std::min(1.0F, expert_rows_[i] / layer_rows_[i / experts]);
            ShareClass& entry = classes_[share_class(share)];
            entry.count += 1.0;
            entry.share_sum += static_cast<double>(share);
        }
        expert_rows_[i] *= fades ? kFade : 1.0F;
    }
    std::erase_if(classes_, [](const ShareClass& entry) { return entry.count == 0.0; });
    for (float& rows : layer_rows_) {
        rows *= fades ? kFade : 1.0F;
    }
    table_.assign(kTableRows + 1, 0.0);
    for (const ShareClass& entry : classes_) {
        const double absent = 1.0 - entry.share_sum / entry.count;
        double none = 1.0;
        for (size_t rows = 1; rows <= kTableRows; ++rows) {
            none *= absent;
            table_[rows] += entry.count * (1.0 - none);
        }
    }
    correct_table();
    for (size_t octave = 0; octave < kOctaves && fades; ++octave) {
        octaves_[octave].steps *= static_cast<double>(kFade);
        octaves_[octave].rows *= static_cast<double>(kFade);
        octaves_[octave].touched *= static_cast<double>(kFade);
    }
}

// Independent rows, not corrected.
double ExpertOverlap::distinct(double rows) const {
    double sum = 0.0;
    for (const ShareClass& entry : classes_) {
        sum += entry.count * (1.0 - std::pow(1.0 - entry.share_sum / entry.count, rows));
    }
    return sum;
}

// Bends the formula through what was measured: between two octaves it keeps its shape, behind the last its proportion.
void ExpertOverlap::correct_table() {
    const auto all = static_cast<double>(expert_rows_.size());
    Anchor below = {.rows = 1.0, .distinct = table_[1], .touched = table_[1]};  // a single row has nothing to overlap with
    Anchor above = below;
    size_t octave = 1;
    const std::vector<double> formula = table_;
    for (size_t rows = 1; rows < table_.size(); ++rows) {
        while (static_cast<double>(rows) > above.rows && ++octave < kOctaves) {
            if (octaves_[octave].steps > 0.0) {
                below = above;
                above = anchor_of(octaves_[octave]);
                above.touched = std::max(above.touched, below.touched);
            }
        }
        octave = std::min(octave, kOctaves - 1);
        const bool is_behind = static_cast<double>(rows) > above.rows;
        const double distance = above.distinct - below.distinct;
        const double slope = is_behind        ? above.touched / above.distinct
                             : distance > 0.0 ? (above.touched - below.touched) / distance
                                              : 0.0;
        const Anchor& from = is_behind ? above : below;
        const double value = std::min(all, from.touched + (formula[rows] - from.distinct) * slope);
        table_[rows] = std::max(table_[rows - 1], value);  // rounding, where it is flat
    }
}

ExpertOverlap::Anchor ExpertOverlap::anchor_of(const OctaveSums& sums) const {
    const double rows = sums.rows / sums.steps;
    return {.rows = rows, .distinct = distinct(rows), .touched = sums.touched / sums.steps};
}

}  // namespace di
