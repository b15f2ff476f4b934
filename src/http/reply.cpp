#include "http/reply.h"

#include <utility>

#include "base/check.h"
#include "http/connection.h"

namespace di {

namespace {

class Reply final : public HttpReply {
  public:
    Reply(std::weak_ptr<Connection> connection, uint64_t serial, std::shared_ptr<PostQueue> posted)
        : connection_(std::move(connection)), serial_(serial), posted_(std::move(posted)) {}

    // The last owner may be on any thread.
    ~Reply() override {
        if (phase_ != Phase::kEnded) {
            posted_->push([connection = connection_, serial = serial_] {
                if (const auto open = connection.lock(); open && open->is_answering(serial)) {
                    open->break_off();
                }
            });
        }
    }
    Reply(const Reply&) = delete;
    Reply& operator=(const Reply&) = delete;

    void send(HttpResponse response) override {
        DI_CHECK(phase_ == Phase::kWaiting, "a request was answered twice");
        phase_ = Phase::kEnded;
        if (const auto connection = open_connection()) {
            connection->send(std::move(response));
        }
    }

    void begin_stream(int status, HttpHeaders headers) override {
        DI_CHECK(phase_ == Phase::kWaiting, "a request was answered twice");
        phase_ = Phase::kStreaming;
        if (const auto connection = open_connection()) {
            connection->begin_stream(status, headers);
        }
    }

    void write(std::string_view piece) override {
        DI_CHECK(phase_ == Phase::kStreaming, "a piece outside of a stream");
        if (const auto connection = open_connection(); connection && !piece.empty()) {
            connection->write(piece);
        }
    }

    void end_stream() override {
        DI_CHECK(phase_ == Phase::kStreaming, "the end of a stream that does not run");
        phase_ = Phase::kEnded;
        if (const auto connection = open_connection()) {
            connection->end_stream();
        }
    }

    void break_off() override {
        if (std::exchange(phase_, Phase::kEnded) == Phase::kEnded) {
            return;
        }
        if (const auto connection = open_connection()) {
            connection->break_off();
        }
    }

    void on_gone(std::function<void()> callback) override {
        if (phase_ == Phase::kEnded) {
            return;
        }
        if (const auto connection = open_connection()) {
            connection->set_on_gone(std::move(callback));
            return;
        }
        posted_->push(std::move(callback));
    }

    [[nodiscard]] bool is_gone() const override { return phase_ != Phase::kEnded && open_connection() == nullptr; }

  private:
    enum class Phase : uint8_t { kWaiting, kStreaming, kEnded };

    [[nodiscard]] std::shared_ptr<Connection> open_connection() const {
        auto connection = connection_.lock();
        return connection && connection->is_answering(serial_) ? connection : nullptr;
    }

    std::weak_ptr<Connection> connection_;
    uint64_t serial_;
    std::shared_ptr<PostQueue> posted_;
    Phase phase_ = Phase::kWaiting;
};

}  // namespace

std::shared_ptr<HttpReply> make_reply(std::weak_ptr<Connection> connection, uint64_t serial,
                                      std::shared_ptr<PostQueue> posted) {
    return std::make_shared<Reply>(std::move(connection), serial, std::move(posted));
}

}  // namespace di
