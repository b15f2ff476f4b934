#include "engine/plain_steps.h"

#include <algorithm>

namespace di {

namespace {

constexpr double kInterrupted = 2.0;  // of the median

}  // namespace

void PlainSteps::record(double ms, int32_t sequences) {
    steps_[static_cast<size_t>(next_)] = {ms, sequences};
    next_ = (next_ + 1) % kKept;
    size_ = std::min(size_ + 1, kKept);
    if (size_ < kStepsMin) {
        return;
    }
    std::array<double, kKept> sorted{};
    const auto end = sorted.begin() + size_;
    std::transform(steps_.begin(), steps_.begin() + size_, sorted.begin(), [](const Step& step) { return step.ms; });
    std::sort(sorted.begin(), end);
    const double longest = kInterrupted * sorted[static_cast<size_t>(size_ / 2)];
    double ms_sum = 0.0;
    double sequence_sum = 0.0;
    int32_t count = 0;
    for (int32_t i = 0; i < size_; ++i) {
        const Step& step = steps_[static_cast<size_t>(i)];
        if (step.ms <= longest) {
            ms_sum += step.ms;
            sequence_sum += step.sequences;
            ++count;
        }
    }
    ms_ = ms_sum / count;
    sequences_ = sequence_sum / count;
}

}  // namespace di
