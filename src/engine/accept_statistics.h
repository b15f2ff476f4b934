#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace di {

// What verification made of one sequence's drafts in a step.
struct VerifyOutcome {
    int32_t verified = 0;            // drafts whose rows ran
    int32_t accepted = 0;            // <= verified
    std::span<const float> rates{};  // running products of their confidences; empty: not known
};

// Acceptance by position, and how far confidences can be believed. Counts rounds, knows no clock.
class AcceptStatistics {
  public:
    explicit AcceptStatistics(int32_t depth);

    void record(const VerifyOutcome& outcome);
    // A step is over: what corrections know fades a little. Else one that says that nothing is ever accepted would see to
    // it that nothing is verified any more, and stay.
    void end_step();

    // Since the start; position r counts as accepted when drafts 0 .. r all were.
    [[nodiscard]] const std::vector<int64_t>& verified_by_position() const { return verified_; }
    [[nodiscard]] const std::vector<int64_t>& accepted_by_position() const { return accepted_; }
    // Mean over verified drafts since the start: accepted share of a position minus the mean of its rates, without sign.
    // 0 without drafts.
    [[nodiscard]] double mean_confidence_error() const;
    // Accepted by verified drafts of the newest window of kWindowDrafts.
    [[nodiscard]] double recent_acceptance() const { return recent_; }
    // The newest window accepted less than half of the median of the last 128 windows (of at least 8): the texts have
    // changed, or a drafter that does not belong to the model was loaded.
    [[nodiscard]] bool has_alarm() const { return has_alarm_; }

    // What rates of a position are to be multiplied by so that they are right on average: accepted by expected drafts of
    // the last few hundred, 1 while little is known; at most 2.
    [[nodiscard]] float correction(int32_t position) const;

  private:
    static constexpr int64_t kWindowDrafts = 256;
    static constexpr size_t kWindows = 128;

    void end_window();

    struct Fading {
        double accepted = 0.0;
        double expected = 0.0;
        double count = 0.0;
    };

    std::vector<int64_t> verified_, accepted_;
    std::vector<double> expected_;  // sums of rates, of drafts that had some
    std::vector<int64_t> rated_, rated_accepted_;
    std::vector<Fading> fading_;
    std::array<double, kWindows> windows_{};
    int64_t window_count_ = 0;
    int64_t window_verified_ = 0;
    int64_t window_accepted_ = 0;
    double recent_ = 0.0;
    bool has_alarm_ = false;
};

}  // namespace di
