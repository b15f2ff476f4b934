#include "http/connection.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "http/limits.h"

namespace di {
namespace {

// A socket whose other end is the test: takes what it is let take, and its clock is turned by hand.
class FakeTransport final : public Transport {
  public:
    void read() override {
        EXPECT_FALSE(is_reading) << "two reads at a time";
        is_reading = true;
    }
    void write(std::string_view bytes) override {
        EXPECT_FALSE(writing.has_value()) << "two writes at a time";
        writing = std::string(bytes);
    }
    void finish_sending() override { has_finished = true; }
    void set_deadline(double seconds) override { deadline = seconds; }
    void clear_deadline() override { deadline.reset(); }
    void close(bool is_reset) override {
        is_closed = true;
        was_reset = is_reset;
    }

    bool is_reading = false;
    std::optional<std::string> writing;
    bool has_finished = false;
    std::optional<double> deadline;
    bool is_closed = false;
    bool was_reset = false;
};

class Host final : public ConnectionHost {
  public:
    Host(const HttpServerOptions& server_options, HttpHandler server_handler)
        : ConnectionHost(server_options, std::move(server_handler), std::make_shared<PostQueue>([] {})) {}

    void flush_soon(std::shared_ptr<Connection> connection) override { dirty.push_back(std::move(connection)); }
    void forget(Connection& /*connection*/) override { ++forgotten; }
    [[nodiscard]] int64_t now_us() override { return 77; }

    // The end of a turn of the loop.
    void turn() {
        const auto flushed = std::exchange(dirty, {});
        for (const auto& connection : flushed) {
            connection->flush();
        }
        posted->run();
    }

    std::vector<std::shared_ptr<Connection>> dirty;
    int forgotten = 0;
};

// One connection, and the requests that reached the handler.
struct Client {
    explicit Client(HttpServerOptions options = {}, bool is_refused = false)
        : host(std::move(options), {.request =
                                        [this](HttpRequest request, std::shared_ptr<HttpReply> reply) {
                                            requests.push_back(std::move(request));
                                            replies.push_back(std::move(reply));
                                        },
                                    .fault = [](const HttpFault& fault) { return HttpResponse{.body = fault.text}; }}),
          transport(std::make_shared<FakeTransport>()),
          connection(std::make_shared<Connection>(host, transport, ClientAddress{"10.1.1.1", false}, is_refused)) {
        connection->start();
        connection->on_open();
    }

    void says(std::string_view bytes) {
        ASSERT_TRUE(transport->is_reading);
        transport->is_reading = false;
        connection->on_bytes(bytes);
    }
    void ends() {
        ASSERT_TRUE(transport->is_reading);
        transport->is_reading = false;
        connection->on_read_end();
    }
    // Takes up to `count` bytes of what is written, and gives them.
    std::string takes(size_t count = std::string::npos) {
        host.turn();
        std::string taken;
        while (transport->writing && taken.size() < count) {
            const std::string part = std::exchange(transport->writing, std::nullopt)->substr(0, count - taken.size());
            taken += part;
            connection->on_written(part.size());
        }
        return taken;
    }
    void times_out() {
        ASSERT_TRUE(transport->deadline.has_value());
        transport->deadline.reset();
        connection->on_deadline();
    }

