#include <utility>

#include "api/answer_json.h"
#include "api/answer_writers.h"
#include "base/check.h"

// POST /v1/messages (spec: HTTP interface, section 7).
namespace di {
namespace {

std::string_view message_stop_reason(AnswerEnd end) {
    switch (end) {
        case AnswerEnd::kStop:
        case AnswerEnd::kStopToken: return "end_turn";
        case AnswerEnd::kStopString: return "stop_sequence";
        case AnswerEnd::kToolCalls: return "tool_use";
        case AnswerEnd::kLength: return "max_tokens";
        case AnswerEnd::kContextFull: return "model_context_window_exceeded";
        case AnswerEnd::kContentFilter: return "refusal";
    }
    return "end_turn";
}

class MessagesWriter : public AnswerWriter {
  public:
    MessagesWriter(const Request& request, AnswerHead head, const AnswerWriterOptions& options)
        : request_id_(request.request_id), head_(std::move(head)), has_events_(options.has_events) {
        usage_.prompt_tokens = head_.prompt_tokens;
        usage_.cached_tokens = head_.cached_tokens;
    }

    void begin(StreamEvents& events) override {
        if (has_events_) {
            JsonObject event = event_object("message_start");
            push("message_start", event.value("message", message_value()), events);
        }
        if (head_.is_thinking) {
            open(BlockKind::kThinking, events);  // it is there even if it stays empty
        }
    }

    void delta(const AnswerDelta& delta, StreamEvents& events) override {
        switch (delta.kind) {
            case AnswerDelta::Kind::kReasoning: add_text(BlockKind::kThinking, delta.text, events); break;
            case AnswerDelta::Kind::kContent: add_text(BlockKind::kText, delta.text, events); break;
            case AnswerDelta::Kind::kCallBegin:
                close(events);
                blocks_.push_back({.kind = BlockKind::kToolUse, .call_id = delta.call_id, .name = delta.text, .text = {}});
                start(events);
                break;
            case AnswerDelta::Kind::kCallArguments: add_text(BlockKind::kToolUse, delta.text, events); break;
            case AnswerDelta::Kind::kCallEnd: close(events); break;
        }
    }

    void end_choice(const ChoiceEnd& end, StreamEvents& events) override {
        close(events);
        end_ = end;
    }

    void end(const AnswerUsage& usage, StreamEvents& events) override {
        DI_CHECK(end_.has_value(), "the choice ends before the answer does");
        usage_ = usage;
        if (!has_events_) {
            return;
        }
        JsonObject stop;
        stop.text("stop_reason", message_stop_reason(end_->end)).value("stop_sequence", stop_sequence());
        JsonObject event = event_object("message_delta");
        push("message_delta", event.value("delta", stop.take()).value("usage", usage_value()), events);
        JsonObject last = event_object("message_stop");
        push("message_stop", last, events);
    }

    void fail(const ApiError& error, StreamEvents& events) override {
        error_ = error;
        if (!has_events_) {
            return;
        }
        events.push_back({.name = "error", .data = error_body(error, Dialect::kMessages, request_id_)});
    }

    void cancel(StreamEvents& events) override { fail(cancelled_error(), events); }

    [[nodiscard]] std::string_view keep_alive() const override { return "event: ping\ndata: {\"type\": \"ping\"}\n\n"; }

    [[nodiscard]] std::string body(const JsonValue& timings) const override {
        if (error_) {
            return error_body(*error_, Dialect::kMessages, request_id_);
        }
        DI_CHECK(end_.has_value(), "a body is asked for behind the end");
        JsonValue message = message_value();
        if (!timings.is_null()) {
            message.set("timings", timings);
        }
        return json_text(message);
    }

  private:
    enum class BlockKind : uint8_t { kThinking, kText, kToolUse };

    struct Block {
        BlockKind kind = BlockKind::kText;
        std::string call_id{};  // kToolUse
        std::string name{};     // kToolUse
        std::string text{};     // of kToolUse the arguments
    };

    [[nodiscard]] static JsonObject event_object(std::string_view type) {
        JsonObject object;
        object.text("type", type);
        return object;
    }

    static void push(std::string_view name, JsonObject& object, StreamEvents& events) {
        events.push_back({.name = std::string(name), .data = json_text(object.take())});
    }

    [[nodiscard]] JsonObject block_event(std::string_view type) const {
        JsonObject object = event_object(type);
        object.integer("index", static_cast<int64_t>(blocks_.size()) - 1);
        return object;
    }

