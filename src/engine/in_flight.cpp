#include "engine/in_flight.h"

#include "base/check.h"

namespace di {

void InFlightRows::schedule(int32_t depth) {
    DI_CHECK(depth >= 0, "a step has a negative number of drafts");
    DI_CHECK(total_ == last_, "a third step was scheduled while two are in flight");
    last_ = depth + 1;
    total_ += last_;
}

void InFlightRows::process() {
    DI_CHECK(total_ > 0, "a step was processed that was never scheduled");
    last_ = total_ == last_ ? 0 : last_;
    total_ = last_;
}

int64_t planned_length(int64_t cached, int32_t in_flight, int32_t rows) { return cached + in_flight + rows; }

int64_t decode_position_end(int64_t planned_length, int32_t rows, int32_t depth) {
    return planned_length - rows + (depth + 1) + depth;
}

int64_t corrected_length(int64_t planned_length, int32_t depth, int32_t accepted) {
    DI_CHECK(accepted >= 0 && accepted <= depth, "more drafts were accepted than a step had");
    return planned_length - (depth - accepted);
}

}  // namespace di