    Host host;
    std::shared_ptr<FakeTransport> transport;
    std::vector<HttpRequest> requests;
    std::vector<std::shared_ptr<HttpReply>> replies;
    std::shared_ptr<Connection> connection;
};

constexpr const char* kGet = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

TEST(Connection, AnswersInOneWriteATurn) {
    Client client;
    client.says(kGet);
    ASSERT_EQ(client.requests.size(), 1U);
    EXPECT_EQ(client.requests[0].remote_address, "10.1.1.1");
    EXPECT_EQ(client.requests[0].received_us, 77);
    client.replies[0]->begin_stream(200, {{"content-type", "text/plain"}});
    client.replies[0]->write("one");
    client.replies[0]->write("");
    client.replies[0]->write("two");
    EXPECT_FALSE(client.transport->writing.has_value()) << "written before the turn ended";
    const std::string text = client.takes();
    EXPECT_EQ(text.substr(text.find("\r\n\r\n")), "\r\n\r\n3\r\none\r\n3\r\ntwo\r\n");
    EXPECT_NE(text.find("transfer-encoding: chunked\r\nconnection: keep-alive\r\n"), std::string::npos);
    client.replies[0]->end_stream();
    EXPECT_EQ(client.takes(), "0\r\n\r\n");
    client.says(kGet);
    EXPECT_EQ(client.requests.size(), 2U);
}

TEST(Connection, NoHeaderValueEndsItsLine) {
    Client client;
    client.says(kGet);
    client.replies[0]->send({.status = 200, .headers = {{"x-request-id", "a\r\nset-cookie: b"}}, .body = "ok"});
    EXPECT_NE(client.takes().find("x-request-id: a  set-cookie: b\r\n"), std::string::npos);
}

TEST(Connection, AnswersWithoutABodyHaveNone) {
    Client client;
    client.says("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
    client.replies[0]->send({.status = 200, .body = "12345"});
    std::string text = client.takes();
    EXPECT_NE(text.find("content-length: 5\r\n"), std::string::npos);
    EXPECT_TRUE(text.ends_with("\r\n\r\n"));
    client.says("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
    client.replies[1]->begin_stream(200, {});
    client.replies[1]->write("12345");
    client.replies[1]->end_stream();
    EXPECT_TRUE(client.takes().ends_with("keep-alive\r\n\r\n"));
    client.says("OPTIONS /a HTTP/1.1\r\nHost: h\r\n\r\n");
    client.replies[2]->send({.status = 204});
    text = client.takes();
    EXPECT_EQ(text.find("content-length"), std::string::npos);
    client.says(kGet);
    EXPECT_EQ(client.requests.size(), 4U);
}

TEST(Connection, OldClientsGetAnAnswerThatEndsWithTheConnection) {
    Client client;
    client.says("GET /a HTTP/1.0\r\n\r\n");
    client.replies[0]->begin_stream(200, {});
    client.replies[0]->write("plain");
    client.replies[0]->end_stream();
    EXPECT_TRUE(client.takes().ends_with("connection: close\r\n\r\nplain"));
    EXPECT_TRUE(client.transport->has_finished);

    // Broken off, it ends with a reset: nothing else tells it from a whole one.
    Client broken;
    broken.says("GET /a HTTP/1.0\r\n\r\n");
    broken.replies[0]->begin_stream(200, {});
    broken.replies[0]->write("plai");
    broken.replies[0]->break_off();
    EXPECT_TRUE(broken.takes().ends_with("plai"));
    EXPECT_TRUE(broken.transport->was_reset);
}

TEST(Connection, ABrokenAnswerIsSentAsFarAsItGotAndHasNoEnd) {
    Client client;
    client.says(kGet);
    client.replies[0]->begin_stream(200, {});
    client.replies[0]->write("data: {\"error\":1}\n\n");
    client.replies[0]->break_off();
    EXPECT_TRUE(client.takes().ends_with("data: {\"error\":1}\n\n\r\n"));
    EXPECT_TRUE(client.transport->has_finished);
    client.replies[0]->break_off();  // again: nothing to do
    client.ends();
    EXPECT_TRUE(client.transport->is_closed);
    EXPECT_FALSE(client.transport->was_reset);
}

TEST(Connection, AReplyThatIsLetGoOfClosesTheConnection) {
    Client client;
    client.says(kGet);
    client.replies.clear();
    EXPECT_EQ(client.takes(), "");
    client.host.turn();
    EXPECT_TRUE(client.transport->has_finished);
}

TEST(Connection, TellsOnceThatTheClientIsGone) {
    int gone = 0;
    Client client;
    client.says(kGet);
    client.replies[0]->on_gone([&gone] { ++gone; });
    client.replies[0]->begin_stream(200, {});
    client.takes();
    EXPECT_FALSE(client.replies[0]->is_gone());
    client.ends();
    EXPECT_TRUE(client.replies[0]->is_gone());
    EXPECT_EQ(gone, 0) << "called from within";
    client.host.turn();
    client.host.turn();
    EXPECT_EQ(gone, 1);
    EXPECT_EQ(client.host.forgotten, 1);
    // What the handler still says goes nowhere.
    client.replies[0]->write("late");
    client.replies[0]->end_stream();
    EXPECT_EQ(client.takes(), "");
    EXPECT_EQ(gone, 1);

    // Who asks later is told, too; who answered before is not.
    Client late;
    late.says(kGet);
    late.ends();
    late.replies[0]->on_gone([&gone] { ++gone; });
    late.host.turn();
    EXPECT_EQ(gone, 2);
    Client answered;
    answered.says(kGet);
    answered.replies[0]->on_gone([&gone] { ++gone; });
    answered.replies[0]->send({.body = "whole"});
    answered.ends();
    EXPECT_TRUE(answered.takes().ends_with("whole"));
    EXPECT_FALSE(answered.replies[0]->is_gone());
    EXPECT_TRUE(answered.transport->is_closed);
    answered.host.turn();
    EXPECT_EQ(gone, 2);
}

TEST(Connection, AWriteThatFailsMeansThatTheClientIsGone) {
    int gone = 0;
    Client client;
    client.says(kGet);
    client.replies[0]->on_gone([&gone] { ++gone; });
    client.replies[0]->begin_stream(200, {});
    client.host.turn();
    client.connection->on_write_error();
    client.host.turn();
    EXPECT_EQ(gone, 1);
    EXPECT_TRUE(client.transport->is_closed);
}

TEST(Connection, AClientThatDoesNotReadIsGone) {
    int gone = 0;
    Client client({.unsent_bytes_max = 1000});
    client.says(kGet);
    client.replies[0]->on_gone([&gone] { ++gone; });
    client.replies[0]->begin_stream(200, {});
    client.replies[0]->write(std::string(5000, 'x'));  // one large piece may be: nobody knows yet how fast the client reads
    EXPECT_GT(client.takes(4900).size(), 0U);
    client.replies[0]->write(std::string(400, 'y'));
    client.host.turn();
    EXPECT_EQ(gone, 0);
    client.replies[0]->write(std::string(600, 'z'));
    EXPECT_FALSE(client.replies[0]->is_gone()) << "gone in the middle of a turn";
    client.host.turn();
    EXPECT_EQ(gone, 1);
    EXPECT_TRUE(client.transport->is_closed);
    EXPECT_TRUE(client.transport->was_reset);
}

TEST(Connection, AWholeAnswerMayBeLargerThanTheLimitOfUnsentBytes) {
    Client client({.unsent_bytes_max = 1000});
    client.says(kGet);
    client.replies[0]->send({.body = std::string(100'000, 'x')});
    size_t taken = 0;
    for (int turn = 0; turn < 300 && !client.host.forgotten; ++turn) {
        EXPECT_EQ(client.transport->deadline.value_or(0), 75.0);
        taken += client.takes(1000).size();
    }
    EXPECT_GT(taken, 100'000U);
    // Who takes none of it for long is closed, by a reset.
    client.says(kGet);
    client.replies[1]->send({.body = "more"});
    client.host.turn();
    client.times_out();
    EXPECT_TRUE(client.transport->was_reset);
}

TEST(Connection, PipelinedRequestsAreAnsweredInTheirOrder) {
    Client client;
    client.says("GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\nGET /3 HT");
    ASSERT_EQ(client.requests.size(), 1U);
    client.replies[0]->send({.body = "one"});
    EXPECT_TRUE(client.takes().ends_with("one"));
    ASSERT_EQ(client.requests.size(), 2U);
    EXPECT_EQ(client.requests[1].path, "/2");
    client.replies[1]->send({.body = "two"});
    EXPECT_TRUE(client.takes().ends_with("two"));
    ASSERT_EQ(client.requests.size(), 2U);
    EXPECT_EQ(client.transport->deadline, 10.0) << "the header under way has its time";
    client.says("TP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_EQ(client.requests.size(), 3U);
    EXPECT_EQ(client.requests[2].path, "/3");
}

TEST(Connection, LeavesUnreadWhatAClientSendsTooFarAhead) {
    Client client;
    client.says(kGet);
    size_t sent = 0;
    while (client.transport->is_reading && sent < 10 * kPipelinedBytesMax) {
        client.says(std::string(kReadBytes, '\n'));
        sent += kReadBytes;
    }
    EXPECT_EQ(sent, kPipelinedBytesMax);
    client.replies[0]->send({.body = "one"});
    client.takes();
    EXPECT_TRUE(client.transport->is_reading);
}

TEST(Connection, SlowHeadersAndBodiesAreAnswered408) {
    Client head;
    EXPECT_EQ(head.transport->deadline, 75.0);
    head.says("GET /a HT");
    EXPECT_EQ(head.transport->deadline, 10.0);
    head.times_out();
    EXPECT_TRUE(head.takes().starts_with("HTTP/1.1 408 "));
    EXPECT_TRUE(head.transport->has_finished);
    EXPECT_TRUE(head.requests.empty());

    Client body;
    body.says("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe");
    EXPECT_EQ(body.transport->deadline, 60.0);
    body.says("l");
    EXPECT_EQ(body.transport->deadline, 60.0);
    body.times_out();
    EXPECT_TRUE(body.takes().starts_with("HTTP/1.1 408 "));
    EXPECT_EQ(body.host.body_bytes, 0);

    // Between requests nobody waits for an answer.
    Client idle;
    idle.times_out();
    EXPECT_EQ(idle.takes(), "");
    EXPECT_TRUE(idle.transport->is_closed);
}

TEST(Connection, NoDeadlineRunsWhileAnAnswerIsMade) {
    Client client;
    client.says(kGet);
    EXPECT_FALSE(client.transport->deadline.has_value());
    client.replies[0]->begin_stream(200, {});
    client.takes();
    EXPECT_FALSE(client.transport->deadline.has_value());
}

TEST(Connection, AfterARefusalTheClientMayFinishSending) {
    Client client({.body_bytes_max = 10});
    client.says("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n");
    EXPECT_TRUE(client.takes().starts_with("HTTP/1.1 413 "));
    EXPECT_TRUE(client.transport->has_finished);
    for (int i = 0; i < 20; ++i) {
        client.says(std::string(5000, 'x'));  // thrown away
    }
    EXPECT_EQ(client.transport->deadline, kLingerSeconds);
    EXPECT_FALSE(client.transport->is_closed);
    client.ends();
    EXPECT_TRUE(client.transport->is_closed);
    EXPECT_TRUE(client.requests.empty());
}

TEST(Connection, BodiesTogetherHaveALimit) {
    Client client({.body_bytes_max = 100});
    client.host.body_bytes = kBodiesTogetherMax * 100 - 10;  // of other connections
    client.says("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 50\r\n\r\n0123456789");
    EXPECT_EQ(client.takes(), "");
    client.says("x");
    EXPECT_TRUE(client.takes().starts_with("HTTP/1.1 503 "));
    EXPECT_EQ(client.host.body_bytes, kBodiesTogetherMax * 100 - 10);
}

TEST(Connection, ARefusedClientIsToldWhy) {
    Client client({}, true);
    EXPECT_TRUE(client.takes().starts_with("HTTP/1.1 503 "));
    EXPECT_TRUE(client.transport->has_finished);
    client.says(kGet);
    EXPECT_TRUE(client.requests.empty());
}

TEST(Connection, StoppingClosesWhatIsIdleAndLetsTheRestFinish) {
    Client idle;
    Client reading;
    Client answering;
    reading.says("GET /a HT");
    answering.says(kGet);
    answering.replies[0]->begin_stream(200, {});
    for (Client* client : {&idle, &reading, &answering}) {
        client->host.is_stopping = true;
        client->connection->stop();
    }
    EXPECT_TRUE(idle.transport->is_closed);
    EXPECT_FALSE(reading.transport->is_closed);
    reading.says("TP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_EQ(reading.replies.size(), 1U);
    reading.replies[0]->send({.body = "last"});
    EXPECT_NE(reading.takes().find("connection: close"), std::string::npos);
    EXPECT_TRUE(reading.transport->has_finished);
    answering.replies[0]->write("piece");
    answering.replies[0]->end_stream();
    EXPECT_TRUE(answering.takes().ends_with("piece\r\n0\r\n\r\n"));
    EXPECT_TRUE(answering.transport->has_finished);
}

TEST(Connection, AsksAClientThatWaitsForItsBody) {
    Client client;
    client.says("POST /p HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    EXPECT_EQ(client.takes(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.says("ok");
    ASSERT_EQ(client.requests.size(), 1U);
    EXPECT_EQ(client.requests[0].body, "ok");
}

}  // namespace
}  // namespace di
