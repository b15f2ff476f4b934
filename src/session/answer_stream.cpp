#include "session/answer_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/chat_tokens.h"

namespace di {
namespace {

AnswerDelta::Kind delta_kind(AnswerEvent::Kind kind) {
    switch (kind) {
        case AnswerEvent::Kind::kReasoning: return AnswerDelta::Kind::kReasoning;
        case AnswerEvent::Kind::kContent: return AnswerDelta::Kind::kContent;
        case AnswerEvent::Kind::kCallBegin: return AnswerDelta::Kind::kCallBegin;
        case AnswerEvent::Kind::kCallArguments: return AnswerDelta::Kind::kCallArguments;
        case AnswerEvent::Kind::kCallEnd: return AnswerDelta::Kind::kCallEnd;
    }
    return AnswerDelta::Kind::kContent;
}

std::vector<TopLogprob> top_entries(const Tokenizer& tokenizer, const std::vector<TokenLogprob>& tokens, int64_t count_max) {
    std::vector<TopLogprob> entries;
    for (const TokenLogprob& token : tokens) {
        if (static_cast<int64_t>(entries.size()) == count_max) {
            break;
        }
        entries.push_back({.bytes = std::string(tokenizer.token_bytes(token.token_id)), .logprob = token.logprob});
    }
    return entries;
}

}  // namespace

// One sample of one prompt.
class AnswerStream::Choice {
  public:
    Choice(int32_t index, const Request& request, const AnswerPlan& plan, const AnswerContext& context)
        : index_(index),
          request_(&request),
          context_(&context),
          is_raw_(plan.is_raw),
          detokenizer_(*context.tokenizer, !plan.is_raw || request.sampling.skips_special_tokens),
          parser_(plan.parser) {
        if (!plan.is_raw) {
            think_ = context.tokenizer->find(kThinkToken);
            think_end_ = context.tokenizer->find(kThinkEndToken);
            marker_ = context.tokenizer->find(kToolMarkerToken);
        }
    }

    // Tokens behind the end of the answer (a stop string, the last call) are no part of it.
    void take(const StepOutput& output) {
        for (size_t i = 0; i < output.token_ids.size() && !parser_.is_over(); ++i) {
            take_token(output, i);
        }
    }

    void finish(bool is_cut) {
        if (!parser_.is_over()) {
            parser_.push_text(detokenizer_.finish(), events_);
            parser_.finish(is_cut, events_);
        }
        is_ended_ = true;
    }

    // What became final since the last call, joined where it is of one kind.
    [[nodiscard]] std::vector<AnswerDelta> take_deltas() {
        std::vector<AnswerDelta> deltas;
        for (AnswerEvent& event : events_) {
            const AnswerDelta::Kind kind = delta_kind(event.kind);
            const bool is_text = kind != AnswerDelta::Kind::kCallBegin && kind != AnswerDelta::Kind::kCallEnd;
            if (is_text && !deltas.empty() && deltas.back().kind == kind && deltas.back().call_index == event.call_index) {
                deltas.back().text += event.text;
                continue;
            }
            AnswerDelta& delta = deltas.emplace_back();
            delta.choice = index_;
            delta.kind = kind;
            delta.text = std::move(event.text);
            delta.call_index = event.call_index;
            if (kind == AnswerDelta::Kind::kCallBegin) {
                delta.call_id = context_->make_call_id(event.call_index);
            }
        }
        events_.clear();
        attach(deltas);
        return deltas;
    }

    [[nodiscard]] ChoiceEnd end_of(const StepOutput& output, bool is_cut_by_context) const {
        ChoiceEnd end{.choice = index_};
        if (const std::optional<size_t> stop = parser_.matched_stop()) {
            end.end = AnswerEnd::kStopString;
            end.stop_text = request_->sampling.stop[*stop];
        } else if (!parser_.is_over() && output.finish == FinishReason::kLength) {
            end.end = is_cut_by_context ? AnswerEnd::kContextFull : AnswerEnd::kLength;
        } else if (parser_.call_count() > 0) {
            end.end = AnswerEnd::kToolCalls;
        } else if (is_own_stop_token(last_id_)) {
            end.end = AnswerEnd::kStopToken;
            end.stop_token_id = last_id_;
        }
        return end;
    }

