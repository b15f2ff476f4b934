#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/answer_writer.h"
#include "text/unicode.h"

// What the tests of the answer writers share: a request, an answer as a script, the events that come out.
namespace di {

inline AnswerHead test_head(std::string id, bool is_thinking = false) {
    AnswerHead head;
    head.id = std::move(id);
    head.model = "m";
    head.created_s = 7;
    head.fingerprint = "fp";
    head.is_thinking = is_thinking;
    head.prompt_tokens = 10;
    head.cached_tokens = 4;
    head.request_body = JsonValue::object();
    return head;
}

inline Request test_request(Dialect dialect) {
    Request request;
    request.dialect = dialect;
    if (dialect == Dialect::kCompletions) {
        request.raw_prompts.emplace_back("p");
    } else {
        request.conversation = user_conversation("q");
    }
    return request;
}

inline AnswerUsage test_usage() {
    return {.prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 5, .reasoning_tokens = 2, .has_think_end = true};
}

inline Tool test_tool(std::string name, bool is_custom = false) {
    Tool tool;
    tool.name = std::move(name);
    tool.is_custom = is_custom;
    return tool;
}

// One line of JSON, or the mark of the end.
inline JsonValue event_data(const StreamEvent& event) {
    EXPECT_EQ(event.data.find_first_of("\r\n"), std::string::npos);
    EXPECT_TRUE(is_valid_utf8(event.data)) << event.data;
    if (event.data == "[DONE]") {
        return JsonValue::string(event.data);
    }
    auto value = parse_json(event.data);
    EXPECT_TRUE(value.has_value()) << event.data;
    return value ? *value : JsonValue();
}

// A writer with its events, and short words for the pieces of an answer.
class AnswerRun {
  public:
    using Kind = AnswerDelta::Kind;

    AnswerRun(const Request& request, AnswerHead head, AnswerWriterOptions options = {})
        : writer_(make_answer_writer(request, std::move(head), options)) {
        writer_->begin(events_);
    }

    AnswerRun& add(AnswerDelta delta) {
        writer_->delta(delta, events_);
        return *this;
    }
    AnswerRun& reasoning(const std::string& text, int32_t choice = 0) { return piece(Kind::kReasoning, text, choice); }
    AnswerRun& content(const std::string& text, int32_t choice = 0) { return piece(Kind::kContent, text, choice); }
    AnswerRun& call(const std::string& name, const std::vector<std::string>& pieces, bool is_ended = true) {
        AnswerDelta delta;
        delta.kind = Kind::kCallBegin;
        delta.text = name;
        delta.call_index = call_count_++;
        delta.call_id = fmt::format("call_{:02}_ID", delta.call_index);
        add(delta);
        delta.kind = Kind::kCallArguments;
        delta.call_id.clear();
        for (const std::string& text : pieces) {
            delta.text = text;
            add(delta);
        }
        delta.kind = Kind::kCallEnd;
        delta.text.clear();
        return is_ended ? add(delta) : *this;
    }
    AnswerRun& end_choice(ChoiceEnd end) {
        writer_->end_choice(end, events_);
        return *this;
    }
    AnswerRun& end(AnswerEnd end, AnswerUsage usage = test_usage()) {
        end_choice({.choice = 0, .end = end});
        return finish(usage);
    }
    AnswerRun& finish(AnswerUsage usage = test_usage()) {
        writer_->end(usage, events_);
        return *this;
    }
    AnswerRun& fail(ApiError error) {
        writer_->fail(error, events_);
        return *this;
    }
    AnswerRun& cancel() {
        writer_->cancel(events_);
        return *this;
    }

    [[nodiscard]] const StreamEvents& events() const { return events_; }
    [[nodiscard]] std::vector<JsonValue> data() const {
        std::vector<JsonValue> all;
        for (const StreamEvent& event : events_) {
            all.push_back(event_data(event));
        }
        return all;
    }
    // Names of the events, or their types, in order.
    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> names;
        for (const StreamEvent& event : events_) {
            names.push_back(event.name);
        }
        return names;
    }
    [[nodiscard]] JsonValue body(const JsonValue& timings = JsonValue()) const {
        return event_data({.name = {}, .data = writer_->body(timings)});
    }
    [[nodiscard]] AnswerWriter& writer() { return *writer_; }

  private:
    AnswerRun& piece(Kind kind, const std::string& text, int32_t choice) {
        AnswerDelta delta;
        delta.kind = kind;
        delta.text = text;
        delta.choice = choice;
        return add(delta);
    }

    std::unique_ptr<AnswerWriter> writer_;
    StreamEvents events_;
    int32_t call_count_ = 0;
};

// The JSON text at a path of keys and indices: at(value, "choices.0.delta"). "absent" where there is none.
inline std::string at(const JsonValue& value, std::string_view path) {
    const JsonValue* found = &value;
    while (found != nullptr && !path.empty()) {
        const size_t dot = path.find('.');
        const std::string key(path.substr(0, dot));
        path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
        if (found->is_array()) {
            const size_t index = static_cast<size_t>(std::stoul(key));
            found = index < found->as_array().size() ? &found->as_array()[index] : nullptr;
        } else {
            found = found->find(key);
        }
    }
    return found == nullptr ? "absent" : json_text(*found);
}

}  // namespace di
