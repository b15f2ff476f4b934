#include "engine/output_estimate.h"

#include <algorithm>

namespace di {

void OutputEstimate::record(int64_t output_tokens) {
    lengths_[static_cast<size_t>(count_ % kKept)] = output_tokens;
    ++count_;
    if (count_ < kEnough) {
        return;
    }
    auto sorted = lengths_;
    const auto kept = static_cast<std::ptrdiff_t>(std::min(count_, kKept));
    const auto place = static_cast<std::ptrdiff_t>(static_cast<double>(kept - 1) * kQuantile);
    std::nth_element(sorted.begin(), sorted.begin() + place, sorted.begin() + kept);
    estimate_ = std::max<int64_t>(1, sorted[static_cast<size_t>(place)]);
}

}  // namespace di
