#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "http/connection.h"

// For tests: a connection without a socket and without time.
namespace di {

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

class TestHost final : public ConnectionHost {
  public:
    TestHost(const HttpServerOptions& server_options, HttpHandler server_handler)
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
struct TestClient {
    explicit TestClient(HttpServerOptions options = {}, bool is_refused = false)
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

    TestHost host;
    std::shared_ptr<FakeTransport> transport;
    std::vector<HttpRequest> requests;
    std::vector<std::shared_ptr<HttpReply>> replies;
    std::shared_ptr<Connection> connection;
};

}  // namespace di
