#include <utility>

#include "api/answer_writers.h"

namespace di {
namespace {

// Where reasoning is part of the content: what the model itself writes between the two.
constexpr std::string_view kThinkEnd = "</think>";

class ReasoningShaper : public AnswerWriter {
  public:
    ReasoningShaper(const Request& request, std::unique_ptr<AnswerWriter> writer, int32_t choice_count)
        : includes_(request.includes_reasoning),
          separates_(request.separates_reasoning),
          streams_(request.streams_reasoning),
          writer_(std::move(writer)),
          choices_(static_cast<size_t>(choice_count)) {}

    void begin(StreamEvents& events) override { writer_->begin(events); }

    void delta(const AnswerDelta& delta, StreamEvents& events) override {
        Choice& choice = choices_[static_cast<size_t>(delta.choice)];
        if (delta.kind == AnswerDelta::Kind::kReasoning) {
            add_reasoning(delta, choice, events);
            return;
        }
        close_reasoning(delta.choice, events);
        if (choice.held_token_ids.empty()) {
            writer_->delta(delta, events);
            return;
        }
        AnswerDelta longer = delta;
        longer.token_ids.insert(longer.token_ids.begin(), choice.held_token_ids.begin(), choice.held_token_ids.end());
        choice.held_token_ids.clear();
        writer_->delta(longer, events);
    }

    void end_choice(const ChoiceEnd& end, StreamEvents& events) override {
        Choice& choice = choices_[static_cast<size_t>(end.choice)];
        choice.is_in_content = false;  // reasoning that was cut has no end to be written
        close_reasoning(end.choice, events);
        ChoiceEnd longer = end;
        longer.token_ids.insert(longer.token_ids.begin(), choice.held_token_ids.begin(), choice.held_token_ids.end());
        writer_->end_choice(longer, events);
    }

    void end(const AnswerUsage& usage, StreamEvents& events) override { writer_->end(usage, events); }
    void fail(const ApiError& error, StreamEvents& events) override { writer_->fail(error, events); }
    void cancel(StreamEvents& events) override { writer_->cancel(events); }
    [[nodiscard]] std::string_view keep_alive() const override { return writer_->keep_alive(); }
    [[nodiscard]] std::string body(const JsonValue& timings) const override { return writer_->body(timings); }

  private:
    struct Choice {
        std::vector<int32_t> held_token_ids{};  // of reasoning that nobody sees
        std::optional<AnswerDelta> held{};      // reasoning that waits for its end
        bool is_in_content = false;             // the content so far is reasoning
    };

    void add_reasoning(const AnswerDelta& delta, Choice& choice, StreamEvents& events) {
        if (!includes_) {
            choice.held_token_ids.insert(choice.held_token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
            return;
        }
        AnswerDelta shaped = delta;
        if (!separates_) {
            shaped.kind = AnswerDelta::Kind::kContent;
            choice.is_in_content = true;
        }
        if (streams_) {
            writer_->delta(shaped, events);
        } else if (!choice.held) {
            choice.held = std::move(shaped);
        } else {
            choice.held->text += shaped.text;
            choice.held->token_ids.insert(choice.held->token_ids.end(), shaped.token_ids.begin(), shaped.token_ids.end());
            choice.held->usage = shaped.usage;
        }
    }

    void close_reasoning(int32_t choice_index, StreamEvents& events) {
        Choice& choice = choices_[static_cast<size_t>(choice_index)];
        if (choice.held) {
            writer_->delta(*std::exchange(choice.held, std::nullopt), events);
        }
        if (std::exchange(choice.is_in_content, false)) {
            AnswerDelta mark;
            mark.choice = choice_index;
            mark.text = kThinkEnd;
            writer_->delta(mark, events);
        }
    }

    bool includes_;
    bool separates_;
    bool streams_;
    std::unique_ptr<AnswerWriter> writer_;
    std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> shape_reasoning(const Request& request, std::unique_ptr<AnswerWriter> writer,
                                              int32_t choice_count) {
    if (request.includes_reasoning && request.separates_reasoning && request.streams_reasoning) {
        return writer;
    }
    return std::make_unique<ReasoningShaper>(request, std::move(writer), choice_count);
}

}  // namespace di
