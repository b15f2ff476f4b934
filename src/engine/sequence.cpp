#include "engine/sequence.h"

#include <algorithm>

namespace di {

namespace {

double milliseconds(int64_t from_us, int64_t to_us) { return static_cast<double>(to_us - from_us) / 1000.0; }

}  // namespace

bool Sequence::is_end_token(int32_t id) const {
    return std::find(end_token_ids.begin(), end_token_ids.end(), id) != end_token_ids.end();
}

int32_t Sequence::image_at(int32_t position) const {
    const auto after = std::upper_bound(images.begin(), images.end(), position, [](int32_t place, const SequenceImage& image) {
        return place < image.input->first_token;
    });
    if (after == images.begin()) {
        return -1;
    }
    const auto index = static_cast<int32_t>(after - images.begin()) - 1;
    return position < images[static_cast<size_t>(index)].end_token() ? index : -1;
}

RequestUsage Sequence::usage() const {
    RequestUsage usage = counts;
    usage.prompt_tokens = prompt_length;
    usage.completion_tokens = output_length();
    return usage;
}

RequestTiming Sequence::timing(int64_t now_us) const {
    // What has not happened yet has lasted until now, or not begun.
    const auto until = [now_us](int64_t moment_us) { return moment_us >= 0 ? moment_us : now_us; };
    RequestTiming timing;
    timing.queue_ms = milliseconds(times.arrival_us, until(times.first_row_us));
    if (times.first_row_us >= 0) {
        timing.prefill_ms = milliseconds(times.first_row_us, until(times.prefill_done_us));
    }
    if (times.first_token_us >= 0) {
        timing.first_token_ms = milliseconds(times.arrival_us, times.first_token_us);
    }
    timing.total_ms = milliseconds(times.arrival_us, now_us);
    return timing;
}

}  // namespace di
