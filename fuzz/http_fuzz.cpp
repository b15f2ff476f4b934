// Bytes of a client, in pieces: whatever they are, a connection answers each request once, in order, and does not end the process.
// The first byte says how the rest is cut.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "http/connection.h"

namespace {

class FuzzTransport final : public di::Transport {
  public:
    void read() override {
        DI_CHECK(!is_reading, "two reads at a time");
        is_reading = true;
    }
    void write(std::string_view bytes) override {
        DI_CHECK(written == 0 && !bytes.empty(), "two writes at a time, or an empty one");
        written = bytes.size();
    }
    void finish_sending() override {}
    void set_deadline(double /*seconds*/) override {}
    void clear_deadline() override {}
    void close(bool /*is_reset*/) override { is_closed = true; }

    bool is_reading = false;
    bool is_closed = false;
    size_t written = 0;
};

class FuzzHost final : public di::ConnectionHost {
  public:
    explicit FuzzHost(di::HttpHandler requests)
        : ConnectionHost({.body_bytes_max = 1000, .header_bytes_max = 1000, .unsent_bytes_max = 1000}, std::move(requests),
                         std::make_shared<di::PostQueue>([] {})) {}
    void flush_soon(std::shared_ptr<di::Connection> connection) override { dirty.push_back(std::move(connection)); }
    void forget(di::Connection& /*connection*/) override {}
    int64_t now_us() override { return 0; }

    std::vector<std::shared_ptr<di::Connection>> dirty;
};

void answer(const di::HttpRequest& request, const std::shared_ptr<di::HttpReply>& reply) {
    DI_CHECK(request.body.size() <= 1000, "a body beyond the limit");
    switch (request.target.size() % 4) {
        case 0: reply->send({.body = request.body}); return;
        case 1:
            reply->begin_stream(200, request.headers);
            reply->write(request.body);
            reply->end_stream();
            return;
        case 2:
            reply->begin_stream(200, {});
            reply->write(request.path);
            reply->break_off();
            return;
        default: return;  // let go of
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) {
        return 0;
    }
    FuzzHost host(
        {.request = answer, .fault = [](const di::HttpFault& fault) { return di::HttpResponse{.body = fault.text}; }});
    const auto transport = std::make_shared<FuzzTransport>();
    const auto connection = std::make_shared<di::Connection>(host, transport, di::ClientAddress{"127.0.0.1", true}, false);
    connection->start();
    connection->on_open();
    std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    const size_t step = data[0] == 0 ? size : data[0];
    while (!bytes.empty() && transport->is_reading && !transport->is_closed) {
        const std::string_view piece = bytes.substr(0, step);
        bytes.remove_prefix(piece.size());
        transport->is_reading = false;
        connection->on_bytes(std::string(piece));
        // What the loop does in between: turns, until nothing moves.
        while (!transport->is_closed && (!host.dirty.empty() || transport->written > 0)) {
            for (const auto& dirty : std::exchange(host.dirty, {})) {
                dirty->flush();
            }
            host.posted->run();
            if (const size_t count = std::exchange(transport->written, 0); count > 0 && !transport->is_closed) {
                connection->on_written((count + 1) / 2);
            }
        }
        host.posted->run();
    }
    if (transport->is_reading && !transport->is_closed) {
        transport->is_reading = false;
        connection->on_read_end();
    }
    DI_CHECK(host.body_bytes >= 0, "bodies were counted wrong");
    return 0;
}
