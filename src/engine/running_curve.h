#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace di {

// A cost by a count (rows, sequences), learned while it is paid. Every count has the median of its last nine samples;
// above 64, counts within a sixteenth of each other share one. Between the medians the curve runs straight, and it never
// falls: medians that would make it are pooled with their neighbours, each with the weight of its samples, so that one
// lucky measurement does not look like a bargain. Bounded memory: at most 464 places of nine samples.
class RunningCurve {
  public:
    // count >= 0. What is no finite number is left out.
    void add(int32_t count, double value);

    // 0 without samples; constant with samples of one place only. Outside of the samples it goes on as steep as it is near
    // their end, but never steeper than in proportion to the count.
    [[nodiscard]] double at(int32_t count) const;
    [[nodiscard]] bool empty() const { return points_.empty(); }

    // How many of the last `newest` samples were taken at `count`, give or take an eighth of it.
    [[nodiscard]] int32_t recent_samples(int32_t count, int64_t newest) const;

    // The nearest count above `count` that has at least `samples` samples, -1 where there is none: in between the curve is a
    // guess.
    [[nodiscard]] int32_t next_known(int32_t count, int32_t samples) const;
    // The nearest count, `count` or below, that has a sample, -1 where there is none: what costs at least as much.
    [[nodiscard]] int32_t last_known(int32_t count) const;

    // Many samples at once, oldest first, in place of all that are known.
    struct Sample {
        int32_t count = 0;
        double value = 0.0;
    };
    void assign(const std::vector<Sample>& samples);

  private:
    static constexpr int32_t kKept = 9;
    struct Place {
        std::array<double, kKept> values{};
        std::array<int32_t, kKept> counts{};
        std::array<int64_t, kKept> times{};
        int32_t size = 0;
        int32_t next = 0;
        double median = 0.0;
        double mean_count = 0.0;
    };
    struct Point {
        double count = 0.0;
        double value = 0.0;
    };
    struct Pool {
        double value = 0.0;
        double weight = 0.0;
        size_t points = 0;
    };

    [[nodiscard]] Place& insert(const Sample& sample);
    static void summarise(Place& place);
    void rebuild();
    [[nodiscard]] double between(double count) const;

    std::vector<Place> places_;
    std::vector<Point> points_;        // of the places that have samples, ascending, never falling
    std::vector<Pool> pools_;          // of rebuild()
    std::vector<size_t> first_point_;  // [places] of this place or the next one that has samples
    int64_t time_ = 0;                 // samples so far
};

}  // namespace di
