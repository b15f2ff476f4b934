#include "http/server.h"

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "http/raw_client.h"

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

HttpResponse answer_to(const HttpFault& fault) {
    return {.headers = {{"content-type", "text/plain"}}, .body = fault.path + "|" + fault.text};
}

// Says what it was asked.
void echo(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
    reply->send({.status = 200, .body = request.method + " " + request.path + " " + request.body});
}

std::unique_ptr<HttpServer> start(HttpServerOptions options,
                                  std::function<void(HttpRequest, std::shared_ptr<HttpReply>)> request) {
    auto server = HttpServer::start(options, {.request = std::move(request), .fault = answer_to});
    EXPECT_TRUE(server.has_value()) << (server ? "" : server.error().text);
    return server ? std::move(*server) : nullptr;
}

// Counts up to a number; wait() returns once it is reached, or false after a minute.
class Count {
  public:
    void add() {
        const std::lock_guard lock(mutex_);
        ++value_;
        changed_.notify_all();
    }
    bool wait(int64_t value) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::milliseconds(kTestWaitMs), [&] { return value_ >= value; });
    }
    int64_t value() {
        const std::lock_guard lock(mutex_);
        return value_;
    }

  private:
    std::mutex mutex_;  // guards value_
    std::condition_variable changed_;
    int64_t value_ = 0;
};

