#include <utility>

#include "api/answer_json.h"
#include "api/answer_writers.h"
#include "api/chunk_stream.h"
#include "api/custom_input.h"
#include "base/check.h"

// POST /v1/chat/completions (spec: HTTP interface, section 4).
namespace di {
namespace {

constexpr std::string_view kChunk = "chat.completion.chunk";
constexpr std::string_view kWhole = "chat.completion";

class ChatWriter : public ChunkWriter {
  public:
    ChatWriter(const Request& request, AnswerHead head, const AnswerWriterOptions& options)
        : ChunkWriter(request, std::move(head), {.chunk = kChunk, .whole = kWhole}, options.has_events),
          returns_token_ids_(request.returns_token_ids),
          copies_reasoning_field_(options.copies_reasoning_field),
          custom_tools_(custom_tool_names(request)),
          choices_(static_cast<size_t>(head_.choice_count)) {}

    void begin(StreamEvents& events) override {
        if (!has_events()) {
            return;
        }
        for (int32_t i = 0; i < head_.choice_count; ++i) {
            JsonObject delta;
            delta.text("role", "assistant");
            if (head_.is_thinking) {
                delta.null("content").text("reasoning_content", "");
            } else {
                delta.text("content", "");
            }
            const bool has_ids = returns_token_ids_ && !head_.prompt_token_ids.empty();
            send_first(choice(i, delta.take()).take(), has_ids ? &head_.prompt_token_ids.front() : nullptr, events);
        }
    }

    void delta(const AnswerDelta& delta, StreamEvents& events) override {
        Choice& known = choices_[static_cast<size_t>(delta.choice)];
        known.record.add(delta);
        if (!has_events()) {
            return;
        }
        JsonValue body;
        switch (delta.kind) {
            case AnswerDelta::Kind::kReasoning: body = reasoning_delta(delta.text); break;
            case AnswerDelta::Kind::kContent: body = content_delta(delta.text); break;
            case AnswerDelta::Kind::kCallBegin: body = call_begin(delta, known); break;
            case AnswerDelta::Kind::kCallArguments:
            case AnswerDelta::Kind::kCallEnd: body = call_piece(delta, known); break;
        }
        if (body.is_null() && delta.token_ids.empty()) {
            return;
        }
        JsonObject chunk = choice(delta.choice, body.is_null() ? JsonValue::object() : std::move(body), delta.logprobs);
        add_token_ids(chunk, delta.token_ids);
        send(chunk.take(), delta.usage, events);
    }

    void end_choice(const ChoiceEnd& end, StreamEvents& events) override {
        Choice& known = choices_[static_cast<size_t>(end.choice)];
        known.record.add(end);
        if (!has_events()) {
            return;
        }
        JsonObject chunk = choice(end.choice, content_delta(""), {}, finish_reason_text(end.end));
        chunk.value("stop_reason", stop_reason_value(end));
        add_token_ids(chunk, end.token_ids);
        send_last(chunk.take(), end.usage, events);
    }

  private:
    struct Choice {
        ChoiceRecord record{};
        std::optional<CustomInput> custom{};  // the open call's, where its tool is a custom one
    };

    [[nodiscard]] JsonObject choice(int32_t index, JsonValue delta, const std::vector<LogprobEntry>& logprobs = {},
                                    std::string_view finish_reason = {}) const {
        JsonObject object;
        object.integer("index", index).value("delta", std::move(delta)).value("logprobs", logprobs_value(logprobs));
        object.text_or_null("finish_reason", finish_reason);
        return object;
    }

    [[nodiscard]] static JsonValue logprobs_value(const std::vector<LogprobEntry>& entries) {
        return entries.empty() ? JsonValue() : JsonObject().value("content", logprob_entries(entries)).null("refusal").take();
    }

    void add_token_ids(JsonObject& chunk, const std::vector<int32_t>& ids) const {
        if (returns_token_ids_) {
            chunk.value("token_ids", json_integers(ids));
        }
    }

    [[nodiscard]] JsonValue reasoning_delta(std::string_view text) const {
        JsonObject delta;
        delta.null("content").text("reasoning_content", text);
        if (copies_reasoning_field_) {
            delta.text("reasoning", text);
        }
        return delta.take();
    }

