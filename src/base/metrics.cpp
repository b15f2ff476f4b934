#include "base/metrics.h"

#include <algorithm>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "base/check.h"

namespace di {
namespace {

// Longer than any name of ours; a value is kept as long as the process lives.
constexpr size_t kLabelValueBytesMax = 128;
constexpr std::string_view kOther = "other";

bool is_presentable(std::string_view value) {
    return value.size() <= kLabelValueBytesMax &&
           std::all_of(value.begin(), value.end(), [](unsigned char c) { return c >= 0x20 && c < 0x7F; });
}

template <typename Series, typename... Args>
Series* series_of(void* family, LabelValues& values, const std::vector<std::string_view>& given, const Args&... args) {
    const std::vector<std::pair<std::string, std::string>> labels = values.labels_of(given);
    return &static_cast<prometheus::Family<Series>*>(family)->Add(prometheus::Labels(labels.begin(), labels.end()), args...);
}

}  // namespace

void Counter::add(double amount) const {
    if (series_ != nullptr) {
        static_cast<prometheus::Counter*>(series_)->Increment(amount);
    }
}

void Gauge::set(double value) const {
    if (series_ != nullptr) {
        static_cast<prometheus::Gauge*>(series_)->Set(value);
    }
}

void Gauge::add(double amount) const {
    if (series_ != nullptr) {
        static_cast<prometheus::Gauge*>(series_)->Increment(amount);
    }
}

void Histogram::observe(double value) const {
    if (series_ != nullptr) {
        static_cast<prometheus::Histogram*>(series_)->Observe(value);
    }
}

LabelValues::LabelValues(std::vector<MetricLabel> labels) : labels_(std::move(labels)) {}

std::vector<std::pair<std::string, std::string>> LabelValues::labels_of(const std::vector<std::string_view>& values) {
    const std::lock_guard lock(mutex_);
    DI_CHECK(values.size() == labels_.size(), "a series has one value for each label of its family");
    std::vector<std::pair<std::string, std::string>> pairs;
    pairs.reserve(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
        MetricLabel& label = labels_[i];
        std::string_view value = values[i];
        const bool is_known = std::find(label.known.begin(), label.known.end(), value) != label.known.end();
        if (!is_known && label.others_max > 0 && is_presentable(value)) {
            label.known.emplace_back(value);
            --label.others_max;
        } else if (!is_known) {
            value = kOther;
        }
        pairs.emplace_back(label.name, value);
    }
    return pairs;
}

Counter CounterFamily::with(const std::vector<std::string_view>& values) {
    return Counter(series_of<prometheus::Counter>(family_, *labels_, values));
}

Gauge GaugeFamily::with(const std::vector<std::string_view>& values) {
    return Gauge(series_of<prometheus::Gauge>(family_, *labels_, values));
}

Histogram HistogramFamily::with(const std::vector<std::string_view>& values) {
    return Histogram(series_of<prometheus::Histogram>(family_, *labels_, values, bounds_));
}

class Metrics::Registry {
  public:
    // The library throws where a name is wrong or stands twice; that is our own bug, found when the process starts.
    template <typename Builder>
    auto* add(Builder builder, const MetricDescription& description) {
        return &builder.Name(description.name).Help(description.help).Register(registry_);
    }

    [[nodiscard]] std::vector<prometheus::MetricFamily> collect() const {
        std::vector<prometheus::MetricFamily> families = registry_.Collect();
        // The library keeps series in hash maps; the text has one order.
        std::sort(families.begin(), families.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
        for (prometheus::MetricFamily& family : families) {
            std::sort(family.metric.begin(), family.metric.end(), [](const auto& a, const auto& b) {
                return std::lexicographical_compare(a.label.begin(), a.label.end(), b.label.begin(), b.label.end(),
                                                    [](const auto& x, const auto& y) { return x.value < y.value; });
            });
        }
        return families;
    }

  private:
    prometheus::Registry registry_{prometheus::Registry::InsertBehavior::Throw};
};

Metrics::Metrics() : registry_(std::make_unique<Registry>()) {}
Metrics::~Metrics() = default;

CounterFamily Metrics::counter(const MetricDescription& description) {
    return {registry_->add(prometheus::BuildCounter(), description), std::make_shared<LabelValues>(description.labels)};
}

GaugeFamily Metrics::gauge(const MetricDescription& description) {
    return {registry_->add(prometheus::BuildGauge(), description), std::make_shared<LabelValues>(description.labels)};
}

HistogramFamily Metrics::histogram(const MetricDescription& description, std::vector<double> bounds) {
    DI_CHECK(std::is_sorted(bounds.begin(), bounds.end()), "the bounds of a histogram rise");
    return {registry_->add(prometheus::BuildHistogram(), description), std::make_shared<LabelValues>(description.labels),
            std::move(bounds)};
}

std::string Metrics::text() const { return prometheus::TextSerializer().Serialize(registry_->collect()); }

int64_t Metrics::series_count() const {
    int64_t count = 0;
    for (const prometheus::MetricFamily& family : registry_->collect()) {
        count += static_cast<int64_t>(family.metric.size());
    }
    return count;
}

}  // namespace di