// Work on the server's thread, and the end of it.
void run_on(HttpServer& server, const std::function<void()>& work) {
    std::promise<void> done;
    server.post([&] {
        work();
        done.set_value();
    });
    done.get_future().get();
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

TEST(HttpServer, TellsThatAClientWentAwayWhileItsAnswerIsMade) {
    Count asked;
    Count gone;
    std::vector<std::shared_ptr<HttpReply>> replies;
    const auto server = start({}, [&](const HttpRequest& request, std::shared_ptr<HttpReply> reply) {
        reply->on_gone([&gone] { gone.add(); });
        if (request.path == "/stream") {
            reply->begin_stream(200, {});
            reply->write("first");
        }
        replies.push_back(std::move(reply));
        asked.add();
    });
    {
        RawClient waiting(server->port());
        RawClient streaming(server->port());
        RawClient half(server->port());
        ASSERT_TRUE(waiting.send(get_request("/wait")) && streaming.send(get_request("/stream")) &&
                    half.send(get_request("/wait")));
        ASSERT_TRUE(streaming.receive_until("first"));
        ASSERT_TRUE(asked.wait(3));
        EXPECT_EQ(gone.value(), 0);
        half.close_sending();  // as a client does that closes
        ASSERT_TRUE(gone.wait(1));
    }
    ASSERT_TRUE(gone.wait(3));
    run_on(*server, [&] {
        for (const auto& reply : replies) {
            EXPECT_TRUE(reply->is_gone());
        }
        replies.clear();
    });
    run_on(*server, [] {});
    EXPECT_EQ(gone.value(), 3);
    EXPECT_EQ(server->counts().connections, 0);
}

TEST(HttpServer, AClientThatDoesNotReadIsGone) {
    Count gone;
    std::shared_ptr<HttpReply> stream;
    std::function<void()> write_more;
    const auto server = start({.unsent_bytes_max = 1 << 20}, [&](const HttpRequest&, std::shared_ptr<HttpReply> reply) {
        stream = std::move(reply);
        stream->on_gone([&gone] { gone.add(); });
        stream->begin_stream(200, {});
        write_more();
    });
    int64_t pieces = 0;
    const std::string piece(100'000, 'x');
    write_more = [&] {
        if (stream->is_gone() || ++pieces > 10'000) {
            return;
        }
        stream->write(piece);
        server->post(write_more);
    };
    RawClient client(server->port());
    ASSERT_TRUE(client.send(get_request("/")));
    ASSERT_TRUE(gone.wait(1));
    run_on(*server, [&] {
        EXPECT_LT(pieces, 10'000);
        stream.reset();
    });
}

TEST(HttpServer, ThousandStreamsGetTheirPiecesInOrder) {
    constexpr int kStreams = 1000;
    constexpr int kPieces = 20;
    std::vector<std::shared_ptr<HttpReply>> streams;
    Count begun;
    const auto server = start({}, [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
        reply->begin_stream(200, {{"content-type", "text/event-stream"}});
        reply->write(request.path + ":");
        streams.push_back(reply);
        begun.add();
    });
    std::vector<RawClient> clients;
    clients.reserve(kStreams);
    for (int i = 0; i < kStreams; ++i) {
        ASSERT_TRUE(clients.emplace_back(server->port()).send(get_request("/" + std::to_string(i))));
    }
    ASSERT_TRUE(begun.wait(kStreams));
    EXPECT_EQ(server->counts().connections, kStreams);
    for (int piece = 0; piece < kPieces; ++piece) {
        server->post([&streams, piece] {
            for (const auto& stream : streams) {
                stream->write(std::to_string(piece) + ",");
            }
        });
    }
    server->post([&streams] {
        for (const auto& stream : streams) {
            stream->end_stream();
        }
        streams.clear();
    });
    std::string expected;
    for (int piece = 0; piece < kPieces; ++piece) {
        expected += std::to_string(piece) + ",";
    }
    for (int i = 0; i < kStreams; ++i) {
        const RawAnswer answer = clients[i].answer();
        EXPECT_TRUE(answer.is_complete);
        EXPECT_EQ(answer.body, "/" + std::to_string(i) + ":" + expected);
    }
}

TEST(HttpServer, RunsWorkOfManyThreadsInTheOrderOfEach) {
    constexpr int kThreads = 4;
    constexpr int kEach = 5000;
    const auto server = start({}, echo);
    std::vector<std::vector<int>> seen(kThreads);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            for (int i = 0; i < kEach; ++i) {
                server->post([&seen, thread, i] { seen[thread].push_back(i); });
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    run_on(*server, [&] {
        for (const auto& numbers : seen) {
            ASSERT_EQ(numbers.size(), size_t{kEach});
            for (int i = 0; i < kEach; ++i) {
                EXPECT_EQ(numbers[i], i);
            }
        }
    });
    // Work posted by work runs later than what was posted before.
    std::vector<int> order;
    run_on(*server, [&] {
        server->post([&] { order.push_back(1); });
        server->post([&] { order.push_back(2); });
        order.push_back(0);
    });
    run_on(*server, [&] { EXPECT_EQ(order, (std::vector<int>{0, 1, 2})); });
}

TEST(HttpServer, RunsWorkAfterSomeTime) {
    const auto server = start({}, echo);
    std::promise<std::thread::id> later;
    std::thread::id thread;
    run_on(*server, [&] {
        thread = std::this_thread::get_id();
        server->post_after(0.001, [&] { later.set_value(std::this_thread::get_id()); });
        server->post_after(3600.0, [] { ADD_FAILURE() << "ran although the server has ended"; });
    });
    EXPECT_EQ(later.get_future().get(), thread);
}

TEST(HttpServer, StoppingLetsRunningStreamsEnd) {
    std::shared_ptr<HttpReply> stream;
    const auto server = start({}, [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
        if (request.path == "/idle") {
            echo(request, reply);
            return;
        }
        stream = reply;
        stream->begin_stream(200, {});
        stream->write("begin ");
    });
    RawClient idle(server->port());
    ASSERT_TRUE(idle.send(get_request("/idle")));
    EXPECT_EQ(idle.answer().status, 200);
    RawClient client(server->port());
    ASSERT_TRUE(client.send(get_request("/stream")));
    ASSERT_TRUE(client.receive_until("begin"));
    server->stop_accepting();
    EXPECT_EQ(idle.receive_rest(), "") << "an idle connection stays";
    EXPECT_FALSE(RawClient(server->port()).is_connected());
    run_on(*server, [&] {
        stream->write("end");
        stream->end_stream();
        stream.reset();
    });
    const RawAnswer answer = client.answer();
    EXPECT_EQ(answer.body, "begin end");
    EXPECT_TRUE(answer.is_complete);
    EXPECT_EQ(client.receive_rest(), "");
    server->stop_accepting();  // again: nothing to do
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

TEST(HttpServer, EndsWhileStreamsRunAndRepliesOutliveIt) {
    std::vector<std::shared_ptr<HttpReply>> replies;
    Count begun;
    auto server = start({}, [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
        reply->on_gone([] { ADD_FAILURE() << "the client did not go away"; });
        if (request.path == "/stream") {
            reply->begin_stream(200, {});
            reply->write("piece");
        }
        replies.push_back(reply);
        begun.add();
    });
    std::vector<RawClient> clients;
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(clients.emplace_back(server->port()).send(get_request(i % 2 == 0 ? "/stream" : "/wait")));
    }
    ASSERT_TRUE(begun.wait(20));
    server->post_after(3600.0, [] {});
    server.reset();
    for (auto& client : clients) {
        EXPECT_FALSE(client.answer().is_complete);
    }
    for (const auto& reply : replies) {
        EXPECT_TRUE(reply->is_gone());
        reply->break_off();
    }
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
