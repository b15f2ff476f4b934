#include "server/service.h"

#include <latch>

#include <gtest/gtest.h>

#include "base/file_io.h"
#include "http/server_harness.h"
#include "server/limits.h"
#include "session/session.h"
#include "temporary_directory.h"
#include "text/json_text.h"

namespace di {
namespace {

// Ready, and nothing ever comes of it.
class SilentBackend : public TokenBackend {
  public:
    void start(Sink /*sink*/) override {}
    void stop() override {}
    void submit(TokenRequest /*request*/) override {}
    void cancel(uint64_t /*id*/) override {}
    void cancel_sample(uint64_t /*id*/, int32_t /*sample_index*/) override {}
    void reset_prefix_cache() override {}
    [[nodiscard]] BackendHealth health() const override { return {.is_ready = true}; }
    [[nodiscard]] EngineStats stats() const override { return {}; }
};

TEST(Service, ARequestThatFindsNoRoomOnThePoolIsRefusedAndWrittenDown) {
    SessionOptions model;
    model.engine.model_directory = DI_MODELS "/v41-mini";
    model.engine.max_model_len = 256;
    model.engine.max_num_seqs = 1;
    const std::unique_ptr<Session> session = Session::open(model).value();
    SilentBackend backend;
    SystemClock clock;
    SeededRandom random(1);
    const TemporaryDirectory directory;
    ServerOptions options;
    options.http.port = 0;
    options.access_log = directory.file("access.log");
    const ServiceParts parts{.preparer = &session->preparer(),
                             .backend = &backend,
                             .clock = &clock,
                             .random = &random,
                             .model_name = "m",
                             .context_tokens = 256};
    const std::unique_ptr<Service> service = Service::start(options, parts).value();

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

    for (const char* path : {"/v1/chat/completions", "/tokenize"}) {
        RawClient client(service->port());
        ASSERT_TRUE(client.send(post_request(path, R"({"messages": [{"role": "user", "content": "q"}]})",
                                             "Content-Type: application/json\r\nX-Request-Id: the-refused-one\r\n")));
        const RawAnswer answer = client.answer();
        EXPECT_EQ(answer.status, 503) << answer.body;
        const std::string log = read_file(options.access_log, 1 << 20).value();
        const std::string last = log.substr(log.rfind('\n', log.size() - 2) + 1);
        const Result<JsonValue> line = parse_json(last);
        ASSERT_TRUE(line.has_value()) << log;
        EXPECT_EQ(line->find("request_id")->as_string(), "the-refused-one");
        EXPECT_EQ(line->find("route")->as_string(), path);
        EXPECT_EQ(line->find("status")->as_int64(), 503);
    }
    may_end.count_down();
}

}  // namespace
}  // namespace di
