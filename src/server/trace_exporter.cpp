#include "server/trace_exporter.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/json_string.h"
#include "base/log.h"
#include "server/limits.h"

namespace di {
namespace {

std::optional<int> hex_digit(char c) {
    // Upper case is not allowed there.
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? std::optional(c - 'a' + 10) : std::nullopt;
}

bool parse_hex(std::string_view text, std::span<uint8_t> bytes) {
    if (text.size() != 2 * bytes.size()) {
        return false;
    }
    for (size_t i = 0; i < bytes.size(); ++i) {
        const std::optional<int> high = hex_digit(text[2 * i]);
        const std::optional<int> low = hex_digit(text[2 * i + 1]);
        if (!high || !low) {
            return false;
        }
        bytes[i] = static_cast<uint8_t>(*high * 16 + *low);
    }
    return true;
}

bool is_zero(std::span<const uint8_t> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

void fill(std::span<uint8_t> bytes, Random& random) {
    do {
        for (size_t i = 0; i < bytes.size(); i += 8) {
            const uint64_t word = random.next();
            for (size_t j = i; j < std::min(i + 8, bytes.size()); ++j) {
                bytes[j] = static_cast<uint8_t>(word >> (8 * (j - i)));
            }
        }
    } while (is_zero(bytes));
}

// Values of OTLP's JSON: 64-bit integers are strings there.
std::string value_json(const SpanValue& value) {
    std::string json;
    if (const auto* text = std::get_if<std::string>(&value)) {
        json = "{\"stringValue\":";
        append_json_string(json, *text);
    } else if (const auto* integer = std::get_if<int64_t>(&value)) {
        json = fmt::format("{{\"intValue\":\"{}\"", *integer);
    } else if (const auto* boolean = std::get_if<bool>(&value)) {
        json = fmt::format("{{\"boolValue\":{}", *boolean);
    } else {
        const double number = std::get<double>(value);
        json = fmt::format("{{\"doubleValue\":{}", std::isfinite(number) ? number : 0.0);
    }
    return json + "}";
}

void append_attribute(std::string& json, std::string_view key, const SpanValue& value) {
    json += json.ends_with('[') ? "{\"key\":" : ",{\"key\":";
    append_json_string(json, key);
    json += ",\"value\":" + value_json(value) + "}";
}

void append_span(std::string& json, const Span& span) {
    json += json.ends_with('[') ? "{" : ",{";
    json += fmt::format("\"traceId\":\"{}\",\"spanId\":\"{}\"", hex_text(span.trace), hex_text(span.id));
    if (!is_zero(span.parent)) {
        json += fmt::format(",\"parentSpanId\":\"{}\"", hex_text(span.parent));
    }
    json += ",\"name\":";
    append_json_string(json, span.name);
    // SPAN_KIND_SERVER and SPAN_KIND_INTERNAL; nanoseconds.
    json += fmt::format(",\"kind\":{},\"startTimeUnixNano\":\"{}000\",\"endTimeUnixNano\":\"{}000\",\"attributes\":[",
                        span.is_server ? 2 : 1, span.start_us, span.end_us);
    for (const auto& [key, value] : span.attributes) {
        append_attribute(json, key, value);
    }
    json += "]";
    if (!span.error.empty()) {
        json += ",\"status\":{\"code\":2,\"message\":";  // STATUS_CODE_ERROR
        append_json_string(json, span.error);
        json += "}";
    }
    json += "}";
}

}  // namespace

std::string hex_text(std::span<const uint8_t> bytes) {
    std::string text;
    for (const uint8_t byte : bytes) {
        text += fmt::format("{:02x}", byte);
    }
    return text;
}

std::optional<TraceContext> parse_traceparent(std::string_view header) {
    // version-trace-parent-flags. Later versions may have more behind it.
    constexpr size_t kSize = 2 + 1 + 32 + 1 + 16 + 1 + 2;
    std::array<uint8_t, 1> version{};
    std::array<uint8_t, 1> flags{};
    TraceContext context;
    if (header.size() < kSize || header[2] != '-' || header[35] != '-' || header[52] != '-' ||
        !parse_hex(header.substr(0, 2), version) || !parse_hex(header.substr(3, 32), context.trace) ||
        !parse_hex(header.substr(36, 16), context.parent) || !parse_hex(header.substr(53, 2), flags)) {
        return std::nullopt;
    }
    const bool has_right_end = header.size() == kSize || (version[0] > 0 && header[kSize] == '-');
    if (version[0] == 0xFF || !has_right_end || is_zero(context.trace) || is_zero(context.parent)) {
        return std::nullopt;
    }
    context.is_sampled = (flags[0] & 1) != 0;
    return context;
}

std::string traceparent_of(const TraceId& trace, const SpanId& span, bool is_sampled) {
    return fmt::format("00-{}-{}-{}", hex_text(trace), hex_text(span), is_sampled ? "01" : "00");
}

TraceId new_trace_id(Random& random) {
    TraceId id{};
    fill(id, random);
    return id;
}

SpanId new_span_id(Random& random) {
    SpanId id{};
    fill(id, random);
    return id;
}

std::string otlp_body(const TraceResource& resource, std::span<const Span> spans) {
    std::string json = "{\"resourceSpans\":[{\"resource\":{\"attributes\":[";
    append_attribute(json, "service.name", resource.service_name);
    append_attribute(json, "service.version", resource.service_version);
    append_attribute(json, "service.instance.id", resource.instance);
    json += "]},\"scopeSpans\":[{\"scope\":{\"name\":\"deepinfer\"},\"spans\":[";
    for (const Span& span : spans) {
        append_span(json, span);
    }
    return json + "]}]}]}";
}

TraceExporter::TraceExporter(TraceExporterOptions options, Send send)
    : options_([&] {
          options.waiting_max = options.waiting_max == 0 ? kSpansWaitingMax : options.waiting_max;
          options.batch_max = options.batch_max == 0 ? kSpansPerBatch : options.batch_max;
          return std::move(options);
      }()),
      send_(std::move(send)),
      thread_([this] { run(); }) {}

TraceExporter::~TraceExporter() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
    }
    work_.notify_one();
    thread_.join();
}

