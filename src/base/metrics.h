#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

// Numbers about the process for whoever watches it, in the text format of Prometheus. Any thread.
namespace di {

// Handles of one series: made once, kept by the caller, used as often as wanted (an atomic add; a histogram also takes a lock of its own).
// They are good as long as the Metrics they come from.
class Counter {
  public:
    Counter() = default;  // counts nothing
    void add(double amount = 1.0) const;

  private:
    friend class CounterFamily;
    explicit Counter(void* series) : series_(series) {}
    void* series_ = nullptr;
};

class Gauge {
  public:
    Gauge() = default;
    void set(double value) const;
    void add(double amount) const;

  private:
    friend class GaugeFamily;
    explicit Gauge(void* series) : series_(series) {}
    void* series_ = nullptr;
};

class Histogram {
  public:
    Histogram() = default;
    void observe(double value) const;

  private:
    friend class HistogramFamily;
    explicit Histogram(void* series) : series_(series) {}
    void* series_ = nullptr;
};

// A label and how many values it can have: those of `known`, and `others_max` more, whichever come first. What is beyond is counted
// as `other`, so that no client can make series without end; so is a value that is long or not printable ASCII.
struct MetricLabel {
    std::string name;
    std::vector<std::string> known{};
    size_t others_max = 0;
};

struct MetricDescription {
    std::string name;  // "deepinfer_requests_total"
    std::string help;
    std::vector<MetricLabel> labels{};
};

// Which values of each label of a family are in use. Owned by the family.
class LabelValues {
  public:
    explicit LabelValues(std::vector<MetricLabel> labels);
    // The labels of a series: `values` in the order of the description, those beyond the limit replaced.
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> labels_of(const std::vector<std::string_view>& values);

  private:
    std::mutex mutex_;  // guards labels_, whose `known` grows and whose `others_max` shrinks
    std::vector<MetricLabel> labels_;
};

// with(): the series of these label values, one for each label. A map is searched under a lock: for places that run for every
// request, not for every token.
class CounterFamily {
  public:
    [[nodiscard]] Counter with(const std::vector<std::string_view>& values = {});

  private:
    friend class Metrics;
    CounterFamily(void* family, std::shared_ptr<LabelValues> labels) : family_(family), labels_(std::move(labels)) {}
    void* family_;
    std::shared_ptr<LabelValues> labels_;  // copies of a family are the same family
};

class GaugeFamily {
  public:
    [[nodiscard]] Gauge with(const std::vector<std::string_view>& values = {});

  private:
    friend class Metrics;
    GaugeFamily(void* family, std::shared_ptr<LabelValues> labels) : family_(family), labels_(std::move(labels)) {}
    void* family_;
    std::shared_ptr<LabelValues> labels_;  // copies of a family are the same family
};

class HistogramFamily {
  public:
    [[nodiscard]] Histogram with(const std::vector<std::string_view>& values = {});

  private:
    friend class Metrics;
    HistogramFamily(void* family, std::shared_ptr<LabelValues> labels, std::vector<double> bounds)
        : family_(family), labels_(std::move(labels)), bounds_(std::move(bounds)) {}
    void* family_;
    std::shared_ptr<LabelValues> labels_;  // copies of a family are the same family
    std::vector<double> bounds_;
};

// Owns all series. Names and labels must follow the rules of Prometheus and each name be declared once: else it is our own bug.
class Metrics {
  public:
    Metrics();
    ~Metrics();
    Metrics(const Metrics&) = delete;
    Metrics& operator=(const Metrics&) = delete;

    [[nodiscard]] CounterFamily counter(const MetricDescription& description);
    [[nodiscard]] GaugeFamily gauge(const MetricDescription& description);
    // `bounds`: upper ends of the buckets, rising.
    [[nodiscard]] HistogramFamily histogram(const MetricDescription& description, std::vector<double> bounds);

    // The text exposition, content type "text/plain; version=0.0.4; charset=utf-8".
    [[nodiscard]] std::string text() const;
    [[nodiscard]] int64_t series_count() const;

  private:
    class Registry;
    std::unique_ptr<Registry> registry_;
};

}  // namespace di
