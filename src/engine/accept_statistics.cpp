#include "engine/accept_statistics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace di {

namespace {

constexpr int64_t kWindowsMin = 8;
constexpr double kAlarmShare = 0.5;
// Drafts of a position that the correction remembers, roughly: older ones are halved when so many are there.
constexpr double kCorrectionDrafts = 512.0;
// Weighs as so many drafts that came out as expected.
constexpr double kCorrectionPrior = 8.0;
// Of a step: with nothing new, a correction is forgotten after some thousand steps.
constexpr double kStepFade = 1.0 - 1.0 / 2048.0;
constexpr double kCorrectionMax = 2.0;

}  // namespace

AcceptStatistics::AcceptStatistics(int32_t depth)
    : verified_(static_cast<size_t>(depth), 0),
      accepted_(static_cast<size_t>(depth), 0),
      expected_(static_cast<size_t>(depth), 0.0),
      rated_(static_cast<size_t>(depth), 0),
      rated_accepted_(static_cast<size_t>(depth), 0),
      fading_(static_cast<size_t>(depth)) {}

void AcceptStatistics::record(const VerifyOutcome& outcome) {
    DI_CHECK(outcome.verified >= 0 && static_cast<size_t>(outcome.verified) <= verified_.size(),
             "more drafts were verified than a round has");
    DI_CHECK(outcome.accepted >= 0 && outcome.accepted <= outcome.verified, "more drafts were accepted than verified");
    DI_CHECK(outcome.rates.empty() || static_cast<int32_t>(outcome.rates.size()) >= outcome.verified,
             "a round has fewer rates than drafts");
    for (size_t position = 0; position < static_cast<size_t>(outcome.verified); ++position) {
        const bool is_accepted = static_cast<int32_t>(position) < outcome.accepted;
        ++verified_[position];
        accepted_[position] += is_accepted ? 1 : 0;
        if (outcome.rates.empty() || !std::isfinite(outcome.rates[position])) {
            continue;
        }
        const auto rate = static_cast<double>(outcome.rates[position]);
        expected_[position] += rate;
        ++rated_[position];
        rated_accepted_[position] += is_accepted ? 1 : 0;
        Fading& fading = fading_[position];
        fading.accepted += is_accepted ? 1.0 : 0.0;
        fading.expected += rate;
        fading.count += 1.0;
        if (fading.count >= kCorrectionDrafts) {
            fading = {fading.accepted / 2.0, fading.expected / 2.0, fading.count / 2.0};
        }
    }
    window_verified_ += outcome.verified;
    window_accepted_ += outcome.accepted;
    if (window_verified_ >= kWindowDrafts) {
        end_window();
    }
}

void AcceptStatistics::end_step() {
    for (Fading& fading : fading_) {
        fading = {fading.accepted * kStepFade, fading.expected * kStepFade, fading.count * kStepFade};
    }
}

void AcceptStatistics::end_window() {
    recent_ = static_cast<double>(window_accepted_) / static_cast<double>(window_verified_);
    window_verified_ = 0;
    window_accepted_ = 0;
    std::array<double, kWindows> before = windows_;
    const auto count = std::min<int64_t>(window_count_, kWindows);
    const auto middle = before.begin() + count / 2;
    std::nth_element(before.begin(), middle, before.begin() + count);
    has_alarm_ = count >= kWindowsMin && recent_ < kAlarmShare * *middle;
    windows_[static_cast<size_t>(window_count_) % kWindows] = recent_;
    ++window_count_;
}

double AcceptStatistics::mean_confidence_error() const {
    double error = 0.0;
    int64_t count = 0;
    for (size_t position = 0; position < rated_.size(); ++position) {
        error += std::abs(static_cast<double>(rated_accepted_[position]) - expected_[position]);
        count += rated_[position];
    }
    return count == 0 ? 0.0 : error / static_cast<double>(count);
}

float AcceptStatistics::correction(int32_t position) const {
    const Fading& fading = fading_.at(static_cast<size_t>(position));
    const double factor = (fading.accepted + kCorrectionPrior) / (fading.expected + kCorrectionPrior);
    return static_cast<float>(std::min(factor, kCorrectionMax));
}

}  // namespace di
