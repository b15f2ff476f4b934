#pragma once

#include <array>
#include <cstdint>

namespace di {

// What steps of decoding without drafts take, of about as many sequences: the mean of the last ones. A mean and no median:
// what drafts gain is the difference of two times, and where steps vary a median is wrong by as much as that. Steps that
// took more than twice the median were interrupted (or read weights for the first time) and stay out.
class PlainSteps {
  public:
    // Fewer steps say nothing.
    static constexpr int32_t kStepsMin = 5;

    void record(double ms, int32_t sequences);
    // A machine's speed changes while drafts run: as soon as there are kStepsMin new steps, they alone count.
    void restart() { size_ = next_ = 0; }

    [[nodiscard]] bool is_known() const { return ms_ > 0.0; }
    [[nodiscard]] double ms() const { return ms_; }                // 0: nothing is known
    [[nodiscard]] double sequences() const { return sequences_; }  // their mean

  private:
    static constexpr int32_t kKept = 16;
    struct Step {
        double ms = 0.0;
        int32_t sequences = 0;
    };

    std::array<Step, kKept> steps_{};  // ring
    int32_t size_ = 0;
    int32_t next_ = 0;
    double ms_ = 0.0;
    double sequences_ = 0.0;
};

}  // namespace di
