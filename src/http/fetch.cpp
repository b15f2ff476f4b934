#include "http/fetch.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <netdb.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/check.h"
#include "http/limits.h"
#include "http/post_queue.h"
#include "http/tls.h"
#include "http/url.h"

namespace di {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using AsioError = boost::system::error_code;
template <typename T>
using Task = asio::awaitable<T>;

namespace {

constexpr auto kWithError = asio::as_tuple(asio::use_awaitable);

std::chrono::nanoseconds duration_of(double seconds) { return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)); }

struct Lookup {
    std::string error{};  // of the system's resolver
    std::vector<tcp::endpoint> endpoints{};
};

// One fetch from its call to its call-back. The loop's thread alone.
struct Job {
    Job(asio::io_context& context, std::string url_text, std::function<void(FetchResult)> callback)
        : url(std::move(url_text)), done(std::move(callback)), socket(context), deadline(context), lookup_ready(context) {}

    std::string url;
    std::function<void(FetchResult)> done;  // empty once called
    tcp::socket socket;
    asio::steady_timer deadline;
    asio::steady_timer lookup_ready;  // cancelled when `lookup` is there, or nobody wants it any more
    Lookup lookup{};
};

struct Exchange {
    std::string body{};
    std::string location{};  // of a redirect
};
using ExchangeResult = tl::expected<Exchange, FetchFailure>;

tl::unexpected<FetchFailure> clients_fault(std::string text) {
    return tl::unexpected<FetchFailure>({.is_clients_fault = true, .text = std::move(text)});
}
tl::unexpected<FetchFailure> upstream_fault(std::string text) {
    return tl::unexpected<FetchFailure>({.is_clients_fault = false, .text = std::move(text)});
}

// The system's resolver: it may take long, and nothing stops it. Numbers in any spelling ("0x7f.1") become addresses here.
Lookup look_up(const std::string& host, uint16_t port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    Lookup lookup;
    const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (status != 0) {
        lookup.error = gai_strerror(status);
        return lookup;
    }
    for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
        tcp::endpoint endpoint;
        if ((entry->ai_family == AF_INET || entry->ai_family == AF_INET6) && entry->ai_addrlen <= endpoint.capacity()) {
            std::copy_n(reinterpret_cast<const char*>(entry->ai_addr), entry->ai_addrlen,
                        reinterpret_cast<char*>(endpoint.data()));
            lookup.endpoints.push_back(endpoint);
        }
    }
    freeaddrinfo(found);
    return lookup;
}

class AsioFetcher final : public Fetcher {
  public:
    AsioFetcher(const FetchOptions& options, Result<TlsContext> tls)
        : options_(options),
          tls_(std::move(tls)),
          posted_(std::make_shared<PostQueue>([this] { asio::post(context_, [queue = posted_] { queue->run(); }); })),
          thread_([this] { context_.run(); }) {}

    ~AsioFetcher() override {
        posted_->push([this] {
            while (!jobs_.empty()) {
                finish(*jobs_.begin(), upstream_fault("the server is shutting down"));
            }
            context_.stop();
        });
        thread_.join();
        posted_->close();
    }

    void fetch(std::string url, std::function<void(FetchResult)> done) override {
        posted_->push(
            [this, url = std::move(url), done = std::move(done)]() mutable { admit(std::move(url), std::move(done)); });
    }

  private:
    void admit(std::string url, std::function<void(FetchResult)> done);
    void start_waiting();
    void finish(std::shared_ptr<Job> job, FetchResult result);

    Task<void> run(std::shared_ptr<Job> job);
    Task<FetchResult> fetch_url(std::shared_ptr<Job> job);
    Task<ExchangeResult> exchange(std::shared_ptr<Job> job, Url url);
    Task<tl::expected<std::vector<tcp::endpoint>, FetchFailure>> find_host(std::shared_ptr<Job> job, const Url& url);
    Task<tl::expected<void, FetchFailure>> connect(Job& job, const Url& url, const std::vector<tcp::endpoint>& endpoints);
    template <typename Stream>
    Task<ExchangeResult> ask(Stream& stream, const Url& url);

    FetchOptions options_;
    Result<TlsContext> tls_;
    asio::io_context context_{1};
    asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
    // Several owners: a look-up that nobody waits for any more ends into nothing.
    std::shared_ptr<PostQueue> posted_;
    std::unordered_set<std::shared_ptr<Job>> jobs_;  // not called back yet
    std::deque<std::shared_ptr<Job>> waiting_;       // of them, not started; some may have timed out
    int running_count_ = 0;
    std::unordered_map<uint64_t, std::shared_ptr<Job>> lookups_;  // under way
    uint64_t lookup_serial_ = 0;
    std::thread thread_;
};

