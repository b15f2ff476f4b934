#include "server/service.h"

#include <latch>

#include <gtest/gtest.h>

#include "base/file_io.h"
#include "http/server_harness.h"
#include "server/limits.h"
#include "service_over.h"
#include "silent_backend.h"
#include "temporary_directory.h"
#include "text/json_text.h"

namespace di {
namespace {

struct RunningService {
    RunningService() {
        SessionOptions model;
        model.engine.model_directory = DI_MODELS "/v41-mini";
        model.engine.max_model_len = 256;
        model.engine.max_num_seqs = 1;
        session = Session::open(model).value();
        ServerOptions options;
        options.access_log = directory.file("access.log");
        service = service_over(*session, backend, clock, random, options).value();
    }

    // Sends a request and expects this status, in the answer and in the last line of the access log, which names `route`.
    void expect_refused(const char* method, const char* path, const char* type, int status) {
        RawClient client(service->port());
        std::string request = post_request(path, R"({"messages": [{"role": "user", "content": "q"}]})",
                                           fmt::format("Content-Type: {}\r\nX-Request-Id: the-refused-one\r\n", type));
        request.replace(0, request.find(' '), method);
        ASSERT_TRUE(client.send(request));
        const RawAnswer answer = client.answer();
        EXPECT_EQ(answer.status, status) << answer.body;
        const std::string log = read_file(directory.file("access.log"), 1 << 20).value();
        const std::string last = log.substr(log.rfind('\n', log.size() - 2) + 1);
        const Result<JsonValue> line = parse_json(last);
        ASSERT_TRUE(line.has_value()) << log;
        EXPECT_EQ(line->find("request_id")->as_string(), "the-refused-one");
        EXPECT_EQ(line->find("route")->as_string(), path);
        EXPECT_EQ(line->find("status")->as_int64(), status);
    }

    const TemporaryDirectory directory;
    std::unique_ptr<Session> session;
    SilentBackend backend;
    SystemClock clock;
    SeededRandom random{1};
    std::unique_ptr<Service> service;
};

TEST(Service, WhatIsRefusedBeforeItsRouteIsWrittenDown) {
    RunningService running;
    running.expect_refused("POST", "/nothing/here", "application/json", 404);
    running.expect_refused("PUT", "/nothing/there", "application/json", 404);
    running.expect_refused("POST", "/tokenize", "text/plain", 415);
}

TEST(Service, ARequestThatFindsNoRoomOnThePoolIsRefusedAndWrittenDown) {
    RunningService running;
    Service* const service = running.service.get();

    // Every thread of the pool is held, then every place behind them is taken.
    std::latch begun(kTextThreads);
    std::latch may_end(1);
    run_on(service->http(), [&] {
        for (int i = 0; i < kTextThreads; ++i) {
            service->run_on_pool(nullptr, [&] {
                begun.count_down();
                may_end.wait();
            });
        }
    });
    begun.wait();
    run_on(service->http(), [&] {
        for (size_t i = 0; i < kTextTasksMax; ++i) {
            service->run_on_pool(nullptr, [] {});
        }
    });

    running.expect_refused("POST", "/v1/chat/completions", "application/json", 503);
    running.expect_refused("POST", "/tokenize", "application/json", 503);
    may_end.count_down();
}

}  // namespace
}  // namespace di
