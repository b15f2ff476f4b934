#include "server/service_log.h"

#include <chrono>
#include <utility>

#include "api/answer_json.h"
#include "base/log.h"
#include "base/random.h"
#include "http/post.h"
#include "server/routes.h"

namespace di {
namespace {

int64_t unix_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

AccessRecord record_of(const Exchange& exchange) {
    AccessRecord record;
    record.time_us = unix_us();
    record.request_id = exchange.request_id;
    record.key_name = std::string(exchange.key_name());
    record.remote_address = exchange.http.remote_address;
    record.method = exchange.http.method;
    record.route = exchange.route == nullptr ? exchange.http.path : std::string(exchange.route->path);
    return record;
}

class WrittenLog : public ServiceLog {
  public:
    WrittenLog(std::unique_ptr<AccessLog> access, std::unique_ptr<TraceExporter> traces)
        : access_(std::move(access)), traces_(std::move(traces)) {}

    void end(const Generation& generation, int64_t now_us) override {
        if (generation.exchange == nullptr) {
            return;  // background: its request was answered long ago
        }
        const AnswerStream& stream = *generation.stream;
        AccessRecord record = record_of(*generation.exchange);
        record.status = stream.error() && !stream.has_begun() ? http_status(stream.error()->kind, stream.request().dialect)
                        : generation.is_cancelled             ? 0
                                                              : 200;
        record.finish = generation.is_cancelled ? "cancelled"
                        : stream.error()        ? "error"
                                                : std::string(finish_reason_text(stream.end_of_first()));
        record.error = stream.error() ? std::string(error_code_text(stream.error()->kind)) : "";
        record.model = stream.head().model;
        record.is_streamed = generation.is_streaming;
        record.prompt_tokens = stream.usage().prompt_tokens;
        record.cached_tokens = stream.usage().cached_tokens;
        record.completion_tokens = stream.usage().completion_tokens;
        record.reasoning_tokens = stream.usage().reasoning_tokens;
        record.queue_ms = stream.timing().queue_ms;
        record.first_token_ms =
            generation.first_token_us < 0 ? 0.0 : static_cast<double>(generation.first_token_us - generation.began_us) * 1e-3;
        record.total_ms = static_cast<double>(now_us - generation.began_us) * 1e-3;
        write(*generation.exchange, std::move(record));
    }

    void refused(const Exchange& exchange, const ApiError& error) override {
        AccessRecord record = record_of(exchange);
        record.status = http_status(error.kind, exchange.dialect);
        record.error = std::string(error_code_text(error.kind));
        write(exchange, std::move(record));
    }

    void reopen() override {
        if (access_ != nullptr) {
            if (const Status opened = access_->reopen(); !opened) {
                log_error("{}", opened.error().text);
            }
        }
    }

  private:
    void write(const Exchange& exchange, AccessRecord record) {
        if (traces_ != nullptr) {
            Span span = span_of(exchange, record);
            record.trace_id = hex_text(span.trace);
            traces_->add(std::move(span));
        }
        if (access_ != nullptr) {
            access_->write(record);
        }
    }

    // One span a request, inside the client's trace where it names one.
    Span span_of(const Exchange& exchange, const AccessRecord& record) {
        const std::optional<TraceContext> context = parse_traceparent(exchange.http.header("traceparent"));
        Span span;
        span.trace = context ? context->trace : new_trace_id(random_);
        span.parent = context ? context->parent : SpanId{};
        span.id = new_span_id(random_);
        span.name = fmt::format("{} {}", record.method, record.route);
        span.is_server = true;
        span.end_us = record.time_us;
        span.start_us = record.time_us - static_cast<int64_t>(record.total_ms * 1000.0);
        span.error = record.error;
        span.attributes = {{"http.response.status_code", static_cast<int64_t>(record.status)},
                           {"gen_ai.request.model", record.model},
                           {"gen_ai.usage.input_tokens", record.prompt_tokens},
                           {"gen_ai.usage.output_tokens", record.completion_tokens},
                           {"deepinfer.cached_tokens", record.cached_tokens},
                           {"deepinfer.queue_ms", record.queue_ms},
                           {"deepinfer.first_token_ms", record.first_token_ms},
                           {"deepinfer.request_id", record.request_id}};
        return span;
    }

    std::unique_ptr<AccessLog> access_;
    std::unique_ptr<TraceExporter> traces_;
    SystemRandom random_;
};

}  // namespace

Result<std::unique_ptr<ServiceLog>> ServiceLog::open(const ServerOptions& options, std::string_view version) {
    std::unique_ptr<AccessLog> access;
    if (!options.access_log.empty()) {
        DI_TRY(access, AccessLog::open(options.access_log));
    }
    std::unique_ptr<TraceExporter> traces;
    if (options.otlp) {
        const PostTarget target{.host = options.otlp->host, .port = options.otlp->port, .path = options.otlp->path};
        TraceExporterOptions exporter;
        exporter.resource.service_version = std::string(version);
        traces = std::make_unique<TraceExporter>(std::move(exporter),
                                                 [target](const std::string& body) { return post_json(target, body); });
    }
    return std::make_unique<WrittenLog>(std::move(access), std::move(traces));
}

}  // namespace di
