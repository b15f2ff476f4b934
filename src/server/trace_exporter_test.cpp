#include "server/trace_exporter.h"

#include <future>

#include <gtest/gtest.h>

#include "text/json_text.h"

namespace di {
namespace {

constexpr const char* kParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
// No test waits for it: batches go when they are full or flushed.
constexpr double kNever = 3600.0;

TEST(Traceparent, IsReadAndWritten) {
    const TraceContext context = parse_traceparent(kParent).value();
    EXPECT_EQ(hex_text(context.trace), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(hex_text(context.parent), "00f067aa0ba902b7");
    EXPECT_TRUE(context.is_sampled);
    EXPECT_EQ(traceparent_of(context.trace, context.parent, true), kParent);
    EXPECT_FALSE(parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02")->is_sampled);
    EXPECT_TRUE(parse_traceparent("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-later").has_value());
}

TEST(Traceparent, WhatIsNoneCountsAsNone) {
    for (const char* header :
         {"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
          "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
          "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
          "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
          "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01", "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
          "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01later"}) {
        EXPECT_FALSE(parse_traceparent(header).has_value()) << header;
    }
}

TEST(SpanIds, DifferAndAreNeverZeros) {
    class Zeros : public Random {
      public:
        uint64_t next() override { return ++calls_ < 5 ? 0 : calls_; }

      private:
        uint64_t calls_ = 0;
    };
    Zeros zeros;
    EXPECT_NE(new_trace_id(zeros), TraceId{});
    SeededRandom random(1);
    EXPECT_NE(new_span_id(random), new_span_id(random));
    EXPECT_NE(new_trace_id(random), new_trace_id(random));
}

Span span_of(const std::string& name) {
    SeededRandom random(3);
    return {.trace = new_trace_id(random), .id = new_span_id(random), .name = name, .start_us = 1'000'001, .end_us = 2'000'002};
}

TEST(OtlpBody, IsTheJsonOfTheProtocol) {
    Span span = span_of("POST \"chat\"\n");
    span.parent = parse_traceparent(kParent)->parent;
    span.is_server = true;
    span.attributes = {{"http.route", std::string("/v1")}, {"n", int64_t{5}}, {"x", 0.5}, {"ok", true}};
    span.error = "timeout";
    const std::string text = otlp_body({.service_version = "1", .instance = "host"}, std::vector<Span>{span, span_of("b")});
    const JsonValue body = parse_json(text).value();
    const JsonValue& resource = body.find("resourceSpans")->as_array()[0];
    EXPECT_EQ(json_text(resource.find("resource")->find("attributes")->as_array()[0]),
              R"({"key": "service.name", "value": {"stringValue": "deepinfer"}})");
    const JsonValue::Array& spans = resource.find("scopeSpans")->as_array()[0].find("spans")->as_array();
    ASSERT_EQ(spans.size(), 2U);
    EXPECT_EQ(spans[0].find("traceId")->as_string(), hex_text(span.trace));
    EXPECT_EQ(spans[0].find("spanId")->as_string(), hex_text(span.id));
    EXPECT_EQ(spans[0].find("parentSpanId")->as_string(), "00f067aa0ba902b7");
    EXPECT_EQ(spans[0].find("name")->as_string(), span.name);
    EXPECT_EQ(spans[0].find("kind")->as_int64(), 2);
    EXPECT_EQ(spans[0].find("startTimeUnixNano")->as_string(), "1000001000");
    EXPECT_EQ(spans[0].find("endTimeUnixNano")->as_string(), "2000002000");
    EXPECT_EQ(json_text(*spans[0].find("attributes")),
              R"([{"key": "http.route", "value": {"stringValue": "/v1"}}, {"key": "n", "value": {"intValue": "5"}}, )"
              R"({"key": "x", "value": {"doubleValue": 0.5}}, {"key": "ok", "value": {"boolValue": true}}])");
    EXPECT_EQ(json_text(*spans[0].find("status")), R"({"code": 2, "message": "timeout"})");
    EXPECT_EQ(spans[1].find("parentSpanId"), nullptr);
    EXPECT_EQ(spans[1].find("status"), nullptr);
}

int64_t spans_in(const std::string& body) {
    const JsonValue value = parse_json(body).value();
    const JsonValue& scope = value.find("resourceSpans")->as_array()[0].find("scopeSpans")->as_array()[0];
    return static_cast<int64_t>(scope.find("spans")->as_array().size());
}

TEST(TraceExporter, SendsEverySpanOnceInBatches) {
    std::vector<int64_t> sizes;  // written by the exporter's thread, read behind flush()
    TraceExporter exporter({.interval_s = kNever, .batch_max = 4}, [&](const std::string& body) -> Status {
        sizes.push_back(spans_in(body));
        return {};
    });
    exporter.flush();
    for (int i = 0; i < 10; ++i) {
        exporter.add(span_of("x"));
    }
    exporter.flush();
    int64_t sum = 0;
    for (const int64_t size : sizes) {
        EXPECT_LE(size, 4);
        sum += size;
    }
    EXPECT_EQ(sum, 10);
    EXPECT_EQ(exporter.counts().sent, 10);
    exporter.add(span_of("y"));
    exporter.flush();
    EXPECT_EQ(exporter.counts().sent, 11);
}

TEST(TraceExporter, AFullBatchGoesWithoutBeingAskedFor) {
    std::promise<int64_t> sent;
    TraceExporter exporter({.interval_s = kNever, .batch_max = 2}, [&](const std::string& body) -> Status {
        sent.set_value(spans_in(body));
        return {};
    });
    exporter.add(span_of("a"));
    exporter.add(span_of("b"));
    EXPECT_EQ(sent.get_future().get(), 2);
}

TEST(TraceExporter, NobodyWaitsForASlowCollector) {
    std::promise<void> started;
    std::promise<void> may_end;
    bool is_first = true;
    TraceExporter exporter({.interval_s = kNever, .waiting_max = 3, .batch_max = 1}, [&](const std::string&) -> Status {
        if (is_first) {
            is_first = false;
            started.set_value();
            may_end.get_future().wait();
        }
        return {};
    });
    exporter.add(span_of("sent"));
    started.get_future().wait();
    for (int i = 0; i < 10; ++i) {
        exporter.add(span_of("x"));
    }
    EXPECT_EQ(exporter.counts().dropped, 7);
    may_end.set_value();
    exporter.flush();
    EXPECT_EQ(exporter.counts().sent, 4);
    EXPECT_EQ(exporter.counts().dropped, 7);
}

TEST(TraceExporter, WhatTheCollectorRefusesIsCountedAndSaidOnce) {
    testing::internal::CaptureStderr();
    {
        TraceExporter exporter({.interval_s = kNever, .batch_max = 1}, [](const std::string&) -> Status {
            return fail(ErrorCode::kUnavailable, "connection refused");
        });
        exporter.add(span_of("a"));
        exporter.flush();
        exporter.add(span_of("b"));
        exporter.flush();
        EXPECT_EQ(exporter.counts().failed, 2);
        EXPECT_EQ(exporter.counts().sent, 0);
    }
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find("connection refused"), std::string::npos);
    EXPECT_EQ(text.find("connection refused"), text.rfind("connection refused"));
}

TEST(TraceExporter, TheEndSendsWhatWaits) {
    int64_t sent = 0;
    {
        TraceExporter exporter({.interval_s = kNever, .batch_max = 100}, [&](const std::string& body) -> Status {
            sent += spans_in(body);
            return {};
        });
        exporter.add(span_of("a"));
        exporter.add(span_of("b"));
    }
    EXPECT_EQ(sent, 2);
}

}  // namespace
}  // namespace di
