#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "http/raw_client.h"
#include "http/server.h"

// For tests: servers that echo, and ways to wait for what happens on their thread.
namespace di {

inline HttpResponse answer_to(const HttpFault& fault) {
    return {.headers = {{"content-type", "text/plain"}}, .body = fault.path + "|" + fault.text};
}

// Says what it was asked.
inline void echo(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
    reply->send({.status = 200, .body = request.method + " " + request.path + " " + request.body});
}

inline std::unique_ptr<HttpServer> start(HttpServerOptions options,
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
inline void run_on(HttpServer& server, const std::function<void()>& work) {
    std::promise<void> done;
    server.post([&] {
        work();
        done.set_value();
    });
    done.get_future().get();
}

}  // namespace di
