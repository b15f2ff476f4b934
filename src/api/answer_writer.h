#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer.h"

namespace di {

// One server-sent event. JSON is one line of valid UTF-8.
struct StreamEvent {
    std::string name{};  // "" = no event line
    std::string data;    // one line: JSON, or "[DONE]"
};
using StreamEvents = std::vector<StreamEvent>;

// "event: NAME\ndata: DATA\n\n"
[[nodiscard]] std::string event_text(const StreamEvent& event);

// Turns one answer, piece by piece, into the events of a dialect or into one body. One object an answer, one thread.
// Called in this order: begin, then for every choice its deltas and its end_choice (choices may interleave), then end or
// fail. Both forms may be asked for: a background response is streamed and kept.
class AnswerWriter {
  public:
    virtual ~AnswerWriter() = default;

    virtual void begin(StreamEvents& events) = 0;
    virtual void delta(const AnswerDelta& delta, StreamEvents& events) = 0;
    virtual void end_choice(const ChoiceEnd& end, StreamEvents& events) = 0;
    virtual void end(const AnswerUsage& usage, StreamEvents& events) = 0;
    // An error behind the first byte: the stream ends with it and never looks complete.
    virtual void fail(const ApiError& error, StreamEvents& events) = 0;
    // It was cancelled by a request. Responses have a state for that, in other dialects it is an error.
    virtual void cancel(StreamEvents& events) = 0;
    // The text to send while nothing happens: a comment, or a ping event.
    [[nodiscard]] virtual std::string_view keep_alive() const = 0;
    // Behind end(), fail() or cancel(): the whole answer as one JSON text. `timings`: an object to add under that name, or null.
    // Responses give it at any time: queued before begin(), then in progress.
    [[nodiscard]] virtual std::string body(const JsonValue& timings) const = 0;
};

struct AnswerWriterOptions {
    bool copies_reasoning_field = false;  // chat: `reasoning` beside `reasoning_content`
    bool has_events = true;               // false: the body is all that is wanted, and no event is made
};

// The writer of request.dialect. Reads from the request what shapes the answer (stream options, logprobs, reasoning, tools).
[[nodiscard]] std::unique_ptr<AnswerWriter> make_answer_writer(const Request& request, AnswerHead head,
                                                               const AnswerWriterOptions& options);

}  // namespace di