    void add_text(BlockKind kind, const std::string& text, StreamEvents& events) {
        if (text.empty()) {
            return;
        }
        if (!is_open_ || blocks_.back().kind != kind) {
            DI_CHECK(kind != BlockKind::kToolUse, "arguments belong to an open call");
            close(events);
            open(kind, events);
        }
        blocks_.back().text += text;
        if (!has_events_) {
            return;
        }
        JsonObject delta;
        switch (kind) {
            case BlockKind::kThinking: delta.text("type", "thinking_delta").text("thinking", text); break;
            case BlockKind::kText: delta.text("type", "text_delta").text("text", text); break;
            case BlockKind::kToolUse: delta.text("type", "input_json_delta").text("partial_json", text); break;
        }
        JsonObject event = block_event("content_block_delta");
        push("content_block_delta", event.value("delta", delta.take()), events);
    }

    void open(BlockKind kind, StreamEvents& events) {
        blocks_.push_back({.kind = kind});
        start(events);
    }

    void start(StreamEvents& events) {
        is_open_ = true;
        if (!has_events_) {
            return;
        }
        JsonObject event = block_event("content_block_start");
        push("content_block_start", event.value("content_block", block_value(blocks_.back(), true)), events);
        if (blocks_.size() == 1) {
            JsonObject ping = event_object("ping");
            push("ping", ping, events);
        }
    }

    void close(StreamEvents& events) {
        if (!std::exchange(is_open_, false) || !has_events_) {
            return;
        }
        if (blocks_.back().kind == BlockKind::kThinking) {
            JsonObject signature;
            signature.text("type", "signature_delta").text("signature", head_.id);
            JsonObject event = block_event("content_block_delta");
            push("content_block_delta", event.value("delta", signature.take()), events);
        }
        JsonObject event = block_event("content_block_stop");
        push("content_block_stop", event, events);
    }

    // `is_start`: as it stands before its first delta.
    [[nodiscard]] JsonValue block_value(const Block& block, bool is_start) const {
        JsonObject object;
        switch (block.kind) {
            case BlockKind::kThinking:
                object.text("type", "thinking").text("thinking", is_start ? std::string_view() : block.text);
                object.text("signature", is_start ? std::string_view() : head_.id);
                break;
            case BlockKind::kText: object.text("type", "text").text("text", is_start ? std::string_view() : block.text); break;
            case BlockKind::kToolUse:
                object.text("type", "tool_use").text("id", block.call_id).text("name", block.name);
                object.value("input", is_start ? JsonValue::object() : input_value(block.text));
                break;
        }
        return object.take();
    }

    // Arguments that are no object (cut by the length) are an empty one here; the stream has the text.
    [[nodiscard]] static JsonValue input_value(std::string_view arguments) {
        auto value = parse_json(arguments);
        return value && value->is_object() ? std::move(*value) : JsonValue::object();
    }

    [[nodiscard]] JsonValue message_value() const {
        JsonObject object;
        object.text("id", head_.id).text("type", "message").text("role", "assistant").text("model", head_.model);
        JsonValue::Array content;
        for (const Block& block : blocks_) {
            content.push_back(block_value(block, false));
        }
        object.value("content", JsonValue::array(std::move(content)));
        object.text_or_null("stop_reason", end_ ? message_stop_reason(end_->end) : std::string_view());
        object.value("stop_sequence", stop_sequence()).value("usage", usage_value());
        return object.take();
    }

    [[nodiscard]] JsonValue stop_sequence() const {
        return end_ && end_->end == AnswerEnd::kStopString ? json_string(end_->stop_text) : JsonValue();
    }

    [[nodiscard]] JsonValue usage_value() const {
        JsonObject object;
        object.integer("input_tokens", usage_.prompt_tokens - usage_.cached_tokens);
        object.integer("cache_creation_input_tokens", 0).integer("cache_read_input_tokens", usage_.cached_tokens);
        object.integer("output_tokens", usage_.completion_tokens);
        const int64_t thinking_tokens = usage_.reasoning_tokens + (usage_.has_think_end ? 1 : 0);
        object.value("output_tokens_details", JsonObject().integer("thinking_tokens", thinking_tokens).take());
        object.text("service_tier", "standard");
        return object.take();
    }

    std::string request_id_;
    AnswerHead head_;
    bool has_events_;
    std::vector<Block> blocks_;
    bool is_open_ = false;  // the last block
    AnswerUsage usage_;
    std::optional<ChoiceEnd> end_;
    std::optional<ApiError> error_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_messages_writer(const Request& request, AnswerHead head,
                                                   const AnswerWriterOptions& options) {
    return std::make_unique<MessagesWriter>(request, std::move(head), options);
}

}  // namespace di
