#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "http/post_queue.h"
#include "http/request_framing.h"
#include "http/server.h"
#include "http/transport.h"

// What a server says on one connection, and when it ends. It knows no socket: tests and the fuzzer give it bytes.
namespace di {

class Connection;

// What the connections of one server share.
class ConnectionHost {
  public:
    ConnectionHost(HttpServerOptions server_options, HttpHandler server_handler, std::shared_ptr<PostQueue> work)
        : options(std::move(server_options)), handler(std::move(server_handler)), posted(std::move(work)) {}
    virtual ~ConnectionHost() = default;

    // Calls flush() once when the turn of the loop ends.
    virtual void flush_soon(std::shared_ptr<Connection> connection) = 0;
    // The connection is closed; the host lets go of it.
    virtual void forget(Connection& connection) = 0;
    [[nodiscard]] virtual int64_t now_us() = 0;

    const HttpServerOptions options;
    const HttpHandler handler;
    // Several owners: a reply may outlive its server, and then posts into nothing.
    const std::shared_ptr<PostQueue> posted;
    int64_t body_bytes = 0;  // of requests on their way in
};

struct ClientAddress {
    std::string text;
    bool is_loopback = false;
};

// Request after request: read, handed to the handler, answered. A client that closes its sending side while it waits for an
// answer counts as gone: that is what a client that went away looks like.
class Connection final : public std::enable_shared_from_this<Connection> {
  public:
    Connection(ConnectionHost& host, std::shared_ptr<Transport> transport, ClientAddress client, bool is_refused);

    // From the host.
    void start();
    void flush();
    [[nodiscard]] bool is_refused() const { return is_refused_; }

    // From the transport.
    void on_open();
    void on_bytes(std::string_view bytes);
    void on_read_end();
    void on_written(size_t count);
    void on_write_error();
    void on_deadline();

    // From the reply to the request under way; is_answering(serial) holds.
    [[nodiscard]] bool is_answering(uint64_t serial) const { return state_ == State::kAnswering && serial == serial_; }
    void send(HttpResponse response);
    void begin_stream(int status, const HttpHeaders& headers);
    void write(std::string_view piece);
    void end_stream();
    void break_off();
    void set_on_gone(std::function<void()> callback) { on_gone_ = std::move(callback); }

  private:
    enum class State : uint8_t {
        kOpening,    // TLS is agreed on
        kReading,    // between requests and within one
        kAnswering,  // the handler has the request
        kDraining,   // the answer is complete, its bytes are not all sent
        kLingering,  // everything is said; what the client still sends is thrown away
        kClosed,
    };

    void advance();
    void update_reading_deadline();
    void count_body(int64_t bytes);
    void dispatch();
    void answer_fault(const HttpFault& fault);
    void end_answer();
    void flush_soon();
    void write_pending();
    void on_drained();
    void next_request();
    void read_more();
    void write_some();
    void lose_client();
    void close(bool is_reset);
    [[nodiscard]] size_t unsent_bytes() const { return writing_.size() - written_ + pending_.size(); }

    ConnectionHost& host_;
    std::shared_ptr<Transport> transport_;  // shared with its own operations under way
    ClientAddress client_;
    State state_ = State::kOpening;
    bool is_refused_ = false;

    RequestFraming framing_;
    RequestFraming::State framing_seen_ = RequestFraming::State::kIdle;  // what the deadline is set for
    int64_t head_complete_us_ = 0;
    int64_t body_bytes_ = 0;  // our part of the host's
    std::string input_;       // read, from input_used_ on not fed
    size_t input_used_ = 0;
    bool is_reading_ = false;
    bool has_read_end_ = false;

    uint64_t serial_ = 0;  // of the request under way
    std::function<void()> on_gone_;
    bool keeps_alive_ = false;
    bool is_head_request_ = false;
    bool is_http10_ = false;
    bool is_chunked_ = false;
    bool has_hidden_end_ = false;  // broken off where only a reset tells it from a whole answer

    std::string pending_;  // to be written
    std::string writing_;  // with the transport, from written_ on
    size_t written_ = 0;
    bool is_writing_ = false;
    bool is_flush_due_ = false;
};

}  // namespace di
