#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "http/server.h"

// Cuts the bytes of a connection into requests. It knows no socket and no time.
namespace di {

struct FramingLimits {
    int64_t header_bytes_max = int64_t{64} << 10;
    int64_t body_bytes_max = int64_t{64} << 20;  // encoded and decoded
};

class RequestFraming {
  public:
    enum class State : uint8_t {
        kIdle,      // no byte of the next request
        kHead,      // a part of it
        kBody,      // the head is complete
        kComplete,  // take() gives the request
        kFault,     // the connection has to end
    };

    explicit RequestFraming(const FramingLimits& limits);
    ~RequestFraming();

    // How many of the bytes were used: all, unless a request is complete; those behind it belong to the next.
    [[nodiscard]] size_t feed(std::string_view bytes);
    [[nodiscard]] State state() const;

    // From kBody on.
    [[nodiscard]] bool keeps_alive() const;
    [[nodiscard]] bool is_http10() const;
    // The client waits for "100 Continue" before it sends its body. True once a request.
    [[nodiscard]] bool take_expectation();
    // Of the body so far, decoded.
    [[nodiscard]] int64_t body_bytes() const;

    // kComplete: the request; the next one may be fed.
    [[nodiscard]] HttpRequest take();
    // kFault; and at any time, what is known of a request: method and path may be empty.
    [[nodiscard]] const HttpFault& fault() const;
    [[nodiscard]] const HttpRequest& partial() const;

  private:
    class Parser;
    FramingLimits limits_;
    std::unique_ptr<Parser> parser_;
};

}  // namespace di
