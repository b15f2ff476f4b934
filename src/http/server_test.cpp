#include "http/server.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "http/raw_client.h"
#include "http/server_harness.h"

namespace di {
namespace {

std::string gzip_of(std::string_view text) {
    z_stream stream{};
    EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    std::string out(deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

TEST(HttpServer, AnswersRequestAfterRequestOnOneConnection) {
    const auto server = start({}, echo);
    RawClient client(server->port());
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(client.send(post_request("/p", "body " + std::to_string(i))));
        const RawAnswer answer = client.answer();
        EXPECT_EQ(answer.status, 200);
        EXPECT_EQ(answer.body, "POST /p body " + std::to_string(i));
        EXPECT_EQ(answer.headers.at("connection"), "keep-alive");
    }
    EXPECT_EQ(server->counts().accepted, 1);
    EXPECT_EQ(server->counts().connections, 1);
}

TEST(HttpServer, AnswersPipelinedRequestsInTheirOrder) {
    HttpServer* loop = nullptr;
    const auto server = start({}, [&](HttpRequest request, std::shared_ptr<HttpReply> reply) {
        reply->on_gone([] { ADD_FAILURE() << "a client that waits is gone"; });
        // In a later turn, so that the requests behind it have to wait.
        loop->post([request = std::move(request), reply = std::move(reply)] { echo(request, reply); });
    });
    loop = server.get();
    RawClient client(server->port());
    std::string all;
    for (int i = 0; i < 100; ++i) {
        all += i % 2 == 0 ? get_request("/" + std::to_string(i)) : post_request("/" + std::to_string(i), "x");
    }
    ASSERT_TRUE(client.send(all));
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(client.answer().body, i % 2 == 0 ? "GET /" + std::to_string(i) + " " : "POST /" + std::to_string(i) + " x");
    }
}

TEST(HttpServer, ReadsBodiesInChunksAndPacked) {
    const auto server = start({}, echo);
    RawClient client(server->port());
    ASSERT_TRUE(
        client.send("POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"));
    EXPECT_EQ(client.answer().body, "POST /c abcde");
    const std::string text(1'000'000, 'z');
    ASSERT_TRUE(client.send(post_request("/g", gzip_of(text), "Content-Encoding: gzip\r\n")));
    EXPECT_EQ(client.answer().body, "POST /g " + text);
    // Two members make one body.
    ASSERT_TRUE(client.send(post_request("/g", gzip_of("one ") + gzip_of("two"), "Content-Encoding: gzip\r\n")));
    EXPECT_EQ(client.answer().body, "POST /g one two");
    // One that is cut is no body.
    const std::string packed = gzip_of("a text that is cut somewhere");
    ASSERT_TRUE(client.send(post_request("/g", packed.substr(0, packed.size() - 3), "Content-Encoding: gzip\r\n")));
    EXPECT_EQ(client.answer().status, 400);
}

TEST(HttpServer, RefusesAGzipBombAsItGrows) {
    const auto server = start({.body_bytes_max = 100'000}, echo);
    const std::string bomb = gzip_of(std::string(20'000'000, '\0'));
    ASSERT_LT(bomb.size(), 100'000U);
    RawClient client(server->port());
    client.send(post_request("/g", bomb, "Content-Encoding: gzip\r\n"));
    const RawAnswer answer = client.answer();
    EXPECT_EQ(answer.status, 413);
    EXPECT_EQ(answer.body, "/g|the body has more than 100000 bytes");
}

TEST(HttpServer, ABodyThatIsTooLargeIsAnsweredEvenWhileItComes) {
    const auto server = start({.body_bytes_max = 1000}, echo);
    RawClient client(server->port());
    client.send(post_request("/p", std::string(8 << 20, 'x')));  // all of it, before the answer is read
    const RawAnswer answer = client.answer();
    EXPECT_EQ(answer.status, 413);
    EXPECT_EQ(answer.headers.at("connection"), "close");
    EXPECT_EQ(client.receive_rest(), "");
}

TEST(HttpServer, FaultsCloseTheConnectionAndNothingElse) {
    const auto server = start({.header_bytes_max = 2000}, echo);
    for (const auto& [bytes, status] : std::vector<std::pair<std::string, int>>{
             {"nonsense\r\n\r\n", 400},
             {"GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(5000, 'x') + "\r\n\r\n", 431},
             {post_request("/", "x", "Content-Encoding: br\r\n"), 415},
             {std::string("\0\1\2\3\r\n\r\n", 8), 400}}) {
        RawClient client(server->port());
        client.send(bytes);
        EXPECT_EQ(client.answer().status, status) << bytes.substr(0, 40);
        EXPECT_EQ(client.receive_rest(), "");
    }
    RawClient client(server->port());
    ASSERT_TRUE(client.send(get_request("/alive")));
    EXPECT_EQ(client.answer().body, "GET /alive ");
}

TEST(HttpServer, ASlowHeaderOrBodyIsAnswered408) {
    const auto server = start({.header_timeout_s = 0.05, .body_timeout_s = 0.05}, echo);
    RawClient head(server->port());
    ASSERT_TRUE(head.send("GET /slow HTTP/1.1\r\n"));
    EXPECT_EQ(head.answer().status, 408);
    RawClient body(server->port());
    ASSERT_TRUE(body.send("POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe"));
    const RawAnswer answer = body.answer();
    EXPECT_EQ(answer.status, 408);
    EXPECT_TRUE(answer.body.starts_with("/slow|")) << answer.body;
}

TEST(HttpServer, AnIdleConnectionIsClosedInSilence) {
    const auto server = start({.idle_timeout_s = 0.05}, echo);
    RawClient client(server->port());
    EXPECT_EQ(client.receive_rest(), "");
    EXPECT_FALSE(client.was_reset());
}

TEST(HttpServer, RefusesConnectionsBeyondItsLimit) {
    const auto server = start({.connections_max = 2}, echo);
    std::vector<RawClient> open;
    for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(open.emplace_back(server->port()).send(get_request("/")));
        ASSERT_EQ(open.back().answer().status, 200);
    }
    RawClient third(server->port());
    third.send(get_request("/"));
    EXPECT_EQ(third.answer().status, 503);
    EXPECT_EQ(third.receive_rest(), "");
    EXPECT_EQ(server->counts().refused, 1);
    // A place that is free again is given.
    open.pop_back();
    for (int attempt = 0; attempt < 1000 && server->counts().connections > 1; ++attempt) {
        run_on(*server, [] {});
    }
    RawClient fourth(server->port());
    ASSERT_TRUE(fourth.send(get_request("/")));
    EXPECT_EQ(fourth.answer().status, 200);
}

TEST(HttpServer, SaysWhyItCannotListen) {
    const auto server = start({}, echo);
    const HttpHandler handler{.request = echo, .fault = answer_to};
    const auto busy = HttpServer::start({.port = server->port()}, handler);
    ASSERT_FALSE(busy.has_value());
    EXPECT_NE(busy.error().text.find(std::to_string(server->port())), std::string::npos) << busy.error().text;
    const auto foreign = HttpServer::start({.host = "192.0.2.1"}, handler);
    ASSERT_FALSE(foreign.has_value());
    EXPECT_NE(foreign.error().text.find("192.0.2.1"), std::string::npos) << foreign.error().text;
    EXPECT_FALSE(HttpServer::start({.host = "no such host"}, handler).has_value());
}

TEST(HttpServer, KnowsItsClients) {
    HttpRequest seen;
    const auto server = start({.host = "localhost"}, [&](HttpRequest request, const std::shared_ptr<HttpReply>& reply) {
        seen = std::move(request);
        reply->send({});
    });
    RawClient client(server->port());
    if (!client.is_connected()) {
        GTEST_SKIP() << "localhost is no IPv4 address here";
    }
    ASSERT_TRUE(client.send(get_request("/")));
    EXPECT_EQ(client.answer().status, 200);
    run_on(*server, [&] {
        EXPECT_EQ(seen.remote_address, "127.0.0.1");
        EXPECT_TRUE(seen.is_loopback);
        EXPECT_GT(seen.received_us, 0);
    });
}

}  // namespace
}  // namespace di
