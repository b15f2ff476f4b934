#include "http/gzip.h"

#include <algorithm>
#include <array>

#include <zlib.h>

#include "base/check.h"

namespace di {

namespace {

constexpr int kGzipWindowBits = 15 + 16;  // +16: gzip heads alone, no zlib ones

}  // namespace

GzipReader::GzipReader() : stream_(std::make_unique<z_stream_s>()) {
    DI_CHECK(inflateInit2(stream_.get(), kGzipWindowBits) == Z_OK, "zlib cannot begin");
}

GzipReader::~GzipReader() { inflateEnd(stream_.get()); }

GzipReader::Outcome GzipReader::read(std::string_view bytes, size_t bytes_max, std::string& out) {
    std::array<char, size_t{16} << 10> decoded;
    // zlib reads through a pointer that is not const, and writes nothing there.
    stream_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_->avail_in = static_cast<uInt>(bytes.size());
    bool has_more = true;
    while (stream_->avail_in > 0 || has_more) {
        if (is_at_end_) {
            if (stream_->avail_in == 0) {
                return Outcome::kOk;
            }
            inflateReset(stream_.get());
            is_at_end_ = false;
        }
        stream_->next_out = reinterpret_cast<Bytef*>(decoded.data());
        stream_->avail_out = static_cast<uInt>(decoded.size());
        const int status = inflate(stream_.get(), Z_NO_FLUSH);
        const size_t count = decoded.size() - stream_->avail_out;
        if (count > bytes_max - std::min(bytes_max, out.size())) {
            return Outcome::kTooLarge;
        }
        out.append(decoded.data(), count);
        is_at_end_ = status == Z_STREAM_END;
        if (status == Z_BUF_ERROR) {
            return Outcome::kOk;  // nothing more can be made of these bytes
        }
        if (status != Z_OK && status != Z_STREAM_END) {
            return Outcome::kBroken;
        }
        has_more = stream_->avail_out == 0;  // a full buffer: zlib may hold back more
    }
    return Outcome::kOk;
}

}  // namespace di
