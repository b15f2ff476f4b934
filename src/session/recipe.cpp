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

// The output's finish; a content filter is no engine's.
Result<FinishReason> parse_finish(std::string_view name) {
    if (name == "stop") {
        return FinishReason::kStop;
    }
    if (name == "length") {
        return FinishReason::kLength;
    }
    return fail(ErrorCode::kInvalidArgument, "finish_reason: {}, expected stop or length with token_ids", short_quoted(name));
}

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

// A request that is to be answered: all that is known before the first token.
struct OpenAnswer {
    JsonValue body{};
    Request request{};
    EncodedPrompt prompt{};
    std::vector<int32_t> prompt_ids{};
    AnswerHead head{};
};

Result<AnswerHead> make_head(const JsonReader& input, const OpenAnswer& answer, Dialect dialect, const RecipeContext& context) {
    AnswerHead head;
    DI_TRY(head.id, input.string_or("id", ""));
    if (head.id.empty()) {
        for (const DialectName& known : kDialects) {
            head.id = known.dialect == dialect ? new_id(known.id_prefix, *context.random) : head.id;
        }
    }
    DI_TRY(const auto created, input.integer("created", {.low = 0, .high = std::numeric_limits<int64_t>::max()}));
    head.created_s = created.value_or(context.now_s);
    head.model = answer.request.model;
    head.fingerprint = "recipe";
    head.is_thinking = starts_in_reasoning(answer.prompt);
    head.prompt_tokens = static_cast<int64_t>(answer.prompt_ids.size());
    head.prompt_token_ids = {answer.prompt_ids};
    head.request_body = answer.body;
    return head;
}

Result<OpenAnswer> open_answer(const JsonReader& input, Dialect dialect, const RecipeContext& context) {
    OpenAnswer answer;
    DI_TRY(const JsonReader request_reader, input.required_object("request"));
    answer.body = *input.find("request");
    DI_TRY(answer.request, parse_whole_request(answer.body, dialect));
    if (answer.request.sampling.choice_count != 1) {
        return fail(ErrorCode::kInvalidArgument, "{}: {}, expected 1: one output is one choice", request_reader.path_of("n"),
                    answer.request.sampling.choice_count);
    }
    DI_TRY(answer.prompt, encode_prompt(*answer.request.conversation, ChatDialect::kV41));
    DI_TRY(answer.prompt_ids, tokenise_prompt(answer.prompt, *context.tokenizer));
    DI_TRY(answer.head, make_head(input, answer, dialect, context));
    return answer;
}

AnswerParserOptions parser_options(const OpenAnswer& answer) {
    const Request& request = answer.request;
    AnswerParserOptions options;
    options.start = answer.prompt.answer_start;
    options.may_call_tools = answer.prompt.may_call_tools;
    options.is_json_object = request.conversation->response_format.kind == ResponseFormat::Kind::kJsonObject;
    options.tools = request.conversation->tools;
    options.stop = request.sampling.stop;
    options.includes_stop_text = request.sampling.includes_stop_text;
    options.calls_max = request.allows_parallel_calls ? 0 : 1;
    return options;
}

AnswerPlan plan_of(const OpenAnswer& answer) {
    AnswerPlan plan;
    plan.prompts.resize(1);
    plan.prompts[0].prompt_token_ids = answer.prompt_ids;
    plan.is_cut_by_context = {false};
    plan.parser = parser_options(answer);
    plan.is_thinking = answer.head.is_thinking;
    return plan;
}

Status check_id(int64_t id, const Tokenizer& tokenizer, size_t index) {
    if (id < 0 || id >= tokenizer.vocabulary_size()) {
        return fail(ErrorCode::kInvalidArgument, "{}: {}, expected a token id below {}", item_path("token_ids", index), id,
                    tokenizer.vocabulary_size());
    }
    return {};
}

}  // namespace

// The pipeline of the service over one answer. The stream points into it, so it does not move.
class AnswerInSteps {
  public:
    AnswerInSteps(const OpenAnswer& answer, const RecipeContext& context, int32_t end_id, bool has_events)
        : context_(context),
          end_id_(end_id),
          answer_context_{.tokenizer = context.tokenizer,
                          .end_token_ids = {end_id},
                          .writer = {.has_events = has_events},
                          .make_call_id = [this](int32_t index) { return new_call_id(index, *context_.random); },
                          .unix_s = [this] { return context_.now_s; }},
          stream_(answer.request, plan_of(answer), answer.head, answer_context_) {}

    static Result<std::unique_ptr<AnswerInSteps>> open(const OpenAnswer& answer, const RecipeContext& context,
                                                       bool has_events) {
        const std::optional<int32_t> end_id = context.tokenizer->find(kEndToken);
        if (!end_id) {
            return fail(ErrorCode::kUnsupported, "the tokenizer has no {}, expected one", kEndToken);
        }
        return std::make_unique<AnswerInSteps>(answer, context, *end_id, has_events);
    }

    // As one step of an engine. The end token of an output that stopped is added where it is missing.
    StreamEvents take(std::span<const int32_t> ids, FinishReason finish) {
        StepOutput step;
        step.token_ids.assign(ids.begin(), ids.end());
        step.finish = finish;
        last_id_ = ids.empty() ? last_id_ : ids.back();
        if (finish == FinishReason::kStop && last_id_ != end_id_) {
            step.token_ids.push_back(end_id_);
        }
        StreamEvents events;
        stream_.take(0, step, events);
        return events;
    }

    [[nodiscard]] const Tokenizer& tokenizer() const { return *context_.tokenizer; }
    [[nodiscard]] bool is_over() const { return stream_.is_over(); }
    [[nodiscard]] std::string body() { return stream_.body(false); }

