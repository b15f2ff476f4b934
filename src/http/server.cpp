#include "http/server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <unordered_map>

#include <sys/resource.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/check.h"
#include "base/log.h"
#include "http/connection.h"
#include "http/limits.h"
#include "http/tls.h"
#include "http/transport.h"

namespace di {

namespace asio = boost::asio;
using asio::ip::tcp;
using AsioError = boost::system::error_code;
using SteadyTime = std::chrono::steady_clock::time_point;

namespace {

std::chrono::nanoseconds duration_of(double seconds) { return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)); }

// A socket of Asio's. Its operations under way hold it; they say nothing any more once it is closed.
class SocketTransport final : public Transport, public std::enable_shared_from_this<SocketTransport> {
  public:
    SocketTransport(tcp::socket socket, const TlsContext& tls) : socket_(std::move(socket)), timer_(socket_.get_executor()) {
        if (tls) {
            tls_context_ = tls;
            tls_.emplace(socket_, *tls);
        }
    }

    // Agrees on TLS where it is wanted, then on_open().
    void open(const std::shared_ptr<Connection>& connection) {
        connection_ = connection;
        if (!tls_) {
            connection->on_open();
            return;
        }
        tls_->async_handshake(asio::ssl::stream_base::server, [self = shared_from_this()](const AsioError& error) {
            if (const auto user = self->user()) {
                error ? user->on_read_end() : user->on_open();
            }
        });
    }

    void read() override {
        auto done = [self = shared_from_this()](const AsioError& error, size_t count) {
            if (const auto user = self->user()) {
                error ? user->on_read_end() : user->on_bytes({self->input_.data(), count});
            }
        };
        tls_ ? tls_->async_read_some(asio::buffer(input_), std::move(done))
             : socket_.async_read_some(asio::buffer(input_), std::move(done));
    }

    void write(std::string_view bytes) override {
        auto done = [self = shared_from_this()](const AsioError& error, size_t count) {
            if (const auto user = self->user()) {
                error ? user->on_write_error() : user->on_written(count);
            }
        };
        const asio::const_buffer buffer(bytes.data(), bytes.size());
        tls_ ? tls_->async_write_some(buffer, std::move(done)) : socket_.async_write_some(buffer, std::move(done));
    }

    void finish_sending() override {
        if (!tls_) {
            shut_down();
            return;
        }
        // Says goodbye in TLS first. It waits for the client's, too; the connection's deadline ends that.
        tls_->async_shutdown([self = shared_from_this()](const AsioError&) { self->shut_down(); });
    }

    void set_deadline(double seconds) override {
        deadline_ = std::chrono::steady_clock::now() + duration_of(seconds);
        // A timer that ends earlier looks at the deadline then. Most deadlines move on before: no timer is set for them.
        if (!is_waiting_ || timer_.expiry() > deadline_) {
            wait_for_deadline();
        }
    }

    void clear_deadline() override { deadline_ = SteadyTime::max(); }

    void close(bool is_reset) override {
        is_closed_ = true;
        AsioError ignored;  // a socket that is closed cannot fail in a way that matters
        if (is_reset) {
            socket_.set_option(tcp::socket::linger(true, 0), ignored);
        }
        socket_.close(ignored);
        timer_.cancel(ignored);
    }

  private:
    [[nodiscard]] std::shared_ptr<Connection> user() const { return is_closed_ ? nullptr : connection_.lock(); }

    void shut_down() {
        AsioError ignored;  // the client may be gone: the read says so
        socket_.shutdown(tcp::socket::shutdown_send, ignored);
    }

    void wait_for_deadline() {
        is_waiting_ = true;
        timer_.expires_at(deadline_);
        timer_.async_wait([self = shared_from_this()](const AsioError& error) {
            if (error) {
                return;  // set anew, or closed
            }
            self->is_waiting_ = false;
            const auto user = self->user();
            if (!user || self->deadline_ == SteadyTime::max()) {
                return;
            }
            if (std::chrono::steady_clock::now() < self->deadline_) {
                self->wait_for_deadline();
                return;
            }
            self->deadline_ = SteadyTime::max();
            user->on_deadline();
        });
    }

    tcp::socket socket_;
    TlsContext tls_context_;
    std::optional<asio::ssl::stream<tcp::socket&>> tls_;
    asio::steady_timer timer_;
    SteadyTime deadline_ = SteadyTime::max();
    bool is_waiting_ = false;
    bool is_closed_ = false;
    std::weak_ptr<Connection> connection_;
    std::array<char, kReadBytes> input_;
};

class AsioServer final : public HttpServer, public ConnectionHost {
  public:
    AsioServer(const HttpServerOptions& server_options, HttpHandler server_handler, TlsContext tls)
        : ConnectionHost(server_options, std::move(server_handler), std::make_shared<PostQueue>([this] { wake(); })),
          tls_(std::move(tls)) {}

    ~AsioServer() override {
        DI_CHECK(std::this_thread::get_id() != thread_.get_id(), "a server cannot be ended by its own thread");
        context_.stop();
        if (thread_.joinable()) {
            thread_.join();
        }
        posted->close();
        // From here on this thread owns everything. Closing takes the connection out of the table.
        dirty_.clear();
        connections_.clear();
    }

    [[nodiscard]] Status listen();
    void run() {
        asio::co_spawn(context_, accept_clients(), asio::detached);
        thread_ = std::thread([this] { context_.run(); });
    }

    [[nodiscard]] uint16_t port() const override { return port_; }
    void post(std::function<void()> work) override { posted->push(std::move(work)); }