void AsioFetcher::admit(std::string url, std::function<void(FetchResult)> done) {
    if (waiting_.size() >= kFetchesWaitingMax) {
        done(upstream_fault(fmt::format("{} fetches wait already", waiting_.size())));
        return;
    }
    auto job = std::make_shared<Job>(context_, std::move(url), std::move(done));
    jobs_.insert(job);
    job->deadline.expires_after(duration_of(options_.timeout_s));
    job->deadline.async_wait([this, job](const AsioError& error) {
        if (!error) {
            finish(job, upstream_fault(fmt::format("fetching took longer than {} s", options_.timeout_s)));
        }
    });
    waiting_.push_back(std::move(job));
    start_waiting();
}

void AsioFetcher::start_waiting() {
    while (!waiting_.empty() && running_count_ < options_.concurrent_max) {
        const auto job = std::move(waiting_.front());
        waiting_.pop_front();
        if (job->done) {
            ++running_count_;
            asio::co_spawn(context_, run(job), asio::detached);
        }
    }
}

void AsioFetcher::finish(std::shared_ptr<Job> job, FetchResult result) {
    if (!job->done) {
        return;
    }
    jobs_.erase(job);
    AsioError ignored;  // what is under way ends with an error, which nobody looks at
    job->deadline.cancel(ignored);
    job->lookup_ready.cancel(ignored);
    job->socket.close(ignored);
    std::exchange(job->done, nullptr)(std::move(result));
}

Task<void> AsioFetcher::run(std::shared_ptr<Job> job) {
    FetchResult result = co_await fetch_url(job);
    finish(job, std::move(result));
    --running_count_;
    start_waiting();
}

Task<FetchResult> AsioFetcher::fetch_url(std::shared_ptr<Job> job) {
    auto url = parse_url(job->url);
    for (int redirects = 0; url; ++redirects) {
        auto result = co_await exchange(job, *url);
        if (!result) {
            co_return tl::unexpected<FetchFailure>(std::move(result.error()));
        }
        if (result->location.empty()) {
            co_return std::move(result->body);
        }
        if (redirects == options_.redirects_max) {
            co_return clients_fault(fmt::format("more than {} redirects", options_.redirects_max));
        }
        url = follow_location(*url, result->location);
    }
    co_return clients_fault(url.error().text);
}

// One request on one connection.
Task<ExchangeResult> AsioFetcher::exchange(std::shared_ptr<Job> job, Url url) {
    auto endpoints = co_await find_host(job, url);
    if (!endpoints) {
        co_return tl::unexpected<FetchFailure>(std::move(endpoints.error()));
    }
    auto connected = co_await connect(*job, url, *endpoints);
    if (!connected) {
        co_return tl::unexpected<FetchFailure>(std::move(connected.error()));
    }
    if (!url.is_https) {
        co_return co_await ask(job->socket, url);
    }
    if (!tls_) {
        co_return upstream_fault(tls_.error().text);
    }
    asio::ssl::stream<tcp::socket&> stream(job->socket, **tls_);
    stream.set_verify_callback(asio::ssl::host_name_verification(url.host));
    AsioError address_error;
    asio::ip::make_address(url.host, address_error);
    if (address_error) {
        SSL_set_tlsext_host_name(stream.native_handle(), url.host.c_str());  // names alone: RFC 6066, 3
    }
    auto [error] = co_await stream.async_handshake(asio::ssl::stream_base::client, kWithError);
    if (error) {
        std::string text = fmt::format("no TLS with {}: {}", url.authority(), error.message());
        co_return error.category() == asio::error::get_ssl_category() ? clients_fault(std::move(text))
                                                                      : upstream_fault(std::move(text));
    }
    co_return co_await ask(stream, url);
}

// The addresses of a host that may be connected to. Messages do not name them: clients shall not learn what names of an inner
// network stand for.
Task<tl::expected<std::vector<tcp::endpoint>, FetchFailure>> AsioFetcher::find_host(std::shared_ptr<Job> job, const Url& url) {
    if (lookups_.size() >= kLookupsMax) {
        co_return upstream_fault("too many look-ups of names are under way");
    }
    const uint64_t serial = ++lookup_serial_;
    lookups_.emplace(serial, job);
    job->lookup = {};
    job->lookup_ready.expires_at(asio::steady_timer::time_point::max());
    try {
        std::thread([this, serial, host = url.host, port = url.port, queue = posted_] {
            // Only where the queue is open is there a fetcher to tell.
            queue->push([this, serial, lookup = look_up(host, port)]() mutable {
                const auto entry = lookups_.extract(serial);
                entry.mapped()->lookup = std::move(lookup);
                entry.mapped()->lookup_ready.cancel();
            });
        }).detach();
    } catch (const std::system_error&) {
        lookups_.erase(serial);
        co_return upstream_fault("no thread can be started to look up a name");
    }
    co_await job->lookup_ready.async_wait(kWithError);
    if (!job->lookup.error.empty()) {
        co_return upstream_fault(fmt::format("the host \"{}\" cannot be found: {}", url.host, job->lookup.error));
    }
    std::vector<tcp::endpoint> endpoints = std::move(job->lookup.endpoints);
    if (!options_.allows_private_hosts) {
        std::erase_if(endpoints,
                      [](const tcp::endpoint& endpoint) { return !is_public_address(endpoint.address().to_string()); });
    }
    if (endpoints.empty()) {
        co_return clients_fault(fmt::format("the host \"{}\" is not a public one", url.host));
    }
    endpoints.resize(std::min(endpoints.size(), kAddressesTriedMax));
    co_return endpoints;
}

