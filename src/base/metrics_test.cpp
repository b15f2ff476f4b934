#include "base/metrics.h"

#include <thread>

#include <gtest/gtest.h>

namespace di {
namespace {

bool has_line(const Metrics& metrics, const std::string& line) {
    return ("\n" + metrics.text()).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, AreWrittenAsTextWithTypeAndHelp) {
    Metrics metrics;
    const Counter counter = metrics.counter({"x_total", "what x is"}).with();
    counter.add();
    counter.add(2.0);
    const Gauge gauge = metrics.gauge({"y", "what y is", {{"part", {"a", "b"}}}}).with({"b"});
    gauge.set(5.0);
    gauge.add(-1.5);
    EXPECT_EQ(metrics.text(),
              "# HELP x_total what x is\n# TYPE x_total counter\nx_total 3\n"
              "# HELP y what y is\n# TYPE y gauge\ny{part=\"b\"} 3.5\n");
}

TEST(Metrics, HistogramsCountBelowEachBound) {
    Metrics metrics;
    const Histogram histogram = metrics.histogram({"s_seconds", "time"}, {0.1, 1.0}).with();
    for (const double value : {0.05, 0.1, 0.5, 3.0}) {
        histogram.observe(value);
    }
    EXPECT_TRUE(has_line(metrics, "s_seconds_bucket{le=\"0.1\"} 2"));
    EXPECT_TRUE(has_line(metrics, "s_seconds_bucket{le=\"1\"} 3"));
    EXPECT_TRUE(has_line(metrics, "s_seconds_bucket{le=\"+Inf\"} 4"));
    EXPECT_TRUE(has_line(metrics, "s_seconds_count 4"));
}

TEST(Metrics, TheSameValuesAreTheSameSeries) {
    Metrics metrics;
    CounterFamily family = metrics.counter({"x_total", "x", {{"a", {}, 10}, {"b", {}, 10}}});
    family.with({"1", "2"}).add();
    family.with({"1", "2"}).add();
    family.with({"2", "1"}).add();
    EXPECT_TRUE(has_line(metrics, "x_total{a=\"1\",b=\"2\"} 2"));
    EXPECT_EQ(metrics.series_count(), 2);
}

TEST(Metrics, TenThousandNamesOfClientsAreFewSeries) {
    Metrics metrics;
    CounterFamily family = metrics.counter({"x_total", "x", {{"model", {"v41"}, 3}, {"status", {"200", "404"}}}});
    for (int i = 0; i < 10'000; ++i) {
        family.with({"model-" + std::to_string(i), i % 2 == 0 ? "404" : std::to_string(i)}).add();
    }
    family.with({"v41", "200"}).add();
    // model: 0, 1, 2, v41 and other; status: 404, other and 200.
    EXPECT_LE(metrics.series_count(), 5 * 3);
    EXPECT_TRUE(has_line(metrics, "x_total{model=\"v41\",status=\"200\"} 1"));
    EXPECT_TRUE(has_line(metrics, "x_total{model=\"other\",status=\"404\"} 4998"));
    EXPECT_TRUE(has_line(metrics, "x_total{model=\"model-2\",status=\"404\"} 1"));
}

TEST(Metrics, ValuesThatNoPageShouldShowAreOther) {
    Metrics metrics;
    CounterFamily family = metrics.counter({"x_total", "x", {{"name", {}, 100}}});
    for (const std::string& value :
         {std::string("a\nb"), std::string("\xff"), std::string(129, 'x'), std::string("\xc3\xa9")}) {
        family.with({value}).add();
    }
    EXPECT_TRUE(has_line(metrics, "x_total{name=\"other\"} 4"));
    family.with({"say \"x\" \\"}).add();
    EXPECT_TRUE(has_line(metrics, "x_total{name=\"say \\\"x\\\" \\\\\"} 1"));
}

TEST(Metrics, AreCountedFromSeveralThreads) {
    Metrics metrics;
    CounterFamily family = metrics.counter({"x_total", "x", {{"thread", {}, 2}}});
    const Counter shared = family.with({"0"});
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int j = 0; j < 1000; ++j) {
                shared.add();
                family.with({"1"}).add();
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_TRUE(has_line(metrics, "x_total{thread=\"0\"} 4000"));
    EXPECT_TRUE(has_line(metrics, "x_total{thread=\"1\"} 4000"));
}

TEST(Metrics, AHandleOfNothingCountsNothing) {
    Counter().add();
    Gauge().set(1.0);
    Histogram().observe(1.0);
}

}  // namespace
}  // namespace di