    void post_after(double seconds, std::function<void()> work) override {
        auto timer = std::make_shared<asio::steady_timer>(context_, duration_of(seconds));
        timer->async_wait([timer, work = std::move(work)](const AsioError& error) {
            if (!error) {
                work();
            }
        });
    }

    [[nodiscard]] HttpServerCounts counts() const override {
        return {.connections = open_.load(std::memory_order_relaxed),
                .accepted = accepted_.load(std::memory_order_relaxed),
                .refused = refused_.load(std::memory_order_relaxed)};
    }

    void flush_soon(std::shared_ptr<Connection> connection) override {
        if (dirty_.empty()) {
            asio::post(context_, [this] { flush_dirty(); });
        }
        dirty_.push_back(std::move(connection));
    }

    void forget(Connection& connection) override {
        connection.is_refused() ? --refused_open_ : open_.fetch_sub(1, std::memory_order_relaxed);
        connections_.erase(&connection);
    }

    [[nodiscard]] int64_t now_us() override {
        const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
        return std::chrono::duration_cast<std::chrono::microseconds>(since_start).count();
    }

  private:
    // Under the queue's lock, by any thread.
    void wake() {
        asio::post(context_, [queue = posted] { queue->run(); });
    }

    void flush_dirty() {
        flushing_.swap(dirty_);
        for (const auto& connection : flushing_) {
            connection->flush();
        }
        flushing_.clear();
    }

    asio::awaitable<void> accept_clients();
    void admit(tcp::socket socket);

    TlsContext tls_;
    asio::io_context context_{1};
    tcp::acceptor acceptor_{context_};
    uint16_t port_ = 0;
    std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
    std::vector<std::shared_ptr<Connection>> dirty_;     // have something to write
    std::vector<std::shared_ptr<Connection>> flushing_;  // the same, of the turn that ends
    int64_t refused_open_ = 0;
    // Numbers that anybody may look at; relaxed: they publish nothing.
    std::atomic<int64_t> open_{0};
    std::atomic<int64_t> accepted_{0};
    std::atomic<int64_t> refused_{0};
    std::thread thread_;
};

Status AsioServer::listen() {
    const auto refused = [this](const AsioError& error) {
        return fail(ErrorCode::kInvalidArgument, "cannot listen on {}:{}: {}", options.host, options.port, error.message());
    };
    AsioError error;
    tcp::resolver resolver(context_);
    const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
    if (error || found.empty()) {
        return fail(ErrorCode::kInvalidArgument, "cannot listen on \"{}\": {}, expected an address of this machine",
                    options.host, error.message());
    }
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) {
        acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    }
    if (!error) {
        acceptor_.bind(endpoint, error);
    }
    if (!error) {
        acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    }
    if (error) {
        return refused(error);
    }
    port_ = acceptor_.local_endpoint(error).port();
    if (error) {
        return refused(error);
    }
    return {};
}

asio::awaitable<void> AsioServer::accept_clients() {
    while (acceptor_.is_open()) {
        auto [error, socket] = co_await acceptor_.async_accept(asio::as_tuple(asio::use_awaitable));
        if (!error) {
            admit(std::move(socket));
            continue;
        }
        if (acceptor_.is_open() && error != asio::error::connection_aborted) {
            log_warning("a client cannot be accepted: {}", error.message());
            asio::steady_timer pause(context_, duration_of(kAcceptPauseSeconds));
            co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
        }
    }
}

void AsioServer::admit(tcp::socket socket) {
    AsioError error;
    const tcp::endpoint client = socket.remote_endpoint(error);
    if (error) {
        return;  // gone already
    }
    accepted_.fetch_add(1, std::memory_order_relaxed);
    const bool is_refused = open_.load(std::memory_order_relaxed) >= options.connections_max;
    if (is_refused) {
        refused_.fetch_add(1, std::memory_order_relaxed);
        if (refused_open_ >= kRefusedMax) {
            return;
        }
        ++refused_open_;
    } else {
        open_.fetch_add(1, std::memory_order_relaxed);
    }
    socket.set_option(tcp::no_delay(true), error);
    asio::ip::address address = client.address();
    if (address.is_v6() && address.to_v6().is_v4_mapped()) {
        address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
    }
    const auto transport = std::make_shared<SocketTransport>(std::move(socket), tls_);
    const auto connection = std::make_shared<Connection>(
        *this, transport, ClientAddress{.text = address.to_string(), .is_loopback = address.is_loopback()}, is_refused);
    connections_.emplace(connection.get(), connection);
    connection->start();
    transport->open(connection);
}

// The usual soft limit of 1024 handles is fewer than the connections that are allowed.
void raise_handle_limit(int64_t connections_max) {
    constexpr int64_t kOtherHandles = 1024;  // weights, logs, fetches, what else the process has open
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    const auto wanted = static_cast<rlim_t>(connections_max + kRefusedMax + kOtherHandles);
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= wanted) {
        return;
    }
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? wanted : std::min(wanted, limit.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted) {
        log_warning("this process may have {} files and connections open; {} connections need {}: raise \"ulimit -n\"",
                    limit.rlim_cur, connections_max, wanted);
    }
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options, HttpHandler handler) {
    DI_CHECK(handler.request && handler.fault, "a server needs both functions of its handler");
    TlsContext tls;
    if (!options.tls_certificate_file.empty() || !options.tls_key_file.empty()) {
        DI_TRY(tls, open_server_tls(options.tls_certificate_file, options.tls_key_file));
    }
    auto server = std::make_unique<AsioServer>(options, std::move(handler), std::move(tls));
    DI_TRY_STATUS(server->listen());
    raise_handle_limit(options.connections_max);
    server->run();
    return server;
}

}  // namespace di
