#pragma once

#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

// Many clients of one server on one thread: each sends a chat request with a seed of its own and reads the stream of its answer.
namespace di {

struct CrowdOptions {
    uint16_t port = 0;
    int64_t streams = 0;          // requests in all, with the seeds 0 ..
    int64_t at_once = 0;          // of them open at a time
    int64_t tokens = 0;           // max_tokens
    bool streams_answers = true;  // false: whole bodies
    double timeout_s = 120.0;     // of the whole
};

struct CrowdCounts {
    int64_t finished = 0;
    int64_t pieces = 0;   // events with content
    std::string error{};  // the first thing that went wrong
};

class StreamCrowd {
  public:
    // A piece of the content of one stream, as it arrives.
    using OnText = std::function<void(uint64_t seed, std::string_view text)>;
    // The answer is complete.
    using OnEnd = std::function<void(uint64_t seed)>;

    StreamCrowd(CrowdOptions options, OnText on_text, OnEnd on_end)
        : options_(options), on_text_(std::move(on_text)), on_end_(std::move(on_end)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}
    ~StreamCrowd() {
        for (auto& [descriptor, client] : clients_) {
            ::close(descriptor);
        }
        for (const int descriptor : idle_) {
            ::close(descriptor);
        }
        ::close(epoll_);
    }
    StreamCrowd(const StreamCrowd&) = delete;
    StreamCrowd& operator=(const StreamCrowd&) = delete;

    CrowdCounts run() {
        const auto deadline =
            std::chrono::steady_clock::now() +
            std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(options_.timeout_s));
        while (counts_.error.empty() && counts_.finished < options_.streams) {
            while (counts_.error.empty() && next_seed_ < options_.streams && std::ssize(clients_) < options_.at_once) {
                open_client();
            }
            take_events();
            if (std::chrono::steady_clock::now() > deadline) {
                fail(fmt::format("{} of {} answers after {} s", counts_.finished, options_.streams, options_.timeout_s));
            }
        }
        return counts_;
    }

  private:
    struct Client {
        uint64_t seed = 0;
        std::string raw{};     // not yet understood
        std::string events{};  // taken out of its chunks, not yet understood
        bool has_head = false;
        bool has_done = false;  // data: [DONE]
        size_t chunk_left = 0;  // of the chunk at hand, with its line end
    };

    void fail(std::string text) {
        if (counts_.error.empty()) {
            counts_.error = std::move(text);
        }
    }

    std::string request(uint64_t seed) const {
        const std::string body = fmt::format(
            R"({{"model":"v41-mini","messages":[{{"role":"user","content":"Stream {}"}}],"thinking":{{"type":"disabled"}},)"
            R"("seed":{},"max_tokens":{},"stream":{}}})",
            seed, seed, options_.tokens, options_.streams_answers);
        return fmt::format(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            "Content-Length: {}\r\n\r\n{}",
            body.size(), body);
    }

