#include "session/recipe.h"

#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "api/answer_writer.h"
#include "api/chat_request.h"
#include "api/ids.h"
#include "api/json_reader.h"
#include "api/json_writing.h"
#include "api/limits.h"
#include "api/messages_request.h"
#include "api/responses_request.h"
#include "session/answer_stream.h"
#include "text/chat_encoding.h"
#include "text/chat_tokens.h"

namespace di {
namespace {

struct DialectName {
    std::string_view name;
    Dialect dialect;
    std::string_view id_prefix;
};

constexpr std::array kDialects = {
    DialectName{"chat", Dialect::kChat, kChatIdPrefix},
    DialectName{"responses", Dialect::kResponses, kResponseIdPrefix},
    DialectName{"messages", Dialect::kMessages, kMessageIdPrefix},
};

Result<Request> parse_request(const JsonValue& body, Dialect dialect) {
    switch (dialect) {
        case Dialect::kChat: return parse_chat_request(body);
        case Dialect::kResponses: return parse_responses_request(body);
        case Dialect::kMessages: return parse_messages_request(body);
        case Dialect::kCompletions: break;
    }
    return fail(ErrorCode::kInvalidArgument, "completions have no recipe, expected chat, responses or messages");
}

// A conversation that is all there: nothing here has a store.
Result<Request> parse_whole_request(const JsonValue& body, Dialect dialect) {
    DI_TRY(Request request, parse_request(body, dialect));
    if (!request.previous_response_id.empty()) {
        return fail(ErrorCode::kInvalidArgument, "previous_response_id: {}, expected none: there is no store here",
                    short_quoted(request.previous_response_id));
    }
    return request;
}

std::string_view start_name(AnswerStart start) {
    switch (start) {
        case AnswerStart::kReasoning: return "reasoning_new";
        case AnswerStart::kReasoningContinued: return "reasoning_continued";
        case AnswerStart::kContent: return "content_new";
        case AnswerStart::kContentContinued: return "content_continued";
        case AnswerStart::kCalls: return "calls";
    }
    return "content_new";
}

bool starts_in_reasoning(const EncodedPrompt& prompt) {
    return prompt.answer_start == AnswerStart::kReasoning || prompt.answer_start == AnswerStart::kReasoningContinued;
}

// The text of a client never becomes the image token, so the tokens that do stand there are the images in order.
JsonValue images_value(const EncodedPrompt& prompt, const std::vector<int32_t>& ids, const Conversation& conversation,
                       const Tokenizer& tokenizer) {
    const std::optional<int32_t> image_id = tokenizer.find(kImageToken);
    JsonValue::Array images;
    size_t at = 0;
    for (const ImageReference& image : prompt.images) {
        while (at < ids.size() && ids[at] != image_id) {
            ++at;
        }
        const Message& message = conversation.messages[static_cast<size_t>(image.message_index)];
        const ContentPart& part = message.parts[static_cast<size_t>(image.part_index)];
        JsonObject object;
        object.text("path", part.path).text("url", part.image_url);
        images.push_back(object.integer("token_index", static_cast<int64_t>(at)).take());
        ++at;
    }
    return JsonValue::array(std::move(images));
}

struct ModelOutput {
    std::vector<int32_t> token_ids{};
    std::optional<std::string> text{};  // instead of ids
    FinishReason finish = FinishReason::kStop;
    bool is_filtered = false;
};

Result<ModelOutput> parse_output(const JsonReader& input, const Tokenizer& tokenizer) {
    ModelOutput output;
    DI_TRY(output.text, input.string("text"));
    DI_TRY(const auto* ids, input.array("token_ids", kTokenListMax));
    if (output.text.has_value() == (ids != nullptr)) {
        return input.wrong("token_ids", "either token_ids or text");
    }
    for (size_t i = 0; ids != nullptr && i < ids->size(); ++i) {
        const std::optional<int64_t> id = (*ids)[i].as_int64();
        if (!id || *id < 0 || *id >= tokenizer.vocabulary_size()) {
            return fail(ErrorCode::kInvalidArgument, "{}: {}, expected a token id below {}",
                        item_path(input.path_of("token_ids"), i), short_json_text((*ids)[i]), tokenizer.vocabulary_size());
        }
        output.token_ids.push_back(static_cast<int32_t>(*id));
    }
    DI_TRY(const auto finish, input.string_or("finish_reason", "stop"));
    if (finish == "length") {
        output.finish = FinishReason::kLength;
    } else if (finish == "content_filter") {
        output.is_filtered = true;
    } else if (finish != "stop") {
        return input.wrong("finish_reason", "stop, length or content_filter");
    }
    return output;
}

}  // namespace

Result<Dialect> parse_recipe_dialect(std::string_view name) {
    for (const DialectName& known : kDialects) {
        if (known.name == name) {
            return known.dialect;
        }
    }
    return fail(ErrorCode::kInvalidArgument, "dialect {}, expected chat, responses or messages", short_quoted(name));
}

Result<std::string> recipe_encode(std::string_view request_json, Dialect dialect, const RecipeContext& context) {
    DI_TRY(const JsonValue body, parse_json(request_json));
    DI_TRY(const Request request, parse_whole_request(body, dialect));
    DI_TRY(const EncodedPrompt prompt, encode_prompt(*request.conversation, ChatDialect::kV41));
    DI_TRY(const std::vector<int32_t> ids, tokenise_prompt(prompt, *context.tokenizer));
    JsonValue::Array ranges;
    for (const SpecialRange& range : prompt.special_ranges) {
        ranges.push_back(JsonValue::array({JsonValue::integer(range.begin), JsonValue::integer(range.end)}));
    }
    JsonObject object;
    object.text("prompt", prompt.text).value("token_ids", json_integers(ids));
    object.value("special_ranges", JsonValue::array(std::move(ranges)));
    object.value("images", images_value(prompt, ids, *request.conversation, *context.tokenizer));
    object.boolean("is_thinking", starts_in_reasoning(prompt)).text("answer_start", start_name(prompt.answer_start));
    object.boolean("may_call_tools", prompt.may_call_tools).boolean("must_call_tools", prompt.must_call_tools);
    return json_text(object.take());
}

namespace {

// One answer that is all there, through the pipeline of the service.
class Decoder {
  public:
    Decoder(const JsonReader& input, Dialect dialect, const RecipeContext& context)
        : input_(input), dialect_(dialect), context_(context) {}

