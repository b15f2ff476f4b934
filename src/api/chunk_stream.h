#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/answer_writer.h"
#include "api/json_writing.h"

namespace di {

// What chat and completions have in common: an answer of choices. The stream is chunks with one choice each, the usage goes
// into the last or into one of its own, then [DONE].
class ChunkWriter : public AnswerWriter {
  public:
    void end(const AnswerUsage& usage, StreamEvents& events) override;
    // A chunk that waits is dropped, for it would look like a good end.
    void fail(const ApiError& error, StreamEvents& events) override;
    void cancel(StreamEvents& events) override;
    [[nodiscard]] std::string_view keep_alive() const override { return ": keep-alive\n\n"; }
    [[nodiscard]] std::string body(const JsonValue& timings) const override;

  protected:
    // Names of the JSON objects.
    struct ObjectNames {
        std::string_view chunk;
        std::string_view whole;
    };

    ChunkWriter(const Request& request, AnswerHead head, ObjectNames names, bool has_events);

    // A choice of the body.
    [[nodiscard]] virtual JsonValue whole_choice(int32_t index) const = 0;
    // Members of the body around its choices and usage.
    virtual void add_before_choices(JsonObject& /*body*/) const {}
    virtual void add_behind_usage(JsonObject& /*body*/) const {}

    // False: the body alone is wanted, and no chunk need be made.
    [[nodiscard]] bool has_events() const { return has_events_; }
    // A chunk with one choice. `usage`: so far, where the caller knows it.
    void send(const JsonValue& choice, const std::optional<AnswerUsage>& usage, StreamEvents& events);
    // The first chunk of a stream has the prompt's ids where they are asked for.
    void send_first(JsonValue choice, const std::vector<int32_t>* prompt_token_ids, StreamEvents& events);
    // The last chunk of a choice. That of the last choice may wait for the usage.
    void send_last(JsonValue choice, const std::optional<AnswerUsage>& usage, StreamEvents& events);

    AnswerHead head_;

  private:
    enum class UsageForm : uint8_t { kAbsent, kNull, kSoFar };

    [[nodiscard]] JsonObject head_members(std::string_view object_name) const;
    [[nodiscard]] JsonObject chunk(JsonValue choice) const;
    void push(JsonObject chunk, StreamEvents& events);

    Dialect dialect_;
    ObjectNames names_;
    bool has_events_;
    UsageForm usage_form_;
    bool has_usage_chunk_;
    std::string chunk_begin_;  // up to the choice; empty before the first
    int32_t open_choices_;
    AnswerUsage latest_;  // so far, then of the whole
    std::optional<JsonObject> waiting_;
    std::optional<ApiError> error_;
};

}  // namespace di
