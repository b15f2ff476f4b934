#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paced_backend.h"
#include "service_over.h"
#include "stream_crowd.h"

// Many answers at once through the whole service, with a backend that needs no model.
namespace di {
namespace {

Session& session() {
    static const std::unique_ptr<Session> kSession = [] {
        SessionOptions options;
        options.engine.model_directory = DI_MODELS "/v41-mini";
        return Session::open(options).value();
    }();
    return *kSession;
}

const StreamWords& words() {
    static const StreamWords kWords(session().tokenizer());
    return kWords;
}

struct RunningService {
    explicit RunningService(std::chrono::microseconds interval) : backend(words(), interval, {}, {}) {
        service = service_over(session(), backend, clock, random, server_options(ServeSettings{}, Settings{}).value()).value();
    }

    SystemClock clock;
    SystemRandom random;
    PacedBackend backend;
    std::unique_ptr<Service> service;
};

// Every stream got its own words, all of them, once and in order.
void expect_whole_streams(const CrowdOptions& asked) {
    std::vector<std::string> texts(static_cast<size_t>(asked.streams));
    int64_t ended = 0;
    StreamCrowd crowd(
        asked, [&texts](uint64_t seed, std::string_view text) { texts[seed] += text; }, [&ended](uint64_t) { ++ended; });
    const CrowdCounts counts = crowd.run();
    ASSERT_EQ(counts.error, "");
    EXPECT_EQ(ended, asked.streams);
    for (uint64_t seed = 0; seed < texts.size(); ++seed) {
        std::string expected;
        for (int64_t i = 0; i < asked.tokens; ++i) {
            expected += words().text(seed, i);
        }
        ASSERT_EQ(texts[seed], expected) << "stream " << seed;
    }
}

TEST(ServiceLoad, NothingIsLostDoubledOrMixedUp) {
    const RunningService running(std::chrono::milliseconds(20));
    expect_whole_streams({.port = running.service->port(), .streams = 400, .at_once = 400, .tokens = 20});
}

TEST(ServiceLoad, NothingIsLostWhenTokensComeAsFastAsTheyCan) {
    const RunningService running(std::chrono::microseconds(0));
    expect_whole_streams({.port = running.service->port(), .streams = 300, .at_once = 50, .tokens = 40});
    expect_whole_streams(
        {.port = running.service->port(), .streams = 300, .at_once = 50, .tokens = 40, .streams_answers = false});
}

}  // namespace
}  // namespace di
