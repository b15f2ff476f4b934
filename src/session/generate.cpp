#include <algorithm>
#include <utility>

#include "session/limits.h"
#include "session/session.h"

// Session::generate: many prompts to their ends.
namespace di {

// One call.
class Session::Run {
  public:
    Run(Session& session, std::vector<PromptRequest> prompts, const PromptSink& sink)
        : session_(session),
          prompts_(std::move(prompts)),
          results_(prompts_.size()),
          open_samples_(prompts_.size(), 0),
          first_id_(session.next_id_),
          sink_(sink) {
        session_.next_id_ += prompts_.size();
        session_.is_generating_ = true;
    }

    std::vector<PromptResult> run() {
        const auto prepared_max =
            std::max<size_t>(1, static_cast<size_t>(session_.plan().limits.max_num_seqs)) * kPreparedPerSequence;
        while (next_ < prompts_.size() || prepared_ > 0) {
            session_.apply_aborts();
            while (next_ < prompts_.size() && prepared_ < prepared_max) {
                submit(next_++);
            }
            if (prepared_ == 0) {
                continue;
            }
            for (PromptOutput& output : session_.step_engine()) {
                if (output.request_id >= first_id_) {
                    take(std::move(output));
                } else {
                    session_.parked_.push_back(std::move(output));
                }
            }
        }
        session_.is_generating_ = false;
        return std::move(results_);
    }

  private:
    bool tell(const PromptEvent& event) { return !sink_ || sink_(event); }

    PromptResult& result_of(size_t index, int32_t sample) {
        PromptResult& result = results_[index];
        return sample == 0 ? result : result.other_samples[static_cast<size_t>(sample) - 1];
    }

    void submit(size_t index) {
        const uint64_t id = first_id_ + index;
        PromptResult& result = results_[index];
        const auto sample_count = prompts_[index].sampling.n;
        if (session_.aborted_ahead_.erase(id) > 0) {
            end_at_once(index, FinishReason::kAbort, {});
            return;
        }
        Result<SubmittedPrompt> submitted = session_.submit_as(id, std::move(prompts_[index]));
        if (!submitted) {
            end_at_once(index, FinishReason::kError, std::move(submitted.error()));
            return;
        }
        result.prompt_token_ids = std::move(submitted->prompt_token_ids);
        result.other_samples.resize(static_cast<size_t>(sample_count) - 1);
        for (PromptResult& other : result.other_samples) {
            other.prompt_token_ids = result.prompt_token_ids;
        }
        open_samples_[index] = sample_count;
        ++prepared_;
    }

    void end_at_once(size_t index, FinishReason finish, std::optional<Error> error) {
        PromptResult& result = results_[index];
        result.finish = finish;
        result.error = std::move(error);
        tell({.index = index, .end = &result});
    }

    void take(PromptOutput output) {
        const size_t index = output.request_id - first_id_;
        PromptResult& result = result_of(index, output.sample_index);
        if (result.finish != FinishReason::kNone) {
            return;  // the caller's sink ended it
        }
        for (OutputToken& token : output.tokens) {
            result.token_ids.push_back(token.token_id);
            if (token.logprob) {
                result.logprobs.push_back(*token.logprob);
            }
            if (!token.top_logprobs.empty()) {
                result.top_logprobs.push_back(std::move(token.top_logprobs));
            }
            result.text += token.text;
            const bool go_on = tell({.index = index,
                                     .sample_index = output.sample_index,
                                     .token_id = token.token_id,
                                     .logprob = token.logprob,
                                     .text = token.text});
            if (!go_on) {
                stop(index, output);
                return;
            }
        }
        if (!output.prompt_logprobs.empty()) {
            result.prompt_logprobs = std::move(output.prompt_logprobs);
            result.top_prompt_logprobs = std::move(output.top_prompt_logprobs);
        }
        if (output.finish != FinishReason::kNone) {
            end(index, output, output.finish);
        }
    }

    void end(size_t index, const PromptOutput& output, FinishReason finish) {
        PromptResult& result = result_of(index, output.sample_index);
        result.text += output.rest;
        result.finish = finish;
        result.error = output.error;
        result.usage = output.usage;
        result.usage.completion_tokens = static_cast<int64_t>(result.token_ids.size());
        result.cache_miss = output.cache_miss;
        result.timing = output.timing;
        if (--open_samples_[index] == 0) {
            --prepared_;
        }
        tell({.index = index, .sample_index = output.sample_index, .text = output.rest, .end = &result});
    }

    // The sink has heard enough: every sample of the prompt that has not ended ends here.
    void stop(size_t index, const PromptOutput& last) {
        session_.drop(first_id_ + index);
        PromptOutput output{.request_id = last.request_id, .usage = last.usage, .timing = last.timing};
        const auto sample_count = static_cast<int32_t>(results_[index].other_samples.size()) + 1;
        for (output.sample_index = 0; output.sample_index < sample_count; ++output.sample_index) {
            if (result_of(index, output.sample_index).finish == FinishReason::kNone) {
                end(index, output, FinishReason::kAbort);
            }
        }
    }

    Session& session_;
    std::vector<PromptRequest> prompts_;
    std::vector<PromptResult> results_;
    std::vector<int32_t> open_samples_;  // of each prompt that is in the engine
    uint64_t first_id_;
    const PromptSink& sink_;
    size_t next_ = 0;      // first prompt that has not been submitted
    size_t prepared_ = 0;  // prompts in the engine that have an open sample
};

std::vector<PromptResult> Session::generate(std::vector<PromptRequest> prompts, const PromptSink& sink) {
    return Run(*this, std::move(prompts), sink).run();
}

}  // namespace di
