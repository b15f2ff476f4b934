#include "http/request_framing.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <fmt/format.h>

#include "base/check.h"
#include "http/gzip.h"
#include "http/request_target.h"

namespace di {

namespace http = boost::beast::http;
using BeastError = boost::beast::error_code;
using BeastText = boost::beast::string_view;

namespace {

std::string_view view_of(BeastText text) { return {text.data(), text.size()}; }

bool is_same_word(std::string_view left, std::string_view right) {
    return boost::beast::iequals({left.data(), left.size()}, {right.data(), right.size()});
}

}  // namespace

// One request. Beast's parser cuts; what it finds lands in `request` at once.
class RequestFraming::Parser final : public http::basic_parser<true> {
  public:
    explicit Parser(const FramingLimits& limits) : limits_(limits) {
        header_limit(static_cast<std::uint32_t>(limits.header_bytes_max));
        body_limit(static_cast<std::uint64_t>(limits.body_bytes_max));
        eager(true);
    }

    size_t feed(std::string_view bytes);

    State state = State::kIdle;
    HttpRequest request{};
    HttpFault fault{};
    bool is_http10 = false;
    bool expects_continue = false;

  private:
    void on_request_impl(http::verb verb, BeastText method, BeastText target, int version, BeastError& error) override;
    void on_field_impl(http::field field, BeastText name, BeastText value, BeastError& error) override;
    void on_header_impl(BeastError& error) override;
    void on_body_init_impl(const boost::optional<std::uint64_t>& /*content_length*/, BeastError& /*error*/) override {}
    size_t on_body_impl(BeastText body, BeastError& error) override;
    void on_chunk_header_impl(std::uint64_t /*size*/, BeastText /*extensions*/, BeastError& /*error*/) override {}
    size_t on_chunk_body_impl(std::uint64_t /*remain*/, BeastText body, BeastError& error) override;
    void on_finish_impl(BeastError& error) override;
    void on_response_impl(int /*code*/, BeastText /*reason*/, int /*version*/, BeastError& /*error*/) override {}

    size_t put_bytes(std::string_view bytes);
    void refuse(int status, std::string text, BeastError& error);
    void name_fault(const BeastError& error);

