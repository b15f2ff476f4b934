#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/answer_writer.h"
#include "api/json_writing.h"

namespace di {

// The chunks of OpenAI's older streams, chat and completions: what is around the choices, where the usage goes, and the end.
class ChunkStream {
  public:
    ChunkStream(const Request& request, const AnswerHead& head, std::string_view object_name);

    // A chunk with one choice. `usage`: so far, where the caller knows it.
    void send(JsonValue choice, const std::optional<AnswerUsage>& usage, StreamEvents& events);
    // The first chunk of a stream has the prompt's ids where they are asked for.
    void send_first(JsonValue choice, const std::vector<int32_t>* prompt_token_ids, StreamEvents& events);
    // The last chunk of a choice. That of the last choice may wait for the usage.
    void send_last(JsonValue choice, const std::optional<AnswerUsage>& usage, StreamEvents& events);
    void end(const AnswerUsage& usage, StreamEvents& events);
    // The error event; a chunk that waits is dropped, for it would look like a good end.
    void fail(const ApiError& error, StreamEvents& events);

    // The members of an answer before its choices.
    [[nodiscard]] JsonObject head_members(std::string_view object_name) const;

  private:
    enum class UsageForm : uint8_t { kAbsent, kNull, kSoFar };

    [[nodiscard]] JsonObject chunk(JsonValue choice) const;
    void push(JsonObject chunk, StreamEvents& events);

    std::string id_;
    std::string model_;
    std::string fingerprint_;
    int64_t created_s_;
    Dialect dialect_;
    std::string object_name_;
    UsageForm usage_form_;
    bool has_usage_chunk_;
    int32_t open_choices_;
    AnswerUsage latest_;
    std::optional<JsonObject> waiting_;
};

}  // namespace di