    // Behind the last deltas.
    [[nodiscard]] std::vector<int32_t> take_token_ids() { return std::exchange(token_ids_, {}); }

    [[nodiscard]] bool is_over() const { return parser_.is_over(); }
    [[nodiscard]] bool is_ended() const { return is_ended_; }
    [[nodiscard]] int64_t tokens() const { return tokens_; }
    [[nodiscard]] int64_t reasoning_tokens() const { return reasoning_tokens_; }
    [[nodiscard]] bool has_think_end() const { return has_think_end_; }

    AnswerEnd ended_by = AnswerEnd::kStop;  // behind is_ended()

  private:
    void take_token(const StepOutput& output, size_t i) {
        const int32_t id = output.token_ids[i];
        last_id_ = id;
        ++tokens_;
        if (request_->returns_token_ids) {
            token_ids_.push_back(id);
        }
        const AnswerParser::Region region = parser_.region();
        const bool ends_reasoning = region == AnswerParser::Region::kReasoning && id == think_end_;
        has_think_end_ = has_think_end_ || ends_reasoning;
        reasoning_tokens_ += region == AnswerParser::Region::kReasoning && !ends_reasoning && !is_raw_ ? 1 : 0;
        const bool is_end = is_end_token(output, i);
        if (i < output.logprobs.size() && region == AnswerParser::Region::kContent && !is_end && !is_marker(id)) {
            logprobs_.push_back(
                {.bytes = std::string(context_->tokenizer->token_bytes(id)),
                 .logprob = output.logprobs[i],
                 .top = i < output.top_logprobs.size()
                            ? top_entries(*context_->tokenizer, output.top_logprobs[i], request_->sampling.top_logprob_count)
                            : std::vector<TopLogprob>{}});
        }
        if (is_end) {
            return;
        }
        if (!is_raw_ && is_marker(id)) {
            parser_.push_text(detokenizer_.finish(), events_);
            parser_.push_marker(id == think_end_ ? AnswerMarker::kThinkEnd
                                : id == marker_  ? AnswerMarker::kToolMarker
                                                 : AnswerMarker::kThink,
                                events_);
            return;
        }
        parser_.push_text(detokenizer_.push(id), events_);
    }

    // Only the last token of an output that the model ended; its text is no part of the answer.
    [[nodiscard]] static bool is_end_token(const StepOutput& output, size_t i) {
        return output.finish == FinishReason::kStop && i + 1 == output.token_ids.size();
    }
    [[nodiscard]] bool is_marker(int32_t id) const { return !is_raw_ && (id == think_ || id == think_end_ || id == marker_); }
    [[nodiscard]] bool is_own_stop_token(int32_t id) const {
        const auto has = [id](const std::vector<int32_t>& ids) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
        return has(request_->sampling.stop_token_ids) && !has(context_->end_token_ids);
    }

    // Log-probabilities go with the first piece of answer text that they can belong to, token ids with the first piece of
    // any kind.
    void attach(std::vector<AnswerDelta>& deltas) {
        const auto content = std::find_if(deltas.begin(), deltas.end(),
                                          [](const AnswerDelta& delta) { return delta.kind == AnswerDelta::Kind::kContent; });
        if (content != deltas.end()) {
            content->logprobs = std::exchange(logprobs_, {});
        } else if (parser_.region() != AnswerParser::Region::kContent) {
            logprobs_.clear();  // text that turned out to be the beginning of a call
        }
        if (!deltas.empty()) {
            deltas.front().token_ids = std::exchange(token_ids_, {});
        }
    }