    FramingLimits limits_;
    std::string kept_;  // bytes that Beast wants to see again together with what follows
    std::optional<GzipReader> gzip_;
    int host_count_ = 0;
    bool is_trailer_ = false;
};

size_t RequestFraming::Parser::feed(std::string_view bytes) {
    size_t skipped = 0;
    if (state == State::kIdle) {
        // Some clients send an empty line behind a body (RFC 9112, 2.2).
        while (skipped < bytes.size() && (bytes[skipped] == '\r' || bytes[skipped] == '\n')) {
            ++skipped;
        }
        bytes.remove_prefix(skipped);
        if (bytes.empty()) {
            return skipped;
        }
        state = State::kHead;
    }
    const size_t before = kept_.size();
    size_t used = 0;
    if (before == 0) {
        used = put_bytes(bytes);
        kept_ = bytes.substr(used);
    } else {
        kept_ += bytes;
        used = put_bytes(kept_);
        kept_.erase(0, used);
    }
    if (state == State::kComplete) {
        // Beast never ends a request within bytes that were not enough before.
        DI_CHECK(used >= before, "a request ended in the past");
        return skipped + used - before;
    }
    // A line of a chunk's size, or a trailer, that does not end.
    if (static_cast<int64_t>(kept_.size()) > limits_.header_bytes_max && state != State::kFault) {
        name_fault(http::make_error_code(http::error::header_limit));
    }
    return skipped + bytes.size();
}

size_t RequestFraming::Parser::put_bytes(std::string_view bytes) {
    size_t used = 0;
    // Beast returns after a piece of its own choice; every turn uses bytes or ends.
    while (used < bytes.size() && !is_done()) {
        BeastError error;
        const size_t count = put({bytes.data() + used, bytes.size() - used}, error);
        used += count;
        if (error == http::error::need_more) {
            break;
        }
        if (error) {
            name_fault(error);
            return used;
        }
        if (count == 0) {
            break;
        }
    }
    if (is_done()) {
        state = State::kComplete;
    }
    return used;
}

void RequestFraming::Parser::name_fault(const BeastError& error) {
    state = State::kFault;
    fault.path = request.path;
    if (!fault.text.empty()) {
        return;  // ours, by refuse()
    }
    if (error == http::error::header_limit) {
        fault.status = 431;
        fault.text = fmt::format("the header has more than {} bytes", limits_.header_bytes_max);
        return;
    }
    if (error == http::error::body_limit) {
        fault.status = 413;
        fault.text = fmt::format("the body has more than {} bytes", limits_.body_bytes_max);
        return;
    }
    fault.status = 400;
    fault.text = fmt::format("malformed HTTP request: {}, expected HTTP/1.1", error.message());
}

void RequestFraming::Parser::refuse(int status, std::string text, BeastError& error) {
    fault.status = status;
    fault.text = std::move(text);
    error = http::make_error_code(http::error::bad_value);
}

void RequestFraming::Parser::on_request_impl(http::verb /*verb*/, BeastText method, BeastText target, int version,
                                             BeastError& error) {
    request.method = view_of(method);
    request.target = view_of(target);
    is_http10 = version == 10;
    auto parts = split_target(request.target);
    if (!parts) {
        refuse(400, "malformed request target, expected a path that begins with \"/\"", error);
        return;
    }
    request.path = std::move(parts->path);
    request.query = std::move(parts->query);
}

void RequestFraming::Parser::on_field_impl(http::field field, BeastText name, BeastText value, BeastError& /*error*/) {
    if (is_trailer_) {
        return;  // behind the body: too late to mean anything
    }
    host_count_ += field == http::field::host ? 1 : 0;
    std::string lower(view_of(name));
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
    request.headers.emplace_back(std::move(lower), view_of(value));
}

void RequestFraming::Parser::on_header_impl(BeastError& error) {
    is_trailer_ = true;
    state = State::kBody;
    if ((!is_http10 && host_count_ == 0) || host_count_ > 1) {
        refuse(400, fmt::format("{} Host headers, expected one", host_count_), error);
        return;
    }
    // Anything else than "chunked" alone would leave open where the body ends.
    int transfer_encodings = 0;
    for (const auto& [name, value] : request.headers) {
        transfer_encodings += name == "transfer-encoding" ? 1 : 0;
    }
    const std::string_view transfer = request.header("transfer-encoding");
    if (transfer_encodings > 1 || (transfer_encodings == 1 && !is_same_word(transfer, "chunked")) ||
        (transfer_encodings == 1 && is_http10)) {
        refuse(400, fmt::format("transfer-encoding \"{}\", expected \"chunked\" or none", transfer), error);
        return;
    }
    const std::string_view encoding = request.header("content-encoding");
    if (is_same_word(encoding, "gzip") || is_same_word(encoding, "x-gzip")) {
        gzip_.emplace();
    } else if (!encoding.empty() && !is_same_word(encoding, "identity")) {
        refuse(415, fmt::format("content-encoding \"{}\", expected \"gzip\" or none", encoding), error);
        return;
    }
    const std::string_view expectation = request.header("expect");
    if (expectation.empty() || is_http10) {
        return;
    }
    if (!is_same_word(expectation, "100-continue")) {
        refuse(417, fmt::format("expect \"{}\", expected \"100-continue\" or none", expectation), error);
        return;
    }
    expects_continue = !is_done();
}

size_t RequestFraming::Parser::on_body_impl(BeastText body, BeastError& error) {
    expects_continue = false;  // the client did not wait
    if (!gzip_) {
        request.body += view_of(body);
        return body.size();
    }
    switch (gzip_->read(view_of(body), static_cast<size_t>(limits_.body_bytes_max), request.body)) {
        case GzipReader::Outcome::kOk: break;
        case GzipReader::Outcome::kTooLarge: error = http::make_error_code(http::error::body_limit); break;
        case GzipReader::Outcome::kBroken: refuse(400, "the body is not gzip, as its content-encoding says", error); break;
    }
    return body.size();
}

size_t RequestFraming::Parser::on_chunk_body_impl(std::uint64_t /*remain*/, BeastText body, BeastError& error) {
    return on_body_impl(body, error);
}

void RequestFraming::Parser::on_finish_impl(BeastError& error) {
    const bool has_some = content_length().value_or(0) > 0 || chunked();
    if (gzip_ && has_some && !gzip_->is_complete()) {
        refuse(400, "the gzip body ends too early", error);
    }
}

RequestFraming::RequestFraming(const FramingLimits& limits) : limits_(limits), parser_(std::make_unique<Parser>(limits)) {}

RequestFraming::~RequestFraming() = default;

size_t RequestFraming::feed(std::string_view bytes) {
    if (parser_->state == State::kComplete || parser_->state == State::kFault) {
        return 0;
    }
    return parser_->feed(bytes);
}

RequestFraming::State RequestFraming::state() const { return parser_->state; }

bool RequestFraming::keeps_alive() const { return parser_->is_header_done() && parser_->keep_alive(); }

bool RequestFraming::is_http10() const { return parser_->is_http10; }

bool RequestFraming::take_expectation() {
    return parser_->state == State::kBody && std::exchange(parser_->expects_continue, false);
}

int64_t RequestFraming::body_bytes() const { return static_cast<int64_t>(parser_->request.body.size()); }

HttpRequest RequestFraming::take() {
    DI_CHECK(parser_->state == State::kComplete, "a request was taken before it was complete");
    HttpRequest request = std::move(parser_->request);
    parser_ = std::make_unique<Parser>(limits_);
    return request;
}

const HttpFault& RequestFraming::fault() const { return parser_->fault; }

const HttpRequest& RequestFraming::partial() const { return parser_->request; }

}  // namespace di
