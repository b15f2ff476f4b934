#include "http/fetch.h"

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "http/raw_client.h"

namespace di {
namespace {

using Handler = std::function<void(HttpRequest, std::shared_ptr<HttpReply>)>;

FetchOptions private_options() { return {.allows_private_hosts = true}; }

std::unique_ptr<HttpServer> start_upstream(Handler handler) {
    auto server =
        HttpServer::start({}, {.request = std::move(handler), .fault = [](const HttpFault&) { return HttpResponse{}; }});
    EXPECT_TRUE(server.has_value());
    return std::move(*server);
}

std::string url_of(const HttpServer& server, const std::string& target) {
    return "http://127.0.0.1:" + std::to_string(server.port()) + target;
}

FetchResult fetch(Fetcher& fetcher, std::string url) {
    std::promise<FetchResult> result;
    fetcher.fetch(std::move(url), [&result](FetchResult value) { result.set_value(std::move(value)); });
    return result.get_future().get();
}

FetchResult fetch(const std::string& url) {
    static const auto fetcher = Fetcher::create(private_options());  // reading the system's certificates takes long
    return fetch(*fetcher, url);
}

FetchResult fetch(const std::string& url, const FetchOptions& options) { return fetch(*Fetcher::create(options), url); }

// An upstream that says fixed bytes to its first client and closes.
class RawUpstream {
  public:
    explicit RawUpstream(std::string bytes) : handle_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(::bind(handle_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
        EXPECT_EQ(::listen(handle_, 1), 0);
        socklen_t size = sizeof(address);
        EXPECT_EQ(::getsockname(handle_, reinterpret_cast<sockaddr*>(&address), &size), 0);
        url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/";
        thread_ = std::thread([this, bytes = std::move(bytes)] {
            pollfd waits{.fd = handle_, .events = POLLIN, .revents = 0};
            if (::poll(&waits, 1, kTestWaitMs) != 1) {
                return;
            }
            const int client = ::accept(handle_, nullptr, nullptr);
            char request[4096];
            if (::recv(client, request, sizeof(request), 0) > 0) {
                ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            }
            ::close(client);
        });
    }
    ~RawUpstream() {
        thread_.join();
        ::close(handle_);
    }
    [[nodiscard]] const std::string& url() const { return url_; }

  private:
    int handle_;
    std::string url_;
    std::thread thread_;
};

TEST(Fetcher, FetchesWholeAnswersHoweverTheyAreFramed) {
    HttpRequest seen;
    const auto server = start_upstream([&seen](HttpRequest request, const std::shared_ptr<HttpReply>& reply) {
        if (request.path == "/chunks") {
            reply->begin_stream(200, {});
            reply->write("one ");
            reply->write("two");
            reply->end_stream();
            return;
        }
        seen = std::move(request);
        reply->send({.body = std::string("\0\1\2", 3)});
    });
    EXPECT_EQ(fetch(url_of(*server, "/a?b=c")).value(), std::string("\0\1\2", 3));
    EXPECT_EQ(seen.method, "GET");
    EXPECT_EQ(seen.target, "/a?b=c");
    EXPECT_EQ(seen.header("host"), "127.0.0.1:" + std::to_string(server->port()));
    EXPECT_EQ(seen.header("authorization"), "");
    EXPECT_EQ(fetch(url_of(*server, "/chunks")).value(), "one two");
    EXPECT_EQ(fetch(RawUpstream("HTTP/1.0 200 OK\r\n\r\nto the end").url()).value(), "to the end");
    EXPECT_EQ(fetch(RawUpstream("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").url()).value(),
              "ok");
}

TEST(Fetcher, BrokenAnswersAreTheUpstreamsFault) {
    for (const char* bytes : {"", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
                              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 100 Continue\r\n\r\n"}) {
        const FetchResult result = fetch(RawUpstream(bytes).url());
        ASSERT_FALSE(result.has_value()) << bytes;
        EXPECT_FALSE(result.error().is_clients_fault) << bytes;
    }
    const FetchResult flood = fetch(RawUpstream("HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n").url());
    ASSERT_FALSE(flood.has_value());
    EXPECT_FALSE(flood.error().is_clients_fault);
}

TEST(Fetcher, StatusesSayWhoseFaultItIs) {
    const auto server = start_upstream([](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
        reply->send({.status = std::stoi(request.path.substr(1)), .body = "x"});
    });
    for (const auto& [status, is_clients_fault] :
         {std::pair{404, true}, {403, true}, {204, true}, {302, true}, {500, false}, {503, false}}) {
        const FetchResult result = fetch(url_of(*server, "/" + std::to_string(status)));
        ASSERT_FALSE(result.has_value());
        EXPECT_EQ(result.error().is_clients_fault, is_clients_fault) << status << ": " << result.error().text;
    }
}

TEST(Fetcher, StopsAtItsLimitOfBytes) {
    const auto server = start_upstream([](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
        const std::string body(std::stoi(request.query), 'x');
        if (request.path == "/whole") {
            reply->send({.body = body});
            return;
        }
        reply->begin_stream(200, {});
        reply->write(body);
        reply->end_stream();
    });
    const FetchOptions options{.bytes_max = 1000, .allows_private_hosts = true};
    for (const char* path : {"/whole?", "/chunks?"}) {
        EXPECT_EQ(fetch(url_of(*server, path + std::string("1000")), options).value().size(), 1000U);
        const FetchResult result = fetch(url_of(*server, path + std::string("1001")), options);
        ASSERT_FALSE(result.has_value()) << path;
        EXPECT_TRUE(result.error().is_clients_fault);
        EXPECT_NE(result.error().text.find("1000 bytes"), std::string::npos) << result.error().text;
    }
    const FetchResult endless = fetch(RawUpstream("HTTP/1.0 200 OK\r\n\r\n" + std::string(5000, 'x')).url(), options);
    ASSERT_FALSE(endless.has_value());
    EXPECT_TRUE(endless.error().is_clients_fault);
}

TEST(Fetcher, FollowsRedirectsAndChecksEach) {
    const auto server = start_upstream([](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
        const int left = std::stoi(request.path.substr(1));
        if (left == 0) {
            reply->send({.body = "arrived"});
            return;
        }
        constexpr int kStatuses[]{301, 302, 303, 307, 308};
        const std::string location = request.query.empty() ? "/" + std::to_string(left - 1) : request.query;
        reply->send({.status = kStatuses[left % 5], .headers = {{"location", location}}});
    });
    EXPECT_EQ(fetch(url_of(*server, "/3")).value(), "arrived");
    const FetchResult many = fetch(url_of(*server, "/4"));
    ASSERT_FALSE(many.has_value());
    EXPECT_TRUE(many.error().is_clients_fault);
    for (const char* target : {"file:///etc/passwd", "http://user:password@127.0.0.1/", "gopher://127.0.0.1/"}) {
        const FetchResult result = fetch(url_of(*server, "/1?") + target);
        ASSERT_FALSE(result.has_value()) << target;
        EXPECT_TRUE(result.error().is_clients_fault);
    }
}

TEST(Fetcher, NoSpellingLeadsToAPrivateHost) {
    const auto server =
        start_upstream([](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) { reply->send({.body = "secret"}); });
    const std::string port = ":" + std::to_string(server->port()) + "/";
    const auto fetcher = Fetcher::create({});
    for (const char* host :
         {"127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "0177.0.0.1", "0", "0.0.0.0", "localhost",
          "LOCALHOST", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]"}) {
        const FetchResult result = fetch(*fetcher, "http://" + std::string(host) + port);
        ASSERT_FALSE(result.has_value()) << host;
        EXPECT_TRUE(result.error().is_clients_fault) << host << ": " << result.error().text;
    }
    EXPECT_EQ(server->counts().accepted, 0);
    const FetchResult metadata = fetch(*fetcher, "http://169.254.169.254/latest/meta-data");
    ASSERT_FALSE(metadata.has_value());
    EXPECT_TRUE(metadata.error().is_clients_fault);
    EXPECT_NE(metadata.error().text.find("not a public one"), std::string::npos);
}

TEST(Fetcher, ChecksWhereARedirectLeads) {
    // A private host is allowed here; what is no URL for fetching is not, on any hop.
    const FetchResult result =
        fetch(RawUpstream("HTTP/1.1 302 Found\r\nLocation: http://a..b/\r\nContent-Length: 0\r\n\r\n").url());
    ASSERT_FALSE(result.has_value());
    EXPECT_FALSE(result.error().is_clients_fault) << result.error().text;
    EXPECT_NE(result.error().text.find("a..b"), std::string::npos) << result.error().text;
}

TEST(Fetcher, GivesUpAfterItsTime) {
    std::vector<std::shared_ptr<HttpReply>> kept;
    const auto server = start_upstream([&kept](const HttpRequest& request, std::shared_ptr<HttpReply> reply) {
        if (request.path == "/stream") {
            reply->begin_stream(200, {});
            reply->write("some");
        }
        kept.push_back(std::move(reply));  // never answered
    });
    const FetchOptions options{.timeout_s = 0.05, .allows_private_hosts = true};
    for (const char* path : {"/wait", "/stream"}) {
        const FetchResult result = fetch(url_of(*server, path), options);
        ASSERT_FALSE(result.has_value());
        EXPECT_FALSE(result.error().is_clients_fault);
        EXPECT_NE(result.error().text.find("longer than 0.05 s"), std::string::npos) << result.error().text;
    }
}

TEST(Fetcher, RunsSoManyAtATimeAndTheOthersWait) {
    constexpr int kFetches = 10;
    constexpr int kAtATime = 2;
    std::vector<std::shared_ptr<HttpReply>> open;
    int most = 0;
    std::promise<void> answered;
    std::atomic<int> ended{0};
    HttpServer* loop = nullptr;
    const auto server = start_upstream([&](const HttpRequest&, std::shared_ptr<HttpReply> reply) {
        open.push_back(std::move(reply));
        most = std::max(most, static_cast<int>(open.size()));
        // Answered in pairs: nobody is alone unless the fetcher asks for one at a time.
        if (open.size() == kAtATime) {
            loop->post([&open] {
                for (const auto& waiting : std::exchange(open, {})) {
                    waiting->send({.body = "ok"});
                }
            });
        }
    });
    loop = server.get();
    const auto fetcher = Fetcher::create({.timeout_s = 60.0, .allows_private_hosts = true, .concurrent_max = kAtATime});
    for (int i = 0; i < kFetches; ++i) {
        fetcher->fetch(url_of(*server, "/"), [&](const FetchResult& result) {
            EXPECT_EQ(result.value_or("failed"), "ok");
            if (++ended == kFetches) {
                answered.set_value();
            }
        });
    }
    answered.get_future().get();
    std::promise<int> seen;
    server->post([&] { seen.set_value(most); });
    EXPECT_EQ(seen.get_future().get(), kAtATime);
}

TEST(Fetcher, EveryFetchEndsOnceEvenIfTheFetcherDoes) {
    std::vector<std::shared_ptr<HttpReply>> kept;
    const auto server =
        start_upstream([&kept](const HttpRequest&, std::shared_ptr<HttpReply> reply) { kept.push_back(std::move(reply)); });
    std::vector<int> calls(40);
    {
        const auto fetcher = Fetcher::create(private_options());
        for (int& count : calls) {
            fetcher->fetch(url_of(*server, "/"), [&count](const FetchResult& result) {
                EXPECT_FALSE(result.has_value());
                ++count;
            });
        }
    }
    EXPECT_EQ(calls, std::vector<int>(40, 1));
}

TEST(Fetcher, ConnectionsThatFailAreTheUpstreamsFault) {
    auto server = start_upstream([](const HttpRequest&, const std::shared_ptr<HttpReply>&) {});
    const std::string url = url_of(*server, "/");
    const FetchResult dropped = fetch(url);
    ASSERT_FALSE(dropped.has_value());
    EXPECT_FALSE(dropped.error().is_clients_fault);
    server.reset();
    const FetchResult refused = fetch(url);
    ASSERT_FALSE(refused.has_value());
    EXPECT_FALSE(refused.error().is_clients_fault);
    const FetchResult bad = fetch("ftp://127.0.0.1/");
    ASSERT_FALSE(bad.has_value());
    EXPECT_TRUE(bad.error().is_clients_fault);
}

}  // namespace
}  // namespace di
