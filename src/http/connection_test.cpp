#include "http/connection.h"

#include <string>

#include <gtest/gtest.h>

#include "http/connection_harness.h"
#include "http/limits.h"

namespace di {
namespace {

constexpr const char* kGet = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

TEST(Connection, AnswersInOneWriteATurn) {
    TestClient client;
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
    TestClient client;
    client.says(kGet);
    client.replies[0]->send({.status = 200, .headers = {{"x-request-id", "a\r\nset-cookie: b"}}, .body = "ok"});
    EXPECT_NE(client.takes().find("x-request-id: a  set-cookie: b\r\n"), std::string::npos);
}

TEST(Connection, AnswersWithoutABodyHaveNone) {
    TestClient client;
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
    TestClient client;
    client.says("GET /a HTTP/1.0\r\n\r\n");
    client.replies[0]->begin_stream(200, {});
    client.replies[0]->write("plain");
    client.replies[0]->end_stream();
    EXPECT_TRUE(client.takes().ends_with("connection: close\r\n\r\nplain"));
    EXPECT_TRUE(client.transport->has_finished);

    // Broken off, it ends with a reset: nothing else tells it from a whole one.
    TestClient broken;
    broken.says("GET /a HTTP/1.0\r\n\r\n");
    broken.replies[0]->begin_stream(200, {});
    broken.replies[0]->write("plai");
    broken.replies[0]->break_off();
    EXPECT_TRUE(broken.takes().ends_with("plai"));
    EXPECT_TRUE(broken.transport->was_reset);
}

TEST(Connection, ABrokenAnswerIsSentAsFarAsItGotAndHasNoEnd) {
    TestClient client;
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
    TestClient client;
    client.says(kGet);
    client.replies.clear();
    EXPECT_EQ(client.takes(), "");
    client.host.turn();
    EXPECT_TRUE(client.transport->has_finished);
}

TEST(Connection, TellsOnceThatTheClientIsGone) {
    int gone = 0;
    TestClient client;
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
    TestClient late;
    late.says(kGet);
    late.ends();
    late.replies[0]->on_gone([&gone] { ++gone; });
    late.host.turn();
    EXPECT_EQ(gone, 2);
    TestClient answered;
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
    TestClient client;
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
    TestClient client({.unsent_bytes_max = 1000});
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
    TestClient client({.unsent_bytes_max = 1000});
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
    TestClient client;
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
    TestClient client;
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
    TestClient head;
    EXPECT_EQ(head.transport->deadline, 75.0);
    head.says("GET /a HT");
    EXPECT_EQ(head.transport->deadline, 10.0);
    head.times_out();
    EXPECT_TRUE(head.takes().starts_with("HTTP/1.1 408 "));
    EXPECT_TRUE(head.transport->has_finished);
    EXPECT_TRUE(head.requests.empty());

    TestClient body;
    body.says("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe");
    EXPECT_EQ(body.transport->deadline, 60.0);
    body.says("l");
    EXPECT_EQ(body.transport->deadline, 60.0);
    body.times_out();
    EXPECT_TRUE(body.takes().starts_with("HTTP/1.1 408 "));
    EXPECT_EQ(body.host.body_bytes, 0);

    // Between requests nobody waits for an answer.
    TestClient idle;
    idle.times_out();
    EXPECT_EQ(idle.takes(), "");
    EXPECT_TRUE(idle.transport->is_closed);
}

TEST(Connection, NoDeadlineRunsWhileAnAnswerIsMade) {
    TestClient client;
    client.says(kGet);
    EXPECT_FALSE(client.transport->deadline.has_value());
    client.replies[0]->begin_stream(200, {});
    client.takes();
    EXPECT_FALSE(client.transport->deadline.has_value());
}

TEST(Connection, AfterARefusalTheClientMayFinishSending) {
    TestClient client({.body_bytes_max = 10});
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
    TestClient client({.body_bytes_max = 100});
    client.host.body_bytes = kBodiesTogetherMax * 100 - 10;  // of other connections
    client.says("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 50\r\n\r\n0123456789");
    EXPECT_EQ(client.takes(), "");
    client.says("x");
    EXPECT_TRUE(client.takes().starts_with("HTTP/1.1 503 "));
    EXPECT_EQ(client.host.body_bytes, kBodiesTogetherMax * 100 - 10);
}

TEST(Connection, ARefusedClientIsToldWhy) {
    TestClient client({}, true);
    EXPECT_TRUE(client.takes().starts_with("HTTP/1.1 503 "));
    EXPECT_TRUE(client.transport->has_finished);
    client.says(kGet);
    EXPECT_TRUE(client.requests.empty());
}

TEST(Connection, AsksAClientThatWaitsForItsBody) {
    TestClient client;
    client.says("POST /p HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    EXPECT_EQ(client.takes(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.says("ok");
    ASSERT_EQ(client.requests.size(), 1U);
    EXPECT_EQ(client.requests[0].body, "ok");
}

}  // namespace
}  // namespace di
