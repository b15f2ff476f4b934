#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/server.h"

// For tests: a client that sends what it is told, byte by byte, and reads what comes. Every wait ends after a minute, which only
// a failing test sees.
namespace di {

inline constexpr int kTestWaitMs = 60'000;

struct RawAnswer {
    int status = 0;
    std::map<std::string, std::string> headers{};  // names in lower case
    std::string body{};                            // chunks put together
    bool is_complete = false;                      // with its end: all bytes, or the last chunk
};

class RawClient {
  public:
    explicit RawClient(uint16_t port) : handle_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        is_connected_ = ::connect(handle_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    }
    ~RawClient() { close(); }
    RawClient(RawClient&& other) noexcept
        : handle_(std::exchange(other.handle_, -1)), is_connected_(other.is_connected_), input_(std::move(other.input_)) {}
    RawClient& operator=(RawClient&&) = delete;

    [[nodiscard]] bool is_connected() const { return is_connected_; }
    [[nodiscard]] int handle() const { return handle_; }
    void close() {
        if (handle_ >= 0) {
            ::close(std::exchange(handle_, -1));
        }
    }
    void close_sending() const { ::shutdown(handle_, SHUT_WR); }

    // False once the server has closed.
    bool send(std::string_view bytes) const {
        while (!bytes.empty()) {
            const ssize_t count = ::send(handle_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (count <= 0) {
                return false;
            }
            bytes.remove_prefix(static_cast<size_t>(count));
        }
        return true;
    }

    // Reads something into input(); false at the end of the connection.
    bool receive() {
        pollfd waits{.fd = handle_, .events = POLLIN, .revents = 0};
        if (::poll(&waits, 1, kTestWaitMs) != 1) {
            return false;
        }
        char bytes[65536];
        const ssize_t count = ::recv(handle_, bytes, sizeof(bytes), 0);
        if (count <= 0) {
            was_reset_ = count < 0;
            return false;
        }
        input_.append(bytes, static_cast<size_t>(count));
        return true;
    }
    [[nodiscard]] std::string& input() { return input_; }
    [[nodiscard]] bool was_reset() const { return was_reset_; }

    // Whether the text comes, as the next thing or later.
    bool receive_until(std::string_view text) {
        while (input_.find(text) == std::string::npos) {
            if (!receive()) {
                return false;
            }
        }
        return true;
    }
    // Everything up to the end of the connection.
    std::string receive_rest() {
        while (receive()) {
        }
        return std::exchange(input_, {});
    }

    // One answer; status 0 if the connection ends before its head is complete.
    RawAnswer answer(bool has_body = true) {
        RawAnswer answer;
        if (!receive_until("\r\n\r\n")) {
            return answer;
        }
        take_head(answer);
        if (!has_body) {
            answer.is_complete = true;
        } else if (answer.headers.count("transfer-encoding") != 0) {
            take_chunks(answer);
        } else if (answer.headers.count("content-length") != 0) {
            take_bytes(std::stoull(answer.headers["content-length"]), answer);
        } else {
            answer.body = receive_rest();
            answer.is_complete = !was_reset_;
        }
        return answer;
    }

  private:
    void take_head(RawAnswer& answer) {
        const size_t end = input_.find("\r\n\r\n");
        const std::string head = input_.substr(0, end + 2);
        input_.erase(0, end + 4);
        answer.status = std::stoi(head.substr(head.find(' ') + 1));
        size_t begin = head.find("\r\n") + 2;
        while (begin < head.size()) {
            const size_t line_end = head.find("\r\n", begin);
            const size_t colon = head.find(':', begin);
            answer.headers[head.substr(begin, colon - begin)] = head.substr(colon + 2, line_end - colon - 2);
            begin = line_end + 2;
        }
    }
    void take_bytes(size_t count, RawAnswer& answer) {
        while (input_.size() < count) {
            if (!receive()) {
                answer.body = std::exchange(input_, {});
                return;
            }
        }
        answer.body = input_.substr(0, count);
        input_.erase(0, count);
        answer.is_complete = true;
    }
    void take_chunks(RawAnswer& answer) {
        while (true) {
            if (!receive_until("\r\n")) {
                return;
            }
            const size_t line_end = input_.find("\r\n");
            const size_t size = std::stoull(input_.substr(0, line_end), nullptr, 16);
            while (input_.size() < line_end + 2 + size + 2) {
                if (!receive()) {
                    return;
                }
            }
            answer.body += input_.substr(line_end + 2, size);
            input_.erase(0, line_end + 2 + size + 2);
            if (size == 0) {
                answer.is_complete = true;
                return;
            }
        }
    }

    int handle_;
    bool is_connected_ = false;
    bool was_reset_ = false;
    std::string input_;
};

inline std::string get_request(std::string_view target) {
    return "GET " + std::string(target) + " HTTP/1.1\r\nHost: test\r\n\r\n";
}

inline std::string post_request(std::string_view target, std::string_view body, std::string_view headers = {}) {
    return "POST " + std::string(target) + " HTTP/1.1\r\nHost: test\r\n" + std::string(headers) +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace di
