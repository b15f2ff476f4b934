#pragma once

#include "api/answer_writer.h"
#include "api/api_error.h"
#include "base/check.h"
#include "text/chat_encoding.h"
#include "text/unicode.h"

// What holds for a request of any dialect that came out of any bytes.
namespace di {

inline void check_parsed(const Result<Request>& request, Dialect dialect) {
    if (!request) {
        const ApiError error = api_error_of(request.error());
        DI_CHECK(http_status(error.kind, dialect) == 400, "a body is the client's fault");
        const std::string body = error_body(error, dialect, "");
        DI_CHECK(is_valid_utf8(body) && parse_json(body).has_value(), "an error is JSON");
        return;
    }
    // With earlier messages in a store the conversation is not whole yet.
    if (request->conversation && request->previous_response_id.empty()) {
        const auto prompt = encode_prompt(*request->conversation, ChatDialect::kV41);
        DI_CHECK(prompt.has_value(), "what was accepted can be written as a prompt");
    }
}

// An answer to it is valid events and a valid body.
inline void check_answered(const Request& request, JsonValue body) {
    AnswerHead head;
    head.id = "RID";
    head.is_thinking = request.conversation && request.conversation->is_thinking;
    head.request_body = std::move(body);
    const auto writer = make_answer_writer(request, std::move(head), {});
    StreamEvents events;
    writer->begin(events);
    AnswerDelta delta;
    delta.text = "a\n\xff";
    writer->delta(delta, events);
    if (request.conversation && !request.conversation->tools.empty()) {
        delta.kind = AnswerDelta::Kind::kCallBegin;
        delta.text = request.conversation->tools.front().name;
        writer->delta(delta, events);
        delta.kind = AnswerDelta::Kind::kCallArguments;
        delta.text = "{\"input\": \"x\"}";
        writer->delta(delta, events);
    }
    writer->end_choice({}, events);
    writer->end({}, events);
    for (const StreamEvent& event : events) {
        DI_CHECK(event.data == "[DONE]" || parse_json(event.data).has_value(), "an event is JSON");
    }
    DI_CHECK(parse_json(writer->body({})).has_value(), "a body is JSON");
}

}  // namespace di
