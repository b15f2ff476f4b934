#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "http/raw_client.h"
#include "http/server.h"
#include "http/server_harness.h"

// Answers that take their time: streams, clients that leave, the server's thread and its end.
namespace di {
namespace {

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

}  // namespace
}  // namespace di