  private:
    RecipeContext context_;
    int32_t end_id_;
    int32_t last_id_ = -1;
    AnswerContext answer_context_;
    AnswerStream stream_;
};

RecipeAnswer::RecipeAnswer(std::unique_ptr<AnswerInSteps> steps) : steps_(std::move(steps)) {}
RecipeAnswer::RecipeAnswer(RecipeAnswer&& other) noexcept = default;
RecipeAnswer& RecipeAnswer::operator=(RecipeAnswer&& other) noexcept = default;
RecipeAnswer::~RecipeAnswer() = default;

Result<RecipeAnswer> RecipeAnswer::open(std::string_view input_json, Dialect dialect, const RecipeContext& context) {
    DI_TRY(const JsonValue value, parse_json(input_json));
    DI_TRY(const JsonReader input, JsonReader::open(value, ""));
    DI_TRY(const OpenAnswer answer, open_answer(input, dialect, context));
    DI_TRY(std::unique_ptr<AnswerInSteps> steps, AnswerInSteps::open(answer, context, true));
    return RecipeAnswer(std::move(steps));
}

Result<StreamEvents> RecipeAnswer::push(std::span<const int32_t> token_ids) {
    for (size_t i = 0; i < token_ids.size(); ++i) {
        DI_TRY_STATUS(check_id(token_ids[i], steps_->tokenizer(), i));
    }
    return steps_->take(token_ids, FinishReason::kNone);
}

Result<StreamEvents> RecipeAnswer::finish(std::string_view reason) {
    DI_TRY(const FinishReason finish, parse_finish(reason));
    return steps_->take({}, finish);
}

bool RecipeAnswer::is_over() const { return steps_->is_over(); }

Result<std::string> RecipeAnswer::body() {
    if (!steps_->is_over()) {
        return fail(ErrorCode::kInvalidArgument, "the answer is not over, expected finish() first");
    }
    return steps_->body();
}

namespace {

// With one step for the whole output. `events`: nullptr where the body alone is wanted.
Result<std::string> decode_ids(const OpenAnswer& answer, const ModelOutput& output, const RecipeContext& context,
                               StreamEvents* events) {
    if (output.is_filtered) {
        return fail(ErrorCode::kInvalidArgument, "finish_reason: content_filter, expected stop or length with token_ids");
    }
    DI_TRY(const auto whole, AnswerInSteps::open(answer, context, events != nullptr));
    StreamEvents made = whole->take(output.token_ids, output.finish);
    if (events != nullptr) {
        *events = std::move(made);
    }
    return whole->body();
}

AnswerDelta delta_of(AnswerEvent piece, Random& random) {
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
        delta.call_id = new_call_id(piece.call_index, random);
    }
    return delta;
}

AnswerEnd end_of(const ModelOutput& output, const AnswerParser& parser, bool is_whole) {
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

// Tokens are not known: the counts are those that the text would have.
Result<AnswerUsage> usage_of(const std::string& text, const AnswerHead& head, const RecipeContext& context) {
    DI_TRY(const std::vector<int32_t> ids, context.tokenizer->encode_special(text));
    AnswerUsage usage;
    usage.prompt_tokens = head.prompt_tokens;
    usage.completion_tokens = static_cast<int64_t>(ids.size());
    usage.completed_s = context.now_s;
    const std::optional<int32_t> think_end = context.tokenizer->find(kThinkEndToken);
    for (const int32_t id : ids) {
        usage.has_think_end = usage.has_think_end || (head.is_thinking && id == think_end);
        usage.reasoning_tokens += head.is_thinking && !usage.has_think_end ? 1 : 0;
    }
    return usage;
}

Result<std::string> decode_text(const OpenAnswer& answer, const ModelOutput& output, const RecipeContext& context,
                                StreamEvents* wanted_events) {
    AnswerParserOptions options = parser_options(answer);
    options.finds_markers_in_text = true;
    AnswerParser parser(options);
    std::vector<AnswerEvent> pieces;
    parser.push_text(*output.text, pieces);
    // A stop string or the last call may end the answer before the output ends.
    const bool is_whole = !parser.is_over();
    if (is_whole) {
        parser.finish(output.is_filtered || output.finish == FinishReason::kLength, pieces);
    }
    StreamEvents unheard;
    StreamEvents& events = wanted_events == nullptr ? unheard : *wanted_events;
    const auto writer = make_answer_writer(answer.request, answer.head, {.has_events = wanted_events != nullptr});
    writer->begin(events);
    for (AnswerEvent& piece : pieces) {
        writer->delta(delta_of(std::move(piece), *context.random), events);
    }
    ChoiceEnd end;
    end.end = end_of(output, parser, is_whole);
    if (parser.matched_stop()) {
        end.stop_text = answer.request.sampling.stop[*parser.matched_stop()];
    }
    writer->end_choice(end, events);
    DI_TRY(const AnswerUsage usage, usage_of(*output.text, answer.head, context));
    writer->end(usage, events);
    return writer->body({});
}

}  // namespace

Result<std::string> recipe_decode(std::string_view input_json, Dialect dialect, bool is_stream, const RecipeContext& context) {
    DI_TRY(const JsonValue value, parse_json(input_json));
    DI_TRY(const JsonReader input, JsonReader::open(value, ""));
    DI_TRY(const OpenAnswer answer, open_answer(input, dialect, context));
    DI_TRY(const ModelOutput output, parse_output(input, *context.tokenizer));
    StreamEvents events;
    StreamEvents* wanted = is_stream ? &events : nullptr;
    DI_TRY(std::string whole,
           output.text ? decode_text(answer, output, context, wanted) : decode_ids(answer, output, context, wanted));
    if (!is_stream) {
        return whole;
    }
    std::string text;
    for (const StreamEvent& event : events) {
        text += event_text(event);
    }
    return text;
}

}  // namespace di
