#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct z_stream_s;

namespace di {

// Decodes a gzip body piece by piece (RFC 1952, several members allowed) and stops at a limit of what comes out.
class GzipReader {
  public:
    enum class Outcome : uint8_t { kOk, kTooLarge, kBroken };

    GzipReader();
    ~GzipReader();

    // Appends the decoded bytes to `out`, which never grows beyond `bytes_max`.
    [[nodiscard]] Outcome read(std::string_view bytes, size_t bytes_max, std::string& out);
    // Nothing is missing: the last member has ended.
    [[nodiscard]] bool is_complete() const { return is_at_end_; }

  private:
    std::unique_ptr<z_stream_s> stream_;
    bool is_at_end_ = false;  // between members
};

}  // namespace di