void TraceExporter::add(Span span) {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= options_.waiting_max) {
        ++counts_.dropped;
        return;
    }
    waiting_.push_back(std::move(span));
    if (waiting_.size() == options_.batch_max) {
        work_.notify_one();
    }
}

void TraceExporter::flush() {
    std::unique_lock lock(mutex_);
    is_flushing_ = true;
    work_.notify_one();
    done_.wait(lock, [&] { return waiting_.empty() && sending_ == 0; });
}

TraceExporterCounts TraceExporter::counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
}

void TraceExporter::run() {
    while (true) {
        const std::vector<Span> batch = take_batch();
        if (batch.empty()) {
            return;
        }
        count(batch.size(), send_(otlp_body(options_.resource, batch)));
    }
}

std::vector<Span> TraceExporter::take_batch() {
    std::unique_lock lock(mutex_);
    while (true) {
        const bool is_full = waiting_.size() >= options_.batch_max;
        if (!is_full && !is_flushing_ && !is_ending_) {
            work_.wait_for(lock, std::chrono::duration<double>(options_.interval_s),
                           [&] { return waiting_.size() >= options_.batch_max || is_flushing_ || is_ending_; });
        }
        if (!waiting_.empty()) {
            break;
        }
        is_flushing_ = false;
        done_.notify_all();
        if (is_ending_) {
            return {};
        }
    }
    std::vector<Span> batch;
    while (!waiting_.empty() && batch.size() < options_.batch_max) {
        batch.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
    }
    sending_ = batch.size();
    return batch;
}

void TraceExporter::count(size_t spans, const Status& status) {
    const std::lock_guard lock(mutex_);
    sending_ = 0;
    (status ? counts_.sent : counts_.failed) += static_cast<int64_t>(spans);
    if (!status && !is_failing_) {
        log_warning("traces: {}; spans are lost until the collector takes them again", status.error().text);
    }
    is_failing_ = !status;
    if (!status && is_ending_) {
        // A collector that is away must not hold up the end of the process, batch by batch.
        counts_.failed += static_cast<int64_t>(waiting_.size());
        waiting_.clear();
    }
    done_.notify_all();
}

}  // namespace di