    Result<std::string> decode(bool is_stream) {
        DI_TRY(const JsonReader request_reader, input_.required_object("request"));
        body_ = *input_.find("request");
        DI_TRY(request_, parse_whole_request(body_, dialect_));
        if (request_.sampling.choice_count != 1) {
            return fail(ErrorCode::kInvalidArgument, "{}: {}, expected 1: one output is one choice",
                        request_reader.path_of("n"), request_.sampling.choice_count);
        }
        DI_TRY(prompt_, encode_prompt(*request_.conversation, ChatDialect::kV41));
        DI_TRY(prompt_ids_, tokenise_prompt(prompt_, *context_.tokenizer));
        DI_TRY(ModelOutput output, parse_output(input_, *context_.tokenizer));
        DI_TRY(AnswerHead head, make_head());
        StreamEvents events;
        std::string whole;
        DI_TRY(whole, output.text ? decode_text(output, std::move(head), events) : decode_ids(output, std::move(head), events));
        if (!is_stream) {
            return whole;
        }
        std::string text;
        for (const StreamEvent& event : events) {
            text += event_text(event);
        }
        return text;
    }

  private:
    Result<AnswerHead> make_head() const {
        AnswerHead head;
        DI_TRY(head.id, input_.string_or("id", ""));
        if (head.id.empty()) {
            for (const DialectName& known : kDialects) {
                head.id = known.dialect == dialect_ ? new_id(known.id_prefix, *context_.random) : head.id;
            }
        }
        DI_TRY(const auto created, input_.integer("created", {.low = 0, .high = std::numeric_limits<int64_t>::max()}));
        head.created_s = created.value_or(context_.now_s);
        head.model = request_.model;
        head.fingerprint = "recipe";
        head.is_thinking = starts_in_reasoning(prompt_);
        head.prompt_tokens = static_cast<int64_t>(prompt_ids_.size());
        head.prompt_token_ids = {prompt_ids_};
        head.request_body = body_;
        return head;
    }

    [[nodiscard]] AnswerParserOptions parser_options() const {
        AnswerParserOptions options;
        options.start = prompt_.answer_start;
        options.may_call_tools = prompt_.may_call_tools;
        options.is_json_object = request_.conversation->response_format.kind == ResponseFormat::Kind::kJsonObject;
        options.tools = request_.conversation->tools;
        options.stop = request_.sampling.stop;
        options.includes_stop_text = request_.sampling.includes_stop_text;
        options.calls_max = request_.allows_parallel_calls ? 0 : 1;
        return options;
    }

    [[nodiscard]] std::string make_call_id(int32_t index) const { return new_call_id(index, *context_.random); }

