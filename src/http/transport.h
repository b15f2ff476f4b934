#pragma once

#include <string_view>

// What src/http asks of a socket. All calls on the loop's thread.
namespace di {

// One client's bytes, plain or TLS. It answers to the Connection that it belongs to (on_open, on_bytes, ...), never from within
// one of these calls, and not at all after close().
class Transport {
  public:
    virtual ~Transport() = default;
    // Asks for one on_bytes() or on_read_end(). None may be under way.
    virtual void read() = 0;
    // Asks for one on_written() with some of the bytes, which stay where they are until then, or on_write_error(). None may be
    // under way.
    virtual void write(std::string_view bytes) = 0;
    // Says that nothing more will be written; what the client sends is still read.
    virtual void finish_sending() = 0;
    // One on_deadline() after that time, in the place of an earlier one.
    virtual void set_deadline(double seconds) = 0;
    virtual void clear_deadline() = 0;
    // Ends both directions. A reset tells the client that what it got may not be all.
    virtual void close(bool is_reset) = 0;
};

}  // namespace di
