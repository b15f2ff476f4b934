#include <utility>

#include "api/answer_json.h"
#include "api/answer_writers.h"
#include "api/response_items.h"
#include "api/response_object.h"
#include "base/check.h"

// POST /v1/responses (spec: HTTP interface, section 6.1).
namespace di {
namespace {

// The codes that clients know for a failed response.
std::string_view failure_code(ApiErrorKind kind) {
    switch (kind) {
        case ApiErrorKind::kInvalidRequest:
        case ApiErrorKind::kContextLength:
        case ApiErrorKind::kPreviousResponse:
        case ApiErrorKind::kUnsupportedParameter:
        case ApiErrorKind::kTooLarge: return "invalid_prompt";
        case ApiErrorKind::kRateLimit: return "rate_limit_exceeded";
        case ApiErrorKind::kAuthentication:
        case ApiErrorKind::kPermission:
        case ApiErrorKind::kModelNotFound:
        case ApiErrorKind::kNotFound:
        case ApiErrorKind::kMethodNotAllowed:
        case ApiErrorKind::kUnsupportedMediaType:
        case ApiErrorKind::kInternal:
        case ApiErrorKind::kUnavailable:
        case ApiErrorKind::kOverloaded:
        case ApiErrorKind::kTimeout: return "server_error";
    }
    return "server_error";
}

bool is_cut(AnswerEnd end) {
    return end == AnswerEnd::kLength || end == AnswerEnd::kContextFull || end == AnswerEnd::kContentFilter;
}

class ResponsesWriter : public AnswerWriter {
  public:
    ResponsesWriter(const Request& request, AnswerHead head, const AnswerWriterOptions& options)
        : response_(request, head), items_(request, head.id), created_s_(head.created_s), has_events_(options.has_events) {}

    void begin(StreamEvents& events) override {
        response_.status = "in_progress";
        push_response("response.created", events);
        push_response("response.in_progress", events);
    }

    void delta(const AnswerDelta& delta, StreamEvents& events) override {
        ItemEvents changes;
        items_.add(delta, changes);
        push(std::move(changes), events);
    }

    void end_choice(const ChoiceEnd& end, StreamEvents& events) override {
        ItemEvents changes;
        items_.close(is_cut(end.end), changes);
        push(std::move(changes), events);
        end_ = end.end;
    }

    void end(const AnswerUsage& usage, StreamEvents& events) override {
        DI_CHECK(end_.has_value(), "the choice ends before the answer does");
        response_.usage = usage;
        response_.completed_s = usage.completed_s > 0 ? usage.completed_s : created_s_;
        if (is_cut(*end_)) {
            response_.status = "incomplete";
            response_.incomplete_reason = *end_ == AnswerEnd::kContentFilter ? "content_filter" : "max_output_tokens";
        } else {
            response_.status = "completed";
        }
        push_response("response." + response_.status, events);
    }

    void fail(const ApiError& error, StreamEvents& events) override {
        const std::string_view code = failure_code(error.kind);
        JsonObject event;
        event.text("type", "error").text("code", code).text("message", error.message);
        event.text_or_null("param", error.parameter);
        push("error", std::move(event), events);
        items_.abandon();
        response_.status = "failed";
        response_.error = JsonObject().text("code", code).text("message", error.message).take();
        push_response("response.failed", events);
    }

    void cancel(StreamEvents& events) override {
        items_.abandon();
        response_.status = "cancelled";
        push_response("response.cancelled", events);
    }

    [[nodiscard]] std::string_view keep_alive() const override { return ": keep-alive\n\n"; }

    [[nodiscard]] std::string body(const JsonValue& timings) const override {
        JsonValue object = response_.value(items_.output());
        if (!timings.is_null()) {
            object.set("timings", timings);
        }
        return json_text(object);
    }

  private:
    void push(std::string_view name, JsonObject event, StreamEvents& events) {
        if (!has_events_) {
            return;
        }
        event.integer("sequence_number", sequence_number_++);
        events.push_back({.name = std::string(name), .data = json_text(event.take())});
    }

    void push(ItemEvents changes, StreamEvents& events) {
        for (ItemEvent& change : changes) {
            push(change.type, std::move(change.members), events);
        }
    }

    void push_response(std::string_view type, StreamEvents& events) {
        if (!has_events_) {
            return;
        }
        JsonObject event;
        event.text("type", type).value("response", response_.value(items_.output()));
        push(type, std::move(event), events);
    }

    ResponseObject response_;
    ResponseItems items_;
    int64_t created_s_;
    bool has_events_;
    int64_t sequence_number_ = 0;
    std::optional<AnswerEnd> end_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_responses_writer(const Request& request, AnswerHead head,
                                                    const AnswerWriterOptions& options) {
    return std::make_unique<ResponsesWriter>(request, std::move(head), options);
}

}  // namespace di
