#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/answer_writer.h"
#include "engine/engine.h"
#include "session/answer_plan.h"
#include "text/answer_parser.h"
#include "text/detokenizer.h"

namespace di {

// What reading an answer needs of the model's text side. Must outlive the streams.
struct AnswerContext {
    const Tokenizer* tokenizer = nullptr;
    std::vector<int32_t> end_token_ids{};
    AnswerWriterOptions writer{};  // without has_events, a request that is streamed or in the background still has them
    std::function<std::string(int32_t call_index)> make_call_id{};
    std::function<int64_t()> unix_s{};  // now
};

// The text pipeline of one answer: what the engine says of its prompts' samples becomes the events and the body of the
// request's dialect. Choice = prompt index * samples + sample index. One thread.
class AnswerStream {
  public:
    // Of `plan` the shape is read; its prompts may have been moved away. `head` needs id, model, time and fingerprint.
    AnswerStream(Request request, const AnswerPlan& plan, AnswerHead head, const AnswerContext& context);
    ~AnswerStream();

    // The first events. Called by take(), or before it when the client has waited long enough.
    void begin(StreamEvents& events);
    [[nodiscard]] bool has_begun() const { return has_begun_; }

    // One record of the engine about a sample of prompt `prompt_index`. An error ends the whole answer.
    void take(size_t prompt_index, const StepOutput& output, StreamEvents& events);
    void fail(const ApiError& error, StreamEvents& events);
    void cancel(StreamEvents& events);

    // All choices have ended, or the answer has failed or was cancelled.
    [[nodiscard]] bool is_over() const { return is_over_; }
    // Set when the answer failed: what the client is told.
    [[nodiscard]] const std::optional<ApiError>& error() const { return error_; }
    // Nothing more of this sample is wanted though the engine may go on with it.
    [[nodiscard]] bool is_sample_over(size_t prompt_index, int32_t sample_index) const;
    // For a client that waits; "" before the first event.
    [[nodiscard]] std::string_view keep_alive() const;
    // Behind is_over(); of Responses at any time.
    [[nodiscard]] std::string body(bool with_timings);

    [[nodiscard]] const AnswerUsage& usage() const { return usage_; }
    [[nodiscard]] const RequestTiming& timing() const { return timing_; }  // of the choice that ended last
    [[nodiscard]] AnswerEnd end_of_first() const;                          // how choice 0 ended; for logs
    [[nodiscard]] const Request& request() const { return request_; }
    [[nodiscard]] const AnswerHead& head() const { return head_; }

  private:
    class Choice;
    struct Record {
        size_t prompt_index;
        StepOutput output;
    };

    [[nodiscard]] AnswerWriter& writer();
    [[nodiscard]] size_t choice_index(size_t prompt_index, int32_t sample_index) const {
        return prompt_index * static_cast<size_t>(samples_) + static_cast<size_t>(sample_index);
    }
    void take_prompt(size_t prompt_index, const StepOutput& output);
    void take_record(size_t prompt_index, const StepOutput& output, StreamEvents& events);
    void write(std::vector<AnswerDelta> deltas, StreamEvents& events);
    [[nodiscard]] AnswerUsage usage_so_far() const;
    void end_choice(Choice& choice, size_t prompt_index, const StepOutput& output, StreamEvents& events);

    Request request_;
    AnswerHead head_;
    const AnswerContext* context_;
    std::vector<bool> is_cut_by_context_;
    int32_t samples_;
    std::vector<std::unique_ptr<Choice>> choices_;
    std::vector<bool> has_reported_;  // of each prompt: its first record is there
    std::vector<Record> held_;        // until all prompts have reported, where their log-probabilities are in the head
    std::unique_ptr<AnswerWriter> writer_;
    AnswerUsage usage_;
    RequestTiming timing_;
    int64_t drafted_ = 0;
    int64_t accepted_ = 0;
    bool has_begun_ = false;
    bool is_over_ = false;
    std::optional<ApiError> error_;
};

}  // namespace di
