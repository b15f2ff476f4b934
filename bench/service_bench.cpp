// What the service costs beside an engine: HTTP, event streams, detokeniser, parser, writers; the backend is one that emits
// tokens on a clock (tests/paced_backend.h). Server and clients are two processes of this machine.
//   service_bench [--model DIR] [--streams 2000] [--tokens 64] [--interval-ms 200] [--step-ms 1]   CPU a token, added delay
//   service_bench --requests 100000 [--tokens 4]                                                    memory over many requests
// Limits: 30 us of CPU a token event, 1 ms of added delay at p99. The floor is a bare send() of such an event to each of as many
// connections, which is printed beside it; on loopback it includes the receiver's half of TCP.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "tests/paced_backend.h"
#include "tests/service_over.h"
#include "tests/stream_crowd.h"

namespace di {
namespace {

struct Asked {
    std::string model = "models/v41-mini";
    int64_t streams = 2000;
    int64_t tokens = 0;
    int64_t interval_ms = 200;
    int64_t step_ms = 1;
    int64_t requests = 0;
};

// When each token left the backend, in ns of the steady clock; shared by both processes.
class EmissionTimes {
  public:
    EmissionTimes(int64_t streams, int64_t tokens) : tokens_(tokens) {
        const size_t bytes = static_cast<size_t>(streams * tokens) * sizeof(int64_t);
        void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            std::perror("mmap");
            std::exit(1);
        }
        times_ = static_cast<int64_t*>(memory);
    }
    [[nodiscard]] int64_t& at(uint64_t seed, int64_t index) { return times_[static_cast<int64_t>(seed) * tokens_ + index]; }

  private:
    int64_t* times_ = nullptr;
    int64_t tokens_ = 0;
};

int64_t nanoseconds(SteadyTime when) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
}

std::unique_ptr<Session> open_model(const std::string& model) {
    SessionOptions options;
    options.engine.model_directory = model;
    auto session = Session::open(options);
    if (!session) {
        fmt::print(stderr, "error: {}\n", session.error().text);
        std::exit(1);
    }
    return std::move(*session);
}

// The server's process: tells its port, serves until `until_closed` ends.
void serve(const Asked& asked, EmissionTimes* times, int tell_port, int until_closed) {
    const std::unique_ptr<Session> session = open_model(asked.model);
    const StreamWords words(session->tokenizer());
    PacedBackend::Emitted emitted;
    if (times != nullptr) {
        emitted = [times](uint64_t seed, int64_t index, SteadyTime when) { times->at(seed, index) = nanoseconds(when); };
    }
    PacedBackend backend(words, std::chrono::milliseconds(asked.requests > 0 ? 0 : asked.interval_ms),
                         std::chrono::milliseconds(asked.requests > 0 ? 0 : asked.step_ms), emitted);
    SystemClock clock;
    SystemRandom random;
    Settings engine;
    engine.queue_max = asked.streams + 1000;
    const auto service = service_over(*session, backend, clock, random, server_options(ServeSettings{}, engine).value());
    if (!service) {
        fmt::print(stderr, "error: {}\n", service.error().text);
        std::_Exit(1);
    }
    const uint16_t port = (*service)->port();
    (void)!::write(tell_port, &port, sizeof(port));
    char byte = 0;
    (void)!::read(until_closed, &byte, 1);
}

