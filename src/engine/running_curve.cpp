#include "engine/running_curve.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "base/check.h"

namespace di {

namespace {

constexpr int32_t kExactCounts = 64;  // each of them has its own place

// Above, sixteen places an octave. Rises with the count; 64 has the same place by both rules.
size_t place_index(int32_t count) {
    if (count <= kExactCounts) {
        return static_cast<size_t>(count);
    }
    const int32_t octave = std::bit_width(static_cast<uint32_t>(count)) - 1;
    return static_cast<size_t>(kExactCounts + (octave - 6) * 16 + ((count >> (octave - 4)) & 15));
}

double median_of(std::span<double> values) {
    const size_t middle = values.size() / 2;
    std::sort(values.begin(), values.end());
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

}  // namespace

void RunningCurve::add(int32_t count, double value) {
    if (!std::isfinite(value)) {
        return;
    }
    summarise(insert({count, value}));
    rebuild();
}

void RunningCurve::assign(const std::vector<Sample>& samples) {
    for (Place& place : places_) {
        place.size = place.next = 0;
    }
    for (const Sample& sample : samples) {
        if (std::isfinite(sample.value)) {
            (void)insert(sample);
        }
    }
    for (Place& place : places_) {
        summarise(place);
    }
    rebuild();
}

RunningCurve::Place& RunningCurve::insert(const Sample& sample) {
    DI_CHECK(sample.count >= 0, "a cost was measured at a negative count");
    const size_t index = place_index(sample.count);
    if (index >= places_.size()) {
        places_.resize(index + 1);
    }
    Place& place = places_[index];
    const auto slot = static_cast<size_t>(place.next);
    place.values[slot] = sample.value;
    place.counts[slot] = sample.count;
    place.times[slot] = ++time_;
    place.next = (place.next + 1) % kKept;
    place.size = std::min(place.size + 1, kKept);
    return place;
}

void RunningCurve::summarise(Place& place) {
    if (place.size == 0) {
        return;
    }
    std::array<double, kKept> values = place.values;
    place.median = median_of({values.data(), static_cast<size_t>(place.size)});
    double sum = 0.0;
    for (int32_t i = 0; i < place.size; ++i) {
        sum += place.counts[static_cast<size_t>(i)];
    }
    place.mean_count = sum / place.size;
}

// Pools adjacent violators: the least-squares curve that never falls.
void RunningCurve::rebuild() {
    points_.clear();
    pools_.clear();
    first_point_.clear();
    for (const Place& place : places_) {
        first_point_.push_back(points_.size());
        if (place.size == 0) {
            continue;
        }
        points_.push_back({place.mean_count, place.median});
        pools_.push_back({place.median, static_cast<double>(place.size), 1});
        while (pools_.size() > 1 && pools_[pools_.size() - 2].value > pools_.back().value) {
            const Pool last = pools_.back();
            pools_.pop_back();
            Pool& merged = pools_.back();
            const double weight = merged.weight + last.weight;
            merged.value = (merged.value * merged.weight + last.value * last.weight) / weight;
            merged.weight = weight;
            merged.points += last.points;
        }
    }
    size_t point = 0;
    for (const Pool& pool : pools_) {
        for (size_t i = 0; i < pool.points; ++i) {
            points_[point++].value = pool.value;
        }
    }
}

double RunningCurve::between(double count) const {
    const size_t place = place_index(static_cast<int32_t>(count));
    size_t above = place < first_point_.size() ? first_point_[place] : points_.size();
    while (above < points_.size() && points_[above].count < count) {
        ++above;  // once: the point of its own place
    }
    if (above == 0) {
        return points_.front().value;
    }
    if (above == points_.size()) {
        return points_.back().value;
    }
    const Point& low = points_[above - 1];
    const Point& high = points_[above];
    return low.value + (high.value - low.value) * (count - low.count) / (high.count - low.count);
}

double RunningCurve::at(int32_t count) const {
    if (points_.empty()) {
        return 0.0;
    }
    const Point& first = points_.front();
    const Point& last = points_.back();
    const auto wanted = static_cast<double>(count);
    if (wanted > last.count) {
        const double inner = std::max(first.count, last.count / 2.0);
        const double slope = inner < last.count ? (last.value - between(inner)) / (last.count - inner) : 0.0;
        return last.value + (wanted - last.count) * std::min(slope, std::max(0.0, last.value) / std::max(1.0, last.count));
    }
    if (wanted < first.count) {
        const double inner = std::min(last.count, first.count * 2.0);
        const double slope = inner > first.count ? (between(inner) - first.value) / (inner - first.count) : 0.0;
        return first.value - (first.count - wanted) * std::min(slope, std::max(0.0, first.value) / first.count);
    }
    return between(wanted);
}

int32_t RunningCurve::recent_samples(int32_t count, int64_t newest) const {
    const size_t first = place_index(std::max(0, count - count / 8));
    const size_t end = std::min(places_.size(), place_index(count + count / 8) + 1);
    int32_t found = 0;
    for (size_t index = first; index < end; ++index) {
        const Place& place = places_[index];
        for (int32_t i = 0; i < place.size; ++i) {
            found += place.times[static_cast<size_t>(i)] > time_ - newest ? 1 : 0;
        }
    }
    return found;
}

int32_t RunningCurve::next_known(int32_t count, int32_t samples) const {
    for (size_t index = place_index(count) + 1; index < places_.size(); ++index) {
        if (places_[index].size >= samples) {
            return static_cast<int32_t>(std::lround(places_[index].mean_count));
        }
    }
    return -1;
}

int32_t RunningCurve::last_known(int32_t count) const {
    for (size_t index = std::min(places_.size(), place_index(count) + 1); index-- > 0;) {
        const auto known = static_cast<int32_t>(std::lround(places_[index].mean_count));
        if (places_[index].size > 0 && known <= count) {
            return known;
        }
    }
    return -1;
}

}  // namespace di