    int32_t index_;
    const Request* request_;
    const AnswerContext* context_;
    bool is_raw_;
    Detokenizer detokenizer_;
    AnswerParser parser_;
    std::optional<int32_t> think_;
    std::optional<int32_t> think_end_;
    std::optional<int32_t> marker_;
    std::vector<AnswerEvent> events_;
    std::vector<LogprobEntry> logprobs_;  // of answer tokens whose text is still held back
    std::vector<int32_t> token_ids_;      // likewise
    int32_t last_id_ = -1;
    int64_t tokens_ = 0;
    int64_t reasoning_tokens_ = 0;
    bool has_think_end_ = false;
    bool is_ended_ = false;
};

AnswerStream::AnswerStream(Request request, const AnswerPlan& plan, AnswerHead head, const AnswerContext& context)
    : request_(std::move(request)),
      head_(std::move(head)),
      context_(&context),
      is_cut_by_context_(plan.is_cut_by_context),
      samples_(plan.samples),
      has_reported_(plan.prompts.size(), false) {
    head_.is_thinking = plan.is_thinking;
    head_.choice_count = static_cast<int32_t>(plan.prompts.size()) * samples_;
    head_.prompt_tokens = plan.prompt_tokens();
    usage_.prompt_tokens = head_.prompt_tokens;
    for (const TokenRequest& prompt : plan.prompts) {
        if (prompt.sampling.prompt_logprobs) {
            head_.prompt_logprobs.resize(plan.prompts.size());
            PromptLogprob& first = head_.prompt_logprobs[static_cast<size_t>(&prompt - plan.prompts.data())].emplace_back();
            first.token_id = prompt.prompt_token_ids.front();
        }
        if (prompt.sampling.prompt_logprobs || request_.returns_token_ids || request_.echoes_prompt) {
            head_.prompt_token_ids.push_back(prompt.prompt_token_ids);
        }
        if (request_.echoes_prompt) {
            head_.echo_texts.push_back(context.tokenizer->decode(prompt.prompt_token_ids, true));
        }
    }
    for (int32_t i = 0; i < head_.choice_count; ++i) {
        choices_.push_back(std::make_unique<Choice>(i, request_, plan, context));
    }
}

AnswerStream::~AnswerStream() = default;

AnswerWriter& AnswerStream::writer() {
    if (writer_ == nullptr) {
        JsonValue request_body = std::exchange(head_.request_body, {});  // the writer alone reads it, and it may be large
        AnswerHead head = head_;
        head.request_body = std::move(request_body);
        if (!request_.returns_token_ids) {
            head.prompt_token_ids.clear();
        }
        AnswerWriterOptions options = context_->writer;
        options.has_events = options.has_events || request_.stream.is_streaming || request_.is_background;
        writer_ = make_answer_writer(request_, std::move(head), options);
    }
    return *writer_;
}

void AnswerStream::begin(StreamEvents& events) {
    DI_CHECK(!has_begun_, "an answer begins once");
    has_begun_ = true;
    writer().begin(events);
}

// What the first record of a prompt says of the prompt itself.
void AnswerStream::take_prompt(size_t prompt_index, const StepOutput& output) {
    if (has_reported_[prompt_index]) {
        return;
    }
    has_reported_[prompt_index] = true;
    usage_.cached_tokens += output.usage.cached_tokens;
    head_.cached_tokens = usage_.cached_tokens;
    if (head_.prompt_logprobs.empty() || output.prompt_logprobs.empty()) {
        return;
    }
    const std::vector<int32_t>& ids = head_.prompt_token_ids[prompt_index];
    std::vector<PromptLogprob>& all = head_.prompt_logprobs[prompt_index];
    all.clear();
    for (size_t i = 0; i < ids.size(); ++i) {
        PromptLogprob& entry = all.emplace_back();
        entry.token_id = ids[i];
        entry.bytes = std::string(context_->tokenizer->token_bytes(ids[i]));
        if (i > 0 && i <= output.prompt_logprobs.size()) {
            entry.logprob = output.prompt_logprobs[i - 1];
        }
        if (i > 0 && i <= output.top_prompt_logprobs.size()) {
            entry.top = top_entries(*context_->tokenizer, output.top_prompt_logprobs[i - 1], kTopLogprobsMax);
        }
    }
}

void AnswerStream::take(size_t prompt_index, const StepOutput& output, StreamEvents& events) {
    if (is_over_) {
        return;
    }
    if (output.finish == FinishReason::kError) {
        DI_CHECK(output.error.has_value(), "a failed request says why");
        fail(api_error_of(*output.error), events);
        return;
    }
    take_prompt(prompt_index, output);
    if (!has_begun_ && !head_.prompt_logprobs.empty() &&
        std::find(has_reported_.begin(), has_reported_.end(), false) != has_reported_.end()) {
        held_.push_back({.prompt_index = prompt_index, .output = output});
        return;
    }
    if (!has_begun_) {
        begin(events);
    }
    for (const Record& record : std::exchange(held_, {})) {
        take_record(record.prompt_index, record.output, events);
    }
    take_record(prompt_index, output, events);
}

void AnswerStream::take_record(size_t prompt_index, const StepOutput& output, StreamEvents& events) {
    Choice& choice = *choices_[choice_index(prompt_index, output.sample_index)];
    if (choice.is_ended()) {
        return;
    }
    choice.take(output);
    drafted_ += static_cast<int64_t>(output.draft_token_ids.size());
    accepted_ += output.accepted_drafts;
    if (choice.is_over() || output.finish != FinishReason::kNone) {
        end_choice(choice, prompt_index, output, events);
        return;
    }
    write(choice.take_deltas(), events);
}

void AnswerStream::write(std::vector<AnswerDelta> deltas, StreamEvents& events) {
    for (AnswerDelta& delta : deltas) {
        if (request_.stream.has_continuous_usage) {
            delta.usage = usage_so_far();
        }
        writer().delta(delta, events);
    }
}

AnswerUsage AnswerStream::usage_so_far() const {
    AnswerUsage usage = usage_;
    usage.completion_tokens = 0;
    usage.reasoning_tokens = 0;
    for (const std::unique_ptr<Choice>& choice : choices_) {
        usage.completion_tokens += choice->tokens();
        usage.reasoning_tokens += choice->reasoning_tokens();
        usage.has_think_end = usage.has_think_end || choice->has_think_end();
    }
    return usage;
}

void AnswerStream::end_choice(Choice& choice, size_t prompt_index, const StepOutput& output, StreamEvents& events) {
    ChoiceEnd end = choice.end_of(output, is_cut_by_context_[prompt_index]);
    choice.finish(end.end == AnswerEnd::kLength || end.end == AnswerEnd::kContextFull);
    choice.ended_by = end.end;
    write(choice.take_deltas(), events);
    end.token_ids = choice.take_token_ids();
    if (request_.stream.has_continuous_usage) {
        end.usage = usage_so_far();
    }
    timing_ = output.timing;
    writer().end_choice(end, events);
    is_over_ = std::all_of(choices_.begin(), choices_.end(), [](const auto& other) { return other->is_ended(); });
    if (is_over_) {
        usage_ = usage_so_far();
        usage_.completed_s = context_->unix_s();
        writer().end(usage_, events);
    }
}

void AnswerStream::fail(const ApiError& error, StreamEvents& events) {
    if (is_over_) {
        return;
    }
    is_over_ = true;
    error_ = error;
    usage_ = usage_so_far();
    StreamEvents unheard;  // a client that has heard nothing yet gets a status instead
    if (has_begun_ || request_.dialect == Dialect::kResponses) {
        writer().fail(error, has_begun_ ? events : unheard);
    }
}

void AnswerStream::cancel(StreamEvents& events) {
    if (is_over_) {
        return;
    }
    is_over_ = true;
    usage_ = usage_so_far();
    StreamEvents unheard;
    if (has_begun_ || request_.dialect == Dialect::kResponses) {
        writer().cancel(has_begun_ ? events : unheard);
    }
}

bool AnswerStream::is_sample_over(size_t prompt_index, int32_t sample_index) const {
    return is_over_ || choices_[choice_index(prompt_index, sample_index)]->is_ended();
}

std::string_view AnswerStream::keep_alive() const { return has_begun_ ? writer_->keep_alive() : std::string_view{}; }

std::string AnswerStream::body(bool with_timings) {
    DI_CHECK((is_over_ && has_begun_) || request_.dialect == Dialect::kResponses,
             "a body is asked for behind the end of an answer that has begun");
    if (!with_timings) {
        return writer().body({});
    }
    const auto number = [](double value) { return JsonValue::number({.spelling = python_float_text(value)}); };
    JsonValue timings = JsonValue::object();
    timings.set("queue_ms", number(timing_.queue_ms));
    timings.set("prefill_ms", number(timing_.prefill_ms));
    timings.set("first_token_ms", number(timing_.first_token_ms));
    timings.set("total_ms", number(timing_.total_ms));
    timings.set("drafted_tokens", JsonValue::integer(drafted_));
    timings.set("accepted_tokens", JsonValue::integer(accepted_));
    return writer().body(timings);
}

AnswerEnd AnswerStream::end_of_first() const { return choices_.front()->ended_by; }

}  // namespace di
