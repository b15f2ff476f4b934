#include "http/connection.h"

#include <utility>

#include <fmt/format.h>

#include "http/limits.h"
#include "http/reply.h"
#include "http/response_text.h"

namespace di {

Connection::Connection(ConnectionHost& host, std::shared_ptr<Transport> transport, ClientAddress client, bool is_refused)
    : host_(host),
      transport_(std::move(transport)),
      client_(std::move(client)),
      is_refused_(is_refused),
      framing_({.header_bytes_max = host.options.header_bytes_max, .body_bytes_max = host.options.body_bytes_max}) {}

void Connection::start() { transport_->set_deadline(host_.options.header_timeout_s); }

void Connection::on_open() {
    state_ = State::kReading;
    if (is_refused_) {
        answer_fault(
            {.status = 503, .text = fmt::format("{} connections are open, as many as allowed", host_.options.connections_max)});
    } else {
        transport_->set_deadline(host_.options.idle_timeout_s);
    }
    read_more();
}

// --- reading ----------------------------------------------------------------

void Connection::read_more() {
    const bool has_room =
        state_ == State::kReading || state_ == State::kLingering || input_.size() - input_used_ < kPipelinedBytesMax;
    if (is_reading_ || has_read_end_ || state_ == State::kClosed || !has_room) {
        return;
    }
    is_reading_ = true;
    transport_->read();
}

void Connection::on_bytes(std::string_view bytes) {
    is_reading_ = false;
    if (state_ != State::kLingering) {
        input_.erase(0, std::exchange(input_used_, 0));
        input_ += bytes;
        advance();
    }
    read_more();
}

void Connection::on_read_end() {
    is_reading_ = false;
    has_read_end_ = true;
    switch (state_) {
        case State::kAnswering: lose_client(); break;
        case State::kDraining: break;  // the answer is complete: who only stopped sending gets it
        case State::kOpening:
        case State::kReading:
        case State::kLingering:
        case State::kClosed: close(false); break;
    }
}

// Feeds what was read, until a request is complete or the bytes are used up.
void Connection::advance() {
    if (state_ != State::kReading) {
        return;
    }
    input_used_ += framing_.feed(std::string_view(input_).substr(input_used_));
    if (input_used_ == input_.size()) {
        input_.clear();
        input_used_ = 0;
        if (input_.capacity() > kKeptBufferBytes) {
            input_.shrink_to_fit();
        }
    }
    update_reading_deadline();
    count_body(framing_.body_bytes());
    if (framing_.state() == RequestFraming::State::kComplete) {
        dispatch();
        return;
    }
    if (framing_.state() == RequestFraming::State::kFault) {
        answer_fault(framing_.fault());
        return;
    }
    if (host_.body_bytes > kBodiesTogetherMax * host_.options.body_bytes_max) {
        answer_fault({.status = 503,
                      .text = "the bodies of all requests under way are too large together; try again later",
                      .path = framing_.partial().path});
        return;
    }
    if (framing_.take_expectation()) {
        pending_ += "HTTP/1.1 100 Continue\r\n\r\n";
        flush_soon();
    }
}

void Connection::update_reading_deadline() {
    const RequestFraming::State now = framing_.state();
    if (now == framing_seen_) {
        return;
    }
    const bool was_in_head = framing_seen_ == RequestFraming::State::kIdle || framing_seen_ == RequestFraming::State::kHead;
    framing_seen_ = now;
    switch (now) {
        case RequestFraming::State::kIdle: transport_->set_deadline(host_.options.idle_timeout_s); break;
        case RequestFraming::State::kHead: transport_->set_deadline(host_.options.header_timeout_s); break;
        case RequestFraming::State::kBody: transport_->set_deadline(host_.options.body_timeout_s); break;
        case RequestFraming::State::kComplete:
        case RequestFraming::State::kFault: transport_->clear_deadline(); break;
    }
    if (was_in_head && now != RequestFraming::State::kHead) {
        head_complete_us_ = host_.now_us();
    }
}

void Connection::count_body(int64_t bytes) {
    host_.body_bytes += bytes - body_bytes_;
    body_bytes_ = bytes;
}

void Connection::dispatch() {
    keeps_alive_ = framing_.keeps_alive();
    is_http10_ = framing_.is_http10();
    HttpRequest request = framing_.take();
    count_body(0);
    framing_seen_ = RequestFraming::State::kIdle;
    is_head_request_ = request.method == "HEAD";
    request.remote_address = client_.text;
    request.is_loopback = client_.is_loopback;
    request.received_us = head_complete_us_;
    state_ = State::kAnswering;
    ++serial_;
    host_.handler.request(std::move(request), make_reply(weak_from_this(), serial_, host_.posted));
}

void Connection::answer_fault(const HttpFault& fault) {
    count_body(0);
    state_ = State::kAnswering;
    ++serial_;
    keeps_alive_ = false;
    is_http10_ = framing_.is_http10();
    is_head_request_ = framing_.partial().method == "HEAD";
    HttpResponse response = host_.handler.fault(fault);
    response.status = fault.status;
    send(std::move(response));
}

void Connection::on_deadline() {
    const bool is_in_request = state_ == State::kReading &&
                               (framing_seen_ == RequestFraming::State::kHead || framing_seen_ == RequestFraming::State::kBody);
    if (!is_in_request) {
        // A silent client, or one that does not take its answer: whether that was whole, only a reset can say.
        close(state_ == State::kDraining);
        return;
    }
    const bool is_head = framing_seen_ == RequestFraming::State::kHead;
    answer_fault({.status = 408,
                  .text = fmt::format("the {} of the request took longer than {} s", is_head ? "header" : "body",
                                      is_head ? host_.options.header_timeout_s : host_.options.body_timeout_s),
                  .path = framing_.partial().path});
}

// --- answering --------------------------------------------------------------

void Connection::send(HttpResponse response) {
    HeadFraming framing{.keeps_alive = keeps_alive_};
    if (has_body(response.status)) {
        framing.body_bytes = static_cast<int64_t>(response.body.size());
    }
    append_head(response.status, response.headers, framing, pending_);
    if (has_body(response.status) && !is_head_request_) {
        pending_ += response.body;
    }
    end_answer();
}

void Connection::begin_stream(int status, const HttpHeaders& headers) {
    is_chunked_ = !is_http10_;
    // HTTP/1.0 knows no chunks: its answer ends with the connection.
    keeps_alive_ = keeps_alive_ && is_chunked_;
    append_head(status, headers, {.keeps_alive = keeps_alive_, .is_chunked = is_chunked_}, pending_);
    flush_soon();
}

void Connection::write(std::string_view piece) {
    if (is_head_request_) {
        return;
    }
    flush_soon();
    if (is_chunked_) {
        append_chunk(piece, pending_);
    } else {
        pending_ += piece;
    }
}

void Connection::end_stream() {
    if (is_chunked_ && !is_head_request_) {
        pending_ += kLastChunk;
    }
    end_answer();
}

void Connection::break_off() {
    keeps_alive_ = false;
    has_hidden_end_ = is_http10_;
    end_answer();
}

void Connection::end_answer() {
    state_ = State::kDraining;
    on_gone_ = nullptr;
    transport_->set_deadline(host_.options.idle_timeout_s);
    flush_soon();
}

// --- writing ----------------------------------------------------------------

void Connection::flush_soon() {
    if (!std::exchange(is_flush_due_, true)) {
        host_.flush_soon(shared_from_this());
    }
}

void Connection::flush() {
    is_flush_due_ = false;
    write_pending();
}

void Connection::write_pending() {
    if (state_ == State::kClosed) {
        return;
    }
    if (is_writing_) {
        if (state_ == State::kAnswering && static_cast<int64_t>(unsent_bytes()) > host_.options.unsent_bytes_max) {
            lose_client();
        }
        return;
    }
    if (!pending_.empty()) {
        writing_.swap(pending_);
        write_some();
        return;
    }
    on_drained();
}

void Connection::write_some() {
    is_writing_ = true;
    transport_->write(std::string_view(writing_).substr(written_));
}

void Connection::on_written(size_t count) {
    is_writing_ = false;
    written_ += count;
    if (state_ == State::kDraining) {
        transport_->set_deadline(host_.options.idle_timeout_s);  // slow, and not stuck
    }
    if (written_ < writing_.size()) {
        write_some();
        return;
    }
    writing_.clear();
    written_ = 0;
    if (writing_.capacity() > kKeptBufferBytes) {
        writing_.shrink_to_fit();
    }
    write_pending();
}

void Connection::on_drained() {
    if (state_ != State::kDraining) {
        return;
    }
    if (has_hidden_end_) {
        close(true);
        return;
    }
    if (keeps_alive_ && !has_read_end_) {
        next_request();
        return;
    }
    transport_->finish_sending();
    if (has_read_end_) {
        close(false);
        return;
    }
    state_ = State::kLingering;
    input_.clear();
    input_used_ = 0;
    transport_->set_deadline(kLingerSeconds);
    read_more();
}

void Connection::next_request() {
    state_ = State::kReading;
    transport_->set_deadline(host_.options.idle_timeout_s);
    advance();
    read_more();
}

void Connection::on_write_error() {
    is_writing_ = false;
    if (state_ == State::kAnswering) {
        lose_client();
        return;
    }
    close(false);
}

// --- the end ----------------------------------------------------------------

void Connection::lose_client() {
    if (on_gone_) {
        // Not from within a call of the handler's.
        host_.posted->push(std::exchange(on_gone_, nullptr));
    }
    close(true);
}

void Connection::close(bool is_reset) {
    if (state_ == State::kClosed) {
        return;
    }
    count_body(0);
    state_ = State::kClosed;
    on_gone_ = nullptr;
    transport_->close(is_reset);
    host_.forget(*this);
}

}  // namespace di