    [[nodiscard]] JsonValue content_delta(std::string_view text) const {
        JsonObject delta;
        delta.text("content", text);
        if (head_.is_thinking) {
            delta.null("reasoning_content");
        }
        return delta.take();
    }

    [[nodiscard]] static JsonValue calls_delta(JsonValue call) {
        JsonValue::Array calls;
        calls.push_back(std::move(call));
        return JsonObject().value("tool_calls", JsonValue::array(std::move(calls))).take();
    }

    [[nodiscard]] bool is_custom(std::string_view name) const { return custom_tools_.contains(name); }

    [[nodiscard]] JsonValue call_begin(const AnswerDelta& delta, Choice& known) const {
        const bool is_of_custom = is_custom(delta.text);
        known.custom.reset();
        if (is_of_custom) {
            known.custom.emplace();
        }
        return calls_delta(
            call_value(delta.call_index, {.id = delta.call_id, .name = delta.text, .arguments = {}}, is_of_custom));
    }

    // Null where nothing is to be said yet.
    [[nodiscard]] static JsonValue call_piece(const AnswerDelta& delta, Choice& known) {
        const bool is_end = delta.kind == AnswerDelta::Kind::kCallEnd;
        if (is_end && !known.custom) {
            return {};
        }
        JsonObject call;
        call.integer("index", delta.call_index);
        if (!known.custom) {
            return calls_delta(call.value("function", JsonObject().text("arguments", delta.text).take()).take());
        }
        const std::string piece = is_end ? known.custom->finish() : known.custom->push(delta.text);
        if (piece.empty()) {
            return {};
        }
        return calls_delta(call.value("custom", JsonObject().text("input", piece).take()).take());
    }

    [[nodiscard]] static JsonValue call_value(int64_t index, const AnswerCall& call, bool is_of_custom) {
        JsonObject object;
        object.integer("index", index).text("id", call.id);
        if (is_of_custom) {
            JsonObject custom;
            custom.text("name", call.name).text("input", CustomInput::whole(call.arguments));
            return object.text("type", "custom").value("custom", custom.take()).take();
        }
        JsonObject function;
        function.text("name", call.name).text("arguments", call.arguments);
        return object.text("type", "function").value("function", function.take()).take();
    }

    void add_before_choices(JsonObject& body) const override { body.null("service_tier"); }

    void add_behind_usage(JsonObject& body) const override {
        if (returns_token_ids_ && !head_.prompt_token_ids.empty()) {
            body.value("prompt_token_ids", json_integers(head_.prompt_token_ids.front()));
        }
    }

    [[nodiscard]] JsonValue whole_choice(int32_t index) const override {
        const ChoiceRecord& record = choices_[static_cast<size_t>(index)].record;
        DI_CHECK(record.end.has_value(), "a body is asked for behind the end");
        JsonObject message;
        message.text("role", "assistant").text("content", record.content);
        if (head_.is_thinking || !record.reasoning.empty()) {
            message.text("reasoning_content", record.reasoning);
            if (copies_reasoning_field_) {
                message.text("reasoning", record.reasoning);
            }
        }
        message.null("refusal");
        JsonValue::Array calls;
        for (size_t i = 0; i < record.calls.size(); ++i) {
            calls.push_back(call_value(static_cast<int64_t>(i), record.calls[i], is_custom(record.calls[i].name)));
        }
        if (!calls.empty()) {
            message.value("tool_calls", JsonValue::array(std::move(calls)));
        }
        JsonObject object;
        object.integer("index", index).value("message", message.take()).value("logprobs", logprobs_value(record.logprobs));
        object.text("finish_reason", finish_reason_text(record.end->end)).value("stop_reason", stop_reason_value(*record.end));
        add_token_ids(object, record.token_ids);
        return object.take();
    }

    bool returns_token_ids_;
    bool copies_reasoning_field_;
    std::set<std::string, std::less<>> custom_tools_;
    std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_chat_writer(const Request& request, AnswerHead head, const AnswerWriterOptions& options) {
    return std::make_unique<ChatWriter>(request, std::move(head), options);
}

}  // namespace di
