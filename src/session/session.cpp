#include "session/session.h"

#include <algorithm>
#include <map>
#include <utility>

#include "session/limits.h"
#include "session/stop_strings.h"
#include "text/detokenizer.h"
#include "text/token_classes.h"

namespace di {

// One prompt inside the engine.
struct Session::Running {
    size_t index = 0;
    Detokenizer detokenizer;
    StopStrings stop_strings;
    bool is_ended = false;  // its caller has the result; only the engine's last record is still to come
};

// One call of generate().
class Session::Run {
  public:
    Run(Session& session, std::vector<PromptRequest> prompts, const PromptSink& sink)
        : session_(session), prompts_(std::move(prompts)), results_(prompts_.size()), sink_(sink) {}

    std::vector<PromptResult> run() {
        Engine& engine = *session_.loaded_->engine;
        const auto prepared_max =
            std::max<size_t>(1, static_cast<size_t>(session_.plan().limits.max_num_seqs)) * kPreparedPerSequence;
        while (next_ < prompts_.size() || !running_.empty()) {
            while (next_ < prompts_.size() && running_.size() < prepared_max) {
                submit(next_++);
            }
            if (running_.empty()) {
                continue;
            }
            for (const StepOutput& output : engine.step()) {
                take(output);
            }
        }
        return std::move(results_);
    }

  private:
    bool tell(const PromptEvent& event) { return !sink_ || sink_(event); }

    void submit(size_t index) {
        PromptRequest& prompt = prompts_[index];
        const std::vector<std::string> stops = prompt.stop;
        Result<TokenRequest> request =
            build_token_request(std::move(prompt), {.config = &session_.config(), .tokenizer = session_.tokenizer_.get()});
        if (!request) {
            end_with_error(index, std::move(request.error()));
            return;
        }
        session_.add_end_tokens(request->sampling);
        request->id = session_.next_id_++;
        results_[index].prompt_token_ids = request->prompt_token_ids;
        running_.emplace(request->id, Running{.index = index,
                                              .detokenizer = Detokenizer(*session_.tokenizer_, true),
                                              .stop_strings = StopStrings(stops)});
        session_.loaded_->engine->add_request(std::move(*request));
    }

    void end_with_error(size_t index, Error error) {
        PromptResult& result = results_[index];
        result.finish = FinishReason::kError;
        result.error = std::move(error);
        tell({.index = index, .end = &result});
    }

    void take(const StepOutput& output) {
        const auto found = running_.find(output.request_id);
        if (found == running_.end()) {
            return;  // of an earlier call that was left by an abort
        }
        Running& running = found->second;
        if (!running.is_ended) {
            take_tokens(output, running);
        }
        if (!running.is_ended && output.finish != FinishReason::kNone) {
            end(output, running, output.finish);
        }
        if (output.finish != FinishReason::kNone) {
            running_.erase(found);
        }
    }

    void take_tokens(const StepOutput& output, Running& running) {
        PromptResult& result = results_[running.index];
        for (size_t i = 0; i < output.token_ids.size(); ++i) {
            const int32_t id = output.token_ids[i];
            const float logprob = i < output.logprobs.size() ? output.logprobs[i] : 0.0F;
            result.token_ids.push_back(id);
            result.logprobs.push_back(logprob);
            const std::string text = running.stop_strings.push(running.detokenizer.push(id));
            result.text += text;
            const bool go_on = tell({.index = running.index, .token_id = id, .logprob = logprob, .text = text});
            if (running.stop_strings.is_matched() || !go_on) {
                session_.loaded_->engine->abort_request(output.request_id);
                end(output, running, running.stop_strings.is_matched() ? FinishReason::kStop : FinishReason::kAbort);
                return;
            }
        }
    }

    void end(const StepOutput& output, Running& running, FinishReason finish) {
        PromptResult& result = results_[running.index];
        std::string rest = running.stop_strings.push(running.detokenizer.finish());
        rest += running.stop_strings.finish();
        result.text += rest;
        result.finish = finish;
        result.error = output.error;
        result.usage = output.usage;
        // Tokens behind a stop string were computed and are not part of the answer.
        result.usage.completion_tokens = static_cast<int64_t>(result.token_ids.size());
        result.timing = output.timing;
        running.is_ended = true;
        tell({.index = running.index, .text = rest, .end = &result});
    }

    Session& session_;
    std::vector<PromptRequest> prompts_;
    std::vector<PromptResult> results_;
    const PromptSink& sink_;
    size_t next_ = 0;
    std::map<uint64_t, Running> running_;
};

Session::Session(std::unique_ptr<Tokenizer> tokenizer, std::unique_ptr<LoadedEngine> loaded, GenerationConfig generation)
    : tokenizer_(std::move(tokenizer)), loaded_(std::move(loaded)), generation_(std::move(generation)) {}

Result<std::unique_ptr<Session>> Session::open(const SessionOptions& options) {
    const std::string& model = options.engine.model_directory;
    DI_TRY(Tokenizer tokenizer, Tokenizer::open(options.tokenizer_directory.empty() ? model : options.tokenizer_directory));
    auto kept = std::make_unique<Tokenizer>(std::move(tokenizer));
    DI_TRY(GenerationConfig generation, load_generation_config(model));
    const TokenClasses classes = [&kept](int64_t vocab_size) { return token_classes(*kept, vocab_size); };
    DI_TRY(std::unique_ptr<LoadedEngine> loaded, load_engine(options.engine, classes));
    if (kept->vocabulary_size() > loaded->config.vocab_size) {
        return fail(ErrorCode::kInvalidFile, "the tokenizer has ids up to {}, expected at most the model's vocab_size {}",
                    kept->vocabulary_size() - 1, loaded->config.vocab_size);
    }
    return std::unique_ptr<Session>(new Session(std::move(kept), std::move(loaded), std::move(generation)));
}

std::vector<PromptResult> Session::generate(std::vector<PromptRequest> prompts, const PromptSink& sink) {
    return Run(*this, std::move(prompts), sink).run();
}

void Session::add_end_tokens(SamplingParams& sampling) const {
    if (sampling.ignore_eos) {
        return;
    }
    for (const int32_t id : generation_.eos_token_ids) {
        if (id != config().eos_token_id && id < config().vocab_size) {
            sampling.stop_token_ids.push_back(id);
        }
    }
}

SamplingParams Session::default_sampling() const {
    SamplingParams sampling;
    sampling.temperature = generation_.temperature.value_or(sampling.temperature);
    sampling.top_p = generation_.top_p.value_or(sampling.top_p);
    sampling.top_k = generation_.top_k.value_or(sampling.top_k);
    return sampling;
}

}  // namespace di
