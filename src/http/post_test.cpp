#include "http/post.h"

#include <atomic>
#include <future>
#include <memory>

#include <gtest/gtest.h>

#include "http/server.h"

namespace di {
namespace {

TEST(PostJson, DeliversTheBodyAndTellsOfABadStatus) {
    std::promise<HttpRequest> seen;
    std::atomic<int> status = 200;  // written here, read by the server's thread
    HttpHandler handler;
    handler.request = [&](HttpRequest request, const std::shared_ptr<HttpReply>& reply) {
        if (status == 200) {
            seen.set_value(std::move(request));
        }
        reply->send({.status = status, .headers = {}, .body = "{}"});
    };
    handler.fault = [](const HttpFault& fault) { return HttpResponse{.status = fault.status, .headers = {}, .body = {}}; };
    const auto server = HttpServer::start({}, std::move(handler));
    ASSERT_TRUE(server.has_value());
    const PostTarget target{.host = "127.0.0.1", .port = (*server)->port(), .path = "/v1/traces", .timeout_s = 20.0};
    const Status sent = post_json(target, R"({"a": 1})");
    ASSERT_TRUE(sent.has_value()) << sent.error().text;
    const HttpRequest request = seen.get_future().get();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/traces");
    EXPECT_EQ(request.body, R"({"a": 1})");
    EXPECT_EQ(request.header("content-type"), "application/json");
    status = 503;
    const Status refused = post_json(target, "{}");
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().text.find("status 503"), std::string::npos);
}

TEST(PostJson, SaysThatNobodyListens) {
    uint16_t port = 0;
    {
        HttpHandler handler;
        handler.request = [](const HttpRequest&, const std::shared_ptr<HttpReply>&) {};
        handler.fault = [](const HttpFault&) { return HttpResponse{}; };
        const auto server = HttpServer::start({}, std::move(handler));
        ASSERT_TRUE(server.has_value());
        port = (*server)->port();
    }
    const Status sent = post_json({.host = "127.0.0.1", .port = port, .path = "/", .timeout_s = 20.0}, "{}");
    ASSERT_FALSE(sent.has_value());
    EXPECT_EQ(sent.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace di
