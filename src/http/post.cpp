#include "http/post.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace di {
namespace {

using SteadyClock = std::chrono::steady_clock;

class Socket {
  public:
    explicit Socket(int descriptor) : descriptor_(descriptor) {}
    ~Socket() {
        if (descriptor_ >= 0) {
            close(descriptor_);
        }
    }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    [[nodiscard]] int get() const { return descriptor_; }

  private:
    int descriptor_;
};

// Waits until the socket can do what is asked; false: the time is over.
bool wait_for(int descriptor, short events, SteadyClock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
    pollfd entry{.fd = descriptor, .events = events, .revents = 0};
    return left > 0 && poll(&entry, 1, static_cast<int>(left)) == 1;
}

// The status of "HTTP/1.1 200 OK"; 0: not yet there.
int status_of(std::string_view head) {
    if (head.size() < 13 || !head.starts_with("HTTP/1.")) {
        return 0;
    }
    return (head[9] - '0') * 100 + (head[10] - '0') * 10 + (head[11] - '0');
}

}  // namespace

Status post_json(const PostTarget& target, std::string_view body) {
    const auto fault = [&target](std::string_view what) {
        return fail(ErrorCode::kUnavailable, "http://{}:{}{}: {}", target.host, target.port, target.path, what);
    };
    const auto deadline = SteadyClock::now() + std::chrono::milliseconds(static_cast<int64_t>(target.timeout_s * 1000.0));
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int code = getaddrinfo(target.host.c_str(), std::to_string(target.port).c_str(), &hints, &found); code != 0) {
        return fault(gai_strerror(code));
    }
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> address(found, freeaddrinfo);
    const Socket connection(socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (connection.get() < 0) {
        return fault(std::strerror(errno));
    }
    if (connect(connection.get(), address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
        return fault(std::strerror(errno));
    }
    std::string request = fmt::format(
        "POST {} HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        target.path, target.host, target.port, body.size());
    request += body;
    for (size_t sent = 0; sent < request.size();) {
        if (!wait_for(connection.get(), POLLOUT, deadline)) {
            return fault("no answer in time");
        }
        const ssize_t count = send(connection.get(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN) {
            return fault(std::strerror(errno));
        }
        sent += count > 0 ? static_cast<size_t>(count) : 0;
    }
    std::string head;
    while (status_of(head) == 0) {
        char piece[512];
        if (!wait_for(connection.get(), POLLIN, deadline)) {
            return fault("no answer in time");
        }
        const ssize_t count = recv(connection.get(), piece, sizeof piece, 0);
        if (count == 0 || (count < 0 && errno != EAGAIN)) {
            return fault(count == 0 ? "closed without an answer" : std::strerror(errno));
        }
        head.append(piece, count > 0 ? static_cast<size_t>(count) : 0);
    }
    const int status = status_of(head);
    if (status < 200 || status > 299) {
        return fault(fmt::format("status {}", status));
    }
    return {};
}

}  // namespace di