    void open_client() {
        const auto seed = static_cast<uint64_t>(next_seed_++);
        const int descriptor = idle_.empty() ? connect_one() : idle_.back();
        if (descriptor < 0) {
            return;
        }
        if (!idle_.empty()) {
            idle_.pop_back();
        }
        clients_[descriptor].seed = seed;
        const std::string text = request(seed);
        if (::send(descriptor, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
            fail(fmt::format("request {}: not sent: {}", seed, std::strerror(errno)));
        }
    }

    int connect_one() {
        const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(options_.port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (descriptor < 0 || ::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
            fail(fmt::format("no connection: {}", std::strerror(errno)));
            return -1;
        }
        const int on = 1;
        (void)::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)::fcntl(descriptor, F_SETFL, O_NONBLOCK);
        epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
        (void)::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
        return descriptor;
    }

    void take_events() {
        epoll_event events[256];
        const int count = ::epoll_wait(epoll_, events, 256, 100);
        for (int i = 0; i < count && counts_.error.empty(); ++i) {
            read_client(events[i].data.fd);
        }
    }

    void read_client(int descriptor) {
        char buffer[16384];
        const ssize_t count = ::recv(descriptor, buffer, sizeof(buffer), 0);
        const auto found = clients_.find(descriptor);
        if (found == clients_.end() || count <= 0) {
            if (count == 0 || (count < 0 && errno != EAGAIN)) {
                fail(fmt::format("a connection ended: {}", count == 0 ? "closed" : std::strerror(errno)));
            }
            return;
        }
        Client& client = found->second;
        client.raw.append(buffer, static_cast<size_t>(count));
        if (!client.has_head && !take_head(client)) {
            return;
        }
        if (take_chunks(client) && counts_.error.empty()) {
            ++counts_.finished;
            if (options_.streams_answers && !client.has_done) {
                fail(fmt::format("stream {}: ended without [DONE]", client.seed));
            }
            on_end_(client.seed);
            clients_.erase(found);
            idle_.push_back(descriptor);
        }
    }

    bool take_head(Client& client) {
        const size_t end = client.raw.find("\r\n\r\n");
        if (end == std::string::npos) {
            return false;
        }
        if (!client.raw.starts_with("HTTP/1.1 200")) {
            fail(fmt::format("request {}: {}", client.seed, client.raw.substr(0, 400)));
            return false;
        }
        if (!options_.streams_answers) {
            const size_t at = client.raw.find("ontent-");
            const size_t length = client.raw.find("ength: ", at);
            client.chunk_left = std::stoul(client.raw.substr(length + 7)) + 1;
        }
        client.raw.erase(0, end + 4);
        client.has_head = true;
        return true;
    }

    // True: the answer is complete.
    bool take_chunks(Client& client) {
        if (!options_.streams_answers) {
            if (client.raw.size() + 1 < client.chunk_left) {
                return false;
            }
            take_content(client, client.raw);
            return true;
        }
        for (;;) {
            if (client.chunk_left == 0) {
                const size_t line = client.raw.find("\r\n");
                if (line == std::string::npos) {
                    return false;
                }
                const size_t size = std::stoul(client.raw, nullptr, 16);
                if (size == 0) {
                    return client.raw.size() >= line + 4;
                }
                client.chunk_left = size + 2;
                client.raw.erase(0, line + 2);
            }
            if (client.raw.size() < client.chunk_left) {
                return false;
            }
            client.events.append(client.raw, 0, client.chunk_left - 2);
            client.raw.erase(0, client.chunk_left);
            client.chunk_left = 0;
            take_stream_events(client);
        }
    }

    void take_stream_events(Client& client) {
        for (size_t end = client.events.find("\n\n"); end != std::string::npos; end = client.events.find("\n\n")) {
            const std::string event = client.events.substr(0, end);
            client.events.erase(0, end + 2);
            if (event == "data: [DONE]") {
                client.has_done = true;
            } else if (event.starts_with("data: ")) {
                take_content(client, std::string_view(event).substr(6));
            }
        }
    }

    // What is read here is words without escapes, so that the clients need less of the machine than the server.
    void take_content(const Client& client, std::string_view json) {
        constexpr std::string_view kBefore = "\"content\": \"";
        if (json.find("\"error\"") != std::string_view::npos || json.find("\"choices\"") == std::string_view::npos) {
            fail(fmt::format("stream {}: {}", client.seed, json));
            return;
        }
        const size_t begin = json.find(kBefore);
        if (begin == std::string_view::npos) {
            return;
        }
        const std::string_view rest = json.substr(begin + kBefore.size());
        const std::string_view content = rest.substr(0, rest.find('"'));
        if (!content.empty()) {
            ++counts_.pieces;
            on_text_(client.seed, content);
        }
    }

    const CrowdOptions options_;
    const OnText on_text_;
    const OnEnd on_end_;
    const int epoll_;
    std::unordered_map<int, Client> clients_;  // with a request under way, by descriptor
    std::vector<int> idle_;                    // connections between requests
    int64_t next_seed_ = 0;
    CrowdCounts counts_;
};

}  // namespace di
