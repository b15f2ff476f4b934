#pragma once

#include <cstdint>

// Lengths of a sequence whose last step is launched but not processed. The host then plans with the most that the step can
// bring (every draft accepted); once its result is known, the device takes back what was not.
namespace di {

class InFlightRows {
  public:
    // Rows that a step may add: the drawn token and `depth` drafts. At most two steps are in flight.
    void schedule(int32_t depth);
    // The older of the steps in flight is processed; its tokens are in the cached length from here on.
    void process();
    [[nodiscard]] int32_t total() const { return total_; }

  private:
    int32_t total_ = 0;
    int32_t last_ = 0;
};

// Context length behind the `rows` rows of a step about to be scheduled: `cached` tokens processed, `in_flight` rows assumed.
[[nodiscard]] int64_t planned_length(int64_t cached, int32_t in_flight, int32_t rows);

// End of the positions that a decode step and the drafting behind it may write: what its blocks must cover.
[[nodiscard]] int64_t decode_position_end(int64_t planned_length, int32_t rows, int32_t depth);

// The length as it is when the step in flight has accepted `accepted` of the `depth` drafts it was planned with.
[[nodiscard]] int64_t corrected_length(int64_t planned_length, int32_t depth, int32_t accepted);

}  // namespace di