Task<tl::expected<void, FetchFailure>> AsioFetcher::connect(Job& job, const Url& url,
                                                            const std::vector<tcp::endpoint>& endpoints) {
    // NOLINTNEXTLINE: operators of Asio's are meant to be used so
    using namespace asio::experimental::awaitable_operators;
    std::string problem;
    for (const tcp::endpoint& endpoint : endpoints) {
        AsioError ignored;
        job.socket.close(ignored);
        if (!job.done) {
            break;  // timed out: no further socket
        }
        asio::steady_timer limit(context_, duration_of(kConnectSeconds));
        auto result = co_await (job.socket.async_connect(endpoint, kWithError) || limit.async_wait(kWithError));
        if (result.index() == 1) {
            problem = "it does not answer";
            continue;
        }
        const AsioError error = std::get<0>(std::get<0>(result));
        if (!error) {
            co_return tl::expected<void, FetchFailure>{};
        }
        problem = error.message();
    }
    co_return upstream_fault(fmt::format("no connection to {}: {}", url.authority(), problem));
}

template <typename Stream>
Task<ExchangeResult> AsioFetcher::ask(Stream& stream, const Url& url) {
    const std::string request = fmt::format(
        "GET {} HTTP/1.1\r\nhost: {}\r\nuser-agent: deepinfer\r\naccept: image/*, */*;q=0.5\r\naccept-encoding: identity\r\n"
        "connection: close\r\n\r\n",
        url.target, url.authority());
    auto [write_error, written] = co_await asio::async_write(stream, asio::buffer(request), kWithError);
    if (write_error) {
        co_return upstream_fault(fmt::format("{} does not take the request: {}", url.authority(), write_error.message()));
    }
    const auto failed = [&](const AsioError& error) -> ExchangeResult {
        if (error == http::error::body_limit) {
            return clients_fault(fmt::format("what {} sends is larger than {} bytes", url.authority(), options_.bytes_max));
        }
        return upstream_fault(fmt::format("{} gives no whole answer: {}", url.authority(), error.message()));
    };
    boost::beast::flat_buffer buffer;
    for (int interim = 0; interim <= kInterimAnswersMax; ++interim) {
        http::response_parser<http::string_body> parser;
        parser.header_limit(kFetchHeaderBytesMax);
        parser.body_limit(static_cast<std::uint64_t>(options_.bytes_max));
        auto [head_error, head_bytes] = co_await http::async_read_header(stream, buffer, parser, kWithError);
        if (head_error) {
            co_return failed(head_error);
        }
        const int status = static_cast<int>(parser.get().result_int());
        if (status < 200) {
            continue;
        }
        const std::string location(parser.get()[http::field::location]);
        if ((status >= 301 && status <= 303) || status == 307 || status == 308) {
            if (location.empty()) {
                co_return clients_fault(fmt::format("{} redirects to nowhere", url.authority()));
            }
            co_return Exchange{.location = location};
        }
        if (status != 200) {
            std::string text = fmt::format("{} answers with status {}, expected 200", url.authority(), status);
            co_return status >= 500 ? upstream_fault(std::move(text)) : clients_fault(std::move(text));
        }
        const std::string encoding(parser.get()[http::field::content_encoding]);
        if (!encoding.empty() && encoding != "identity") {
            co_return clients_fault(
                fmt::format("{} answers with content-encoding \"{}\", expected none", url.authority(), encoding));
        }
        auto [body_error, body_bytes] = co_await http::async_read(stream, buffer, parser, kWithError);
        if (body_error) {
            co_return failed(body_error);
        }
        co_return Exchange{.body = std::move(parser.get().body())};
    }
    co_return upstream_fault(fmt::format("{} gives no answer but interim ones", url.authority()));
}

}  // namespace

std::unique_ptr<Fetcher> Fetcher::create(const FetchOptions& options) {
    DI_CHECK(options.concurrent_max > 0 && options.bytes_max > 0 && options.timeout_s > 0,
             "limits of fetching that allow nothing");
    return std::make_unique<AsioFetcher>(options, open_client_tls());
}

}  // namespace di