// Of all threads but the backend's.
double cpu_seconds(pid_t process) {
    long ticks = 0;
    for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process))) {
        std::ifstream file(thread.path() / "stat");
        std::string text;
        std::getline(file, text);
        if (text.find(fmt::format("({})", PacedBackend::kThreadName)) != std::string::npos) {
            continue;
        }
        std::istringstream fields(text.substr(text.rfind(')') + 1));
        std::string word;
        for (int i = 3; i <= 15 && fields >> word; ++i) {
            ticks += i >= 14 ? std::stol(word) : 0;  // user, system
        }
    }
    return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double resident_mib(pid_t process) {
    std::ifstream file(fmt::format("/proc/{}/statm", process));
    long pages = 0;
    file >> pages >> pages;
    return static_cast<double>(pages) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// The first tokens come while all the requests are read.
constexpr int64_t kFirstMeasured = 8;

// CPU of a send() of an event's size, over so many connections in turn. Nobody reads, so that no wake-up is in it.
double send_us(int64_t connections) {
    constexpr int kRounds = 16;
    const std::string event(230, 'x');
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    std::vector<int> ends;
    bool is_good = ::bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0 && ::listen(listener, 128) == 0 &&
                   ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0;
    for (int64_t i = 0; is_good && i < connections; ++i) {
        ends.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        is_good = ::connect(ends.back(), reinterpret_cast<const sockaddr*>(&address), length) == 0;
        ends.push_back(::accept(listener, nullptr, nullptr));
        const int on = 1;
        (void)::setsockopt(ends.back(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    const auto thread_us = [] {
        rusage usage{};
        ::getrusage(RUSAGE_THREAD, &usage);
        return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
               static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    };
    const double before_us = thread_us();
    for (int round = 0; is_good && round < kRounds; ++round) {
        for (size_t i = 1; i < ends.size(); i += 2) {
            is_good = ::send(ends[i], event.data(), event.size(), MSG_NOSIGNAL) == std::ssize(event) && is_good;
        }
    }
    const double spent_us = thread_us() - before_us;
    for (const int end : ends) {
        ::close(end);
    }
    ::close(listener);
    return is_good ? spent_us / static_cast<double>(kRounds * connections) : 0.0;
}

int measure_streams(const Asked& asked, uint16_t port, pid_t server, EmissionTimes& times) {
    const std::unique_ptr<Session> session = open_model(asked.model);
    const StreamWords words(session->tokenizer());
    struct Stream {
        std::string text;
        int64_t next = 0;  // token
    };
    std::vector<Stream> streams(static_cast<size_t>(asked.streams));
    std::vector<int64_t> delays;
    delays.reserve(static_cast<size_t>(asked.streams * asked.tokens));
    int64_t token_count = 0;
    bool is_wrong = false;
    const auto on_text = [&](uint64_t seed, std::string_view text) {
        const int64_t now = nanoseconds(std::chrono::steady_clock::now());
        Stream& stream = streams[seed];
        stream.text += text;
        while (!stream.text.empty() && stream.next < asked.tokens && stream.text.starts_with(words.text(seed, stream.next))) {
            if (stream.next >= kFirstMeasured) {
                delays.push_back(now - times.at(seed, stream.next));
            }
            ++token_count;
            stream.text.erase(0, words.text(seed, stream.next).size());
            ++stream.next;
        }
        is_wrong = is_wrong || !stream.text.empty();
    };
    const double cpu_before = cpu_seconds(server);
    StreamCrowd crowd(
        {.port = port, .streams = asked.streams, .at_once = asked.streams, .tokens = asked.tokens, .timeout_s = 600}, on_text,
        [](uint64_t) {});
    const CrowdCounts counts = crowd.run();
    const double cpu = cpu_seconds(server) - cpu_before;
    if (!counts.error.empty() || is_wrong || token_count != asked.streams * asked.tokens) {
        fmt::print(stderr, "error: {} (tokens that came as they should: {} of {})\n", counts.error, token_count,
                   asked.streams * asked.tokens);
        return 1;
    }
    std::sort(delays.begin(), delays.end());
    const auto delay_ms = [&delays](double share) {
        return static_cast<double>(delays[static_cast<size_t>(share * static_cast<double>(delays.size() - 1))]) / 1e6;
    };
    fmt::print(
        "{} streams at once, {} tokens each, one every {} ms, steps of {} ms\n"
        "CPU a token, its share of the request included: {:.1f} us, bare send() {:.1f} us\n"
        "delay behind the backend (from token {} on): p50 {:.3f} ms, p90 {:.3f}, p99 {:.3f}, most {:.3f}\n",
        asked.streams, asked.tokens, asked.interval_ms, asked.step_ms, cpu * 1e6 / static_cast<double>(token_count),
        send_us(asked.streams), kFirstMeasured, delay_ms(0.5), delay_ms(0.9), delay_ms(0.99), delay_ms(1.0));
    return 0;
}

int measure_memory(const Asked& asked, uint16_t port, pid_t server) {
    constexpr int64_t kParts = 10;
    for (int64_t part = 0; part < kParts; ++part) {
        const auto began = std::chrono::steady_clock::now();
        StreamCrowd crowd(
            {.port = port,
             .streams = asked.requests / kParts,
             .at_once = 64,
             .tokens = asked.tokens,
             .streams_answers = part % 2 == 0,
             .timeout_s = 600},
            [](uint64_t, std::string_view) {}, [](uint64_t) {});
        const CrowdCounts counts = crowd.run();
        if (!counts.error.empty()) {
            fmt::print(stderr, "error: {}\n", counts.error);
            return 1;
        }
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
        fmt::print("{:>8} requests: {:.1f} MiB resident, {:.0f} requests/s ({})\n", (part + 1) * (asked.requests / kParts),
                   resident_mib(server), static_cast<double>(asked.requests / kParts) / seconds,
                   part % 2 == 0 ? "streams" : "whole answers");
        std::fflush(stdout);
    }
    return 0;
}

int run(const Asked& asked) {
    int port_pipe[2];
    int life_pipe[2];
    if (::pipe(port_pipe) != 0 || ::pipe(life_pipe) != 0) {
        std::perror("pipe");
        return 1;
    }
    std::unique_ptr<EmissionTimes> times;
    if (asked.requests == 0) {
        times = std::make_unique<EmissionTimes>(asked.streams, asked.tokens);
    }
    const pid_t server = ::fork();
    if (server == 0) {
        ::close(life_pipe[1]);
        serve(asked, times.get(), port_pipe[1], life_pipe[0]);
        std::_Exit(0);
    }
    ::close(port_pipe[1]);
    ::close(life_pipe[0]);
    uint16_t port = 0;
    int status = 1;
    if (::read(port_pipe[0], &port, sizeof(port)) == sizeof(port)) {
        status = asked.requests > 0 ? measure_memory(asked, port, server) : measure_streams(asked, port, server, *times);
    }
    ::close(life_pipe[1]);
    (void)::waitpid(server, nullptr, 0);
    return status;
}

}  // namespace
}  // namespace di

int main(int count, char** arguments) {
    di::Asked asked;
    const std::map<std::string, int64_t*> numbers = {{"--streams", &asked.streams},
                                                     {"--tokens", &asked.tokens},
                                                     {"--interval-ms", &asked.interval_ms},
                                                     {"--step-ms", &asked.step_ms},
                                                     {"--requests", &asked.requests}};
    for (int i = 1; i + 1 < count; i += 2) {
        const auto number = numbers.find(arguments[i]);
        char* end = nullptr;
        if (number != numbers.end()) {
            *number->second = std::strtoll(arguments[i + 1], &end, 10);
        } else if (std::string_view(arguments[i]) == "--model") {
            asked.model = arguments[i + 1];
        } else {
            count = 0;
        }
        count = end != nullptr && *end != '\0' ? 0 : count;
    }
    if (asked.tokens == 0) {
        asked.tokens = asked.requests > 0 ? 4 : 64;
    }
    const bool is_good = count % 2 == 1 && asked.streams > 0 && asked.streams <= 8000 && asked.interval_ms >= 0 &&
                         asked.step_ms >= 0 && asked.requests >= 0 && asked.tokens <= 900 &&
                         asked.tokens > (asked.requests > 0 ? 0 : di::kFirstMeasured);
    if (!is_good) {
        fmt::print(stderr,
                   "usage: service_bench [--model DIR] [--streams 1..8000] [--tokens {}..900] [--interval-ms N] "
                   "[--step-ms N] [--requests N]\n",
                   di::kFirstMeasured + 1);
        return 2;
    }
    return di::run(asked);
}
