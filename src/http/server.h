#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

// An HTTP/1.1 server: connections, framing, limits, TLS. It knows nothing of what is served.
namespace di {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
    std::string method;   // "POST"
    std::string target;   // as sent: "/v1/models?x=1"
    std::string path;     // percent-decoded, without the query
    std::string query;    // behind the '?', as sent
    HttpHeaders headers;  // names in lower case
    std::string body;     // decoded (Content-Encoding gzip)
    std::string remote_address;
    bool is_loopback = false;
    int64_t received_us = 0;  // steady clock, when the head was complete

    // Value of the first header of that name (lower case), or "".
    [[nodiscard]] std::string_view header(std::string_view name) const;
};

struct HttpResponse {
    int status = 200;
    HttpHeaders headers{};  // content-length and connection are added
    std::string body{};
};

// The way back to one client. Held by whoever answers; letting go of it without an answer closes the connection. All calls on the
// server's thread (HttpServer::post).
class HttpReply {
  public:
    virtual ~HttpReply() = default;
    // A whole answer.
    virtual void send(HttpResponse response) = 0;
    // An answer in pieces (chunked): head, pieces, end. Pieces of one turn of the loop go out in one write.
    virtual void begin_stream(int status, HttpHeaders headers) = 0;
    virtual void write(std::string_view piece) = 0;
    virtual void end_stream() = 0;
    // Closes the connection without a proper end, so that no client takes a broken answer for a whole one.
    virtual void break_off() = 0;
    // Called once, in a later turn, if the client goes away before the answer is complete, or does not read what is written. Who
    // closes its sending side while it waits counts as gone: nothing tells it from one that closed.
    virtual void on_gone(std::function<void()> callback) = 0;
    [[nodiscard]] virtual bool is_gone() const = 0;
};

// An error that the server itself has to answer: its status (400, 408, 413, 415, 417, 431, 503) and a text; and the path, where known.
struct HttpFault {
    int status = 400;
    std::string text;
    std::string path{};
};

struct HttpHandler {
    std::function<void(HttpRequest request, std::shared_ptr<HttpReply> reply)> request;
    // The body of the answer to a fault; the server adds status and framing, and closes.
    std::function<HttpResponse(const HttpFault& fault)> fault;
};

struct HttpServerOptions {
    std::string host = "127.0.0.1";
    uint16_t port = 0;                           // 0: the kernel's choice
    int64_t body_bytes_max = int64_t{64} << 20;  // decoded
    int64_t header_bytes_max = int64_t{64} << 10;
    int64_t connections_max = 8192;
    double header_timeout_s = 10.0;  // for a complete head
    double body_timeout_s = 60.0;
    double idle_timeout_s = 75.0;                 // between requests
    int64_t unsent_bytes_max = int64_t{8} << 20;  // of a client that does not read: it is gone then
    std::string tls_certificate_file{};           // PEM; both or none
    std::string tls_key_file{};
};

struct HttpServerCounts {
    int64_t connections = 0;  // open
    int64_t accepted = 0;
    int64_t refused = 0;  // beyond connections_max
};

class HttpServer {
  public:
    // Listens when it returns. The handler's functions run on the server's own thread.
    [[nodiscard]] static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options, HttpHandler handler);
    virtual ~HttpServer() = default;  // closes what is open; nobody is called any more, on_gone neither

    [[nodiscard]] virtual uint16_t port() const = 0;
    // Runs `work` on the server's thread, in the order of the calls. Any thread.
    virtual void post(std::function<void()> work) = 0;
    // The same after some time. Server's thread or any other.
    virtual void post_after(double seconds, std::function<void()> work) = 0;
    [[nodiscard]] virtual HttpServerCounts counts() const = 0;
};

}  // namespace di
