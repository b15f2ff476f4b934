#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "base/result.h"

// Spans for an OpenTelemetry collector: OTLP over HTTP, JSON. How they are sent is passed in.
namespace di {

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

[[nodiscard]] std::string hex_text(std::span<const uint8_t> bytes);

// Where a span belongs (W3C Trace Context).
struct TraceContext {
    TraceId trace{};
    SpanId parent{};
    bool is_sampled = true;
};

// "00-<32 hex>-<16 hex>-<2 hex>"; nothing for anything else, which is then as if there was none.
[[nodiscard]] std::optional<TraceContext> parse_traceparent(std::string_view header);
// For whom we call ourselves.
[[nodiscard]] std::string traceparent_of(const TraceId& trace, const SpanId& span, bool is_sampled);

using SpanValue = std::variant<std::string, int64_t, double, bool>;

struct Span {
    TraceId trace{};
    SpanId id{};
    SpanId parent{};  // zeros: none
    std::string name;
    bool is_server = false;  // of a request; else a part of one
    int64_t start_us = 0;    // since 1970
    int64_t end_us = 0;
    std::vector<std::pair<std::string, SpanValue>> attributes{};
    std::string error{};  // "": it went well
};

// Ids that are never zeros.
[[nodiscard]] TraceId new_trace_id(Random& random);
[[nodiscard]] SpanId new_span_id(Random& random);

struct TraceResource {
    std::string service_name = "deepinfer";
    std::string service_version{};
    std::string instance{};
};

// The body of a POST to the collector.
[[nodiscard]] std::string otlp_body(const TraceResource& resource, std::span<const Span> spans);

struct TraceExporterOptions {
    TraceResource resource{};
    double interval_s = 1.0;  // spans wait no longer for a batch to fill
    size_t waiting_max = 0;   // 0: that of limits.h
    size_t batch_max = 0;
};

struct TraceExporterCounts {
    int64_t sent = 0;
    int64_t dropped = 0;  // the queue was full
    int64_t failed = 0;   // the collector did not take them
};

// Sends spans in batches from a thread of its own. Nobody waits for it: when the queue is full, spans are dropped and counted.
class TraceExporter {
  public:
    // Called on the exporter's thread, one call at a time; it may take its time, but must have an end.
    using Send = std::function<Status(std::string body)>;

    TraceExporter(TraceExporterOptions options, Send send);
    ~TraceExporter();  // sends what waits, until a send fails
    TraceExporter(const TraceExporter&) = delete;
    TraceExporter& operator=(const TraceExporter&) = delete;

    void add(Span span);
    // Returns when all that was added before has been sent, dropped or failed.
    void flush();
    [[nodiscard]] TraceExporterCounts counts() const;

  private:
    void run();
    // Takes a batch; nothing left: empty.
    [[nodiscard]] std::vector<Span> take_batch();
    void count(size_t spans, const Status& status);

    const TraceExporterOptions options_;
    const Send send_;
    mutable std::mutex mutex_;  // guards all below but the thread
    std::condition_variable work_;
    std::condition_variable done_;
    std::deque<Span> waiting_;
    size_t sending_ = 0;  // taken from the queue, not yet counted
    bool is_flushing_ = false;
    bool is_ending_ = false;
    bool is_failing_ = false;  // said in the log already
    TraceExporterCounts counts_;
    std::thread thread_;
};

}  // namespace di