    Result<std::string> decode_ids(const ModelOutput& output, AnswerHead head, StreamEvents& events) {
        if (output.is_filtered) {
            return fail(ErrorCode::kInvalidArgument, "finish_reason: content_filter, expected stop or length with token_ids");
        }
        const std::optional<int32_t> end_id = context_.tokenizer->find(kEndToken);
        if (!end_id) {
            return fail(ErrorCode::kUnsupported, "the tokenizer has no {}, expected one", kEndToken);
        }
        StepOutput step;
        step.token_ids = output.token_ids;
        step.finish = output.finish;
        if (step.finish == FinishReason::kStop && (step.token_ids.empty() || step.token_ids.back() != *end_id)) {
            step.token_ids.push_back(*end_id);
        }
        AnswerPlan plan;
        plan.prompts.resize(1);
        plan.prompts[0].prompt_token_ids = prompt_ids_;
        plan.is_cut_by_context = {false};
        plan.parser = parser_options();
        plan.is_thinking = head.is_thinking;
        const AnswerContext answer_context{.tokenizer = context_.tokenizer,
                                           .end_token_ids = {*end_id},
                                           .writer = {},
                                           .make_call_id = [this](int32_t index) { return make_call_id(index); },
                                           .unix_s = [this] { return context_.now_s; }};
        AnswerStream stream(request_, plan, std::move(head), answer_context);
        stream.take(0, step, events);
        return stream.body(false);
    }

    // Tokens are not known: the counts of the answer are those that the text would have.
    Result<std::string> decode_text(const ModelOutput& output, AnswerHead head, StreamEvents& events) {
        AnswerParserOptions options = parser_options();
        options.finds_markers_in_text = true;
        const bool is_thinking = head.is_thinking;
        AnswerParser parser(options);
        std::vector<AnswerEvent> pieces;
        parser.push_text(*output.text, pieces);
        // A stop string or the last call may end the answer before the output ends.
        const bool is_whole = !parser.is_over();
        if (is_whole) {
            parser.finish(output.is_filtered || output.finish == FinishReason::kLength, pieces);
        }
        const auto writer = make_answer_writer(request_, std::move(head), {});
        writer->begin(events);
        for (AnswerEvent& piece : pieces) {
            writer->delta(delta_of(std::move(piece)), events);
        }
        ChoiceEnd end;
        end.end = end_of(output, parser, is_whole);
        if (parser.matched_stop()) {
            end.stop_text = request_.sampling.stop[*parser.matched_stop()];
        }
        writer->end_choice(end, events);
        DI_TRY(const AnswerUsage usage, usage_of(*output.text, is_thinking));
        writer->end(usage, events);
        return writer->body({});
    }

    [[nodiscard]] AnswerDelta delta_of(AnswerEvent piece) const {
        AnswerDelta delta;
        switch (piece.kind) {
            case AnswerEvent::Kind::kReasoning: delta.kind = AnswerDelta::Kind::kReasoning; break;
            case AnswerEvent::Kind::kContent: delta.kind = AnswerDelta::Kind::kContent; break;
            case AnswerEvent::Kind::kCallBegin: delta.kind = AnswerDelta::Kind::kCallBegin; break;
            case AnswerEvent::Kind::kCallArguments: delta.kind = AnswerDelta::Kind::kCallArguments; break;
            case AnswerEvent::Kind::kCallEnd: delta.kind = AnswerDelta::Kind::kCallEnd; break;
        }
        delta.text = std::move(piece.text);
        delta.call_index = piece.call_index;
        if (delta.kind == AnswerDelta::Kind::kCallBegin) {
            delta.call_id = make_call_id(piece.call_index);
        }
        return delta;
    }

    [[nodiscard]] static AnswerEnd end_of(const ModelOutput& output, const AnswerParser& parser, bool is_whole) {
        if (parser.matched_stop()) {
            return AnswerEnd::kStopString;
        }
        if (is_whole && output.is_filtered) {
            return AnswerEnd::kContentFilter;
        }
        if (is_whole && output.finish == FinishReason::kLength) {
            return AnswerEnd::kLength;
        }
        return parser.call_count() > 0 ? AnswerEnd::kToolCalls : AnswerEnd::kStop;
    }

    Result<AnswerUsage> usage_of(const std::string& text, bool is_thinking) const {
        DI_TRY(const std::vector<int32_t> ids, context_.tokenizer->encode_special(text));
        AnswerUsage usage;
        usage.prompt_tokens = static_cast<int64_t>(prompt_ids_.size());
        usage.completion_tokens = static_cast<int64_t>(ids.size());
        usage.completed_s = context_.now_s;
        const std::optional<int32_t> think_end = context_.tokenizer->find(kThinkEndToken);
        for (const int32_t id : ids) {
            usage.has_think_end = usage.has_think_end || (is_thinking && id == think_end);
            usage.reasoning_tokens += is_thinking && !usage.has_think_end ? 1 : 0;
        }
        return usage;
    }

    const JsonReader& input_;
    Dialect dialect_;
    const RecipeContext& context_;
    JsonValue body_;
    Request request_;
    EncodedPrompt prompt_;
    std::vector<int32_t> prompt_ids_;
};

}  // namespace

Result<std::string> recipe_decode(std::string_view input_json, Dialect dialect, bool is_stream, const RecipeContext& context) {
    DI_TRY(const JsonValue value, parse_json(input_json));
    DI_TRY(const JsonReader input, JsonReader::open(value, ""));
    return Decoder(input, dialect, context).decode(is_stream);
}

}  // namespace di
