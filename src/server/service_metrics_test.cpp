#include "server/service_metrics.h"

#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "base/file_io.h"
#include "server/routes.h"
#include "silent_backend.h"

namespace di {
namespace {

bool has_line(const std::string& text, const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(ServiceMetrics, TotalsOfTheEngineAreCountedOnce) {
    SilentBackend backend;
    ServiceMetrics metrics(backend);
    backend.now.preemptions = 2;
    backend.now.drafted_tokens = 30;
    backend.now.running = 3;
    backend.now.blocks_used = 25;
    backend.now.blocks_total = 100;
    EXPECT_TRUE(has_line(metrics.text(4), "deepinfer_preemptions_total 2"));
    backend.now.preemptions = 5;
    const std::string text = metrics.text(4);
    EXPECT_TRUE(has_line(text, "deepinfer_preemptions_total 5"));
    EXPECT_TRUE(has_line(text, "deepinfer_drafted_tokens_total 30"));
    EXPECT_TRUE(has_line(text, "deepinfer_running 3"));
    EXPECT_TRUE(has_line(text, "deepinfer_open_answers 4"));
    EXPECT_TRUE(has_line(text, "deepinfer_cache_use_ratio 0.25"));
}

TEST(ServiceMetrics, PathsThatClientsMakeUpAreOneSeries) {
    SilentBackend backend;
    ServiceMetrics metrics(backend);
    for (int i = 0; i < 10'000; ++i) {
        Exchange exchange;
        exchange.http.path = "/" + std::to_string(i);
        exchange.request_id = exchange.http.path;
        metrics.count_error(exchange, ApiErrorKind::kNotFound);
    }
    const std::string text = metrics.text(0);
    EXPECT_TRUE(has_line(text, R"(deepinfer_errors_total{code="404",endpoint="other"} 10000)"));
    const std::string series = "\ndeepinfer_errors_total{";
    const size_t first = text.find(series);
    ASSERT_NE(first, std::string::npos);
    EXPECT_EQ(text.find(series, first + 1), std::string::npos);
}

TEST(ServiceMetrics, AreDocumented) {
    SilentBackend backend;
    ServiceMetrics metrics(backend);
    metrics.count_error({}, ApiErrorKind::kNotFound);
    const std::string page = read_file("docs/serving.md", 1 << 20).value();
    const std::string text = metrics.text(0);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string hash;
        std::string word;
        std::string name;
        std::string kind;
        if (words >> hash >> word >> name >> kind && word == "TYPE") {
            EXPECT_NE(page.find("| `" + name + "` | " + kind), std::string::npos) << "docs/serving.md lacks " << name;
        }
    }
    EXPECT_NE(text.find("# TYPE deepinfer_accepted_tokens_total counter"), std::string::npos);
}

}  // namespace
}  // namespace di
