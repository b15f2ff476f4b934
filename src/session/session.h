#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/load.h"
#include "session/preparer.h"
#include "session/prompt.h"
#include "text/stop_strings.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

// The life of a prompt from text to text, without HTTP: render, tokenise, submit, then for each token of the engine detokenise,
// look for stop strings and tell the caller.
namespace di {

struct SessionOptions {
    EngineOptions engine;
    std::string tokenizer_directory{};  // empty: the model's
    PreparerOptions preparer{};
    int64_t log_interval_steps = 0;  // a line of statistics every so many steps; 0: never
};

// The end of one sample of a prompt. Every prompt gets exactly one of each of its samples, in the order of the input.
struct PromptResult {
    std::vector<int32_t> prompt_token_ids;
    std::vector<int32_t> token_ids;
    std::vector<float> logprobs;  // natural log, one for each of token_ids; empty unless asked for
    std::vector<std::vector<TokenLogprob>> top_logprobs{};
    std::vector<float> prompt_logprobs{};  // of prompt tokens 1 ..; empty unless asked for
    std::vector<std::vector<TokenLogprob>> top_prompt_logprobs{};
    std::string text;
    FinishReason finish = FinishReason::kNone;
    std::optional<Error> error;  // with kError; what came before it is kept
    RequestUsage usage;
    CacheMiss cache_miss = CacheMiss::kNone;
    RequestTiming timing;
    std::vector<PromptResult> other_samples{};  // samples 1 .. n - 1 of the same prompt
};

// Something happened to one sample of a prompt: a token, or its end.
struct PromptEvent {
    size_t index = 0;  // in the input
    int32_t sample_index = 0;
    std::optional<int32_t> token_id = {};
    std::optional<float> logprob = {};  // natural log, where asked for
    std::string_view text = {};         // that became final with it, often empty; good during the call
    const PromptResult* end = nullptr;  // the last event of this sample; its text is the rest
};

// Told of every event, in order for each prompt. False ends that prompt, all of its samples, with kAbort.
using PromptSink = std::function<bool(const PromptEvent& event)>;

// A token of an answer and the text that became final with it (often empty: a character may take several tokens, and
// what may become a stop string is held back).
struct OutputToken {
    int32_t token_id = 0;
    std::optional<float> logprob{};  // natural log, where asked for
    std::vector<TokenLogprob> top_logprobs{};
    std::string text{};
};

// What one step did for one sample of a submitted prompt. The one whose finish is not kNone is the last of that sample;
// every sample gets exactly one.
struct PromptOutput {
    uint64_t request_id = 0;
    int32_t sample_index = 0;
    std::vector<OutputToken> tokens{};
    std::string rest{};                    // text that became final with the end
    std::vector<float> prompt_logprobs{};  // as in StepOutput
    std::vector<std::vector<TokenLogprob>> top_prompt_logprobs{};
    std::vector<int32_t> draft_token_ids{};
    int32_t accepted_drafts = 0;
    FinishReason finish = FinishReason::kNone;
    std::optional<Error> error{};
    RequestUsage usage{};  // completion_tokens counts what the caller was given: none behind a stop string
    CacheMiss cache_miss = CacheMiss::kNone;
    RequestTiming timing{};
};

struct SubmittedPrompt {
    uint64_t id = 0;
    std::vector<int32_t> prompt_token_ids{};
};

// Owns the model, the engine and the tokenizer. One thread at a time, but for abort().
//
// Two ways to work: generate() runs prompts to their ends; submit() and step() are its parts for callers with a loop of their own. Both
// may be mixed: outputs of submitted prompts that fall due inside a generate() come with the next step().
class Session {
  public:
    // kOutOfMemory: the plan does not fit; kInvalidArgument: an option is wrong; else the model cannot be loaded.
    [[nodiscard]] static Result<std::unique_ptr<Session>> open(const SessionOptions& options);

    // Runs all prompts, batched, and returns their results in input order and always as many. A prompt that cannot
    // run has an error; the others are not affected. `sink` may be empty. Prompt i gets the id next_id() + i.
    [[nodiscard]] std::vector<PromptResult> generate(std::vector<PromptRequest> prompts, const PromptSink& sink);

    // Renders, tokenises and hands one prompt to the engine under the id next_id(). An error is the caller's fault and the
    // only answer that this prompt gets (its id is used up); else step() tells of it from now on.
    [[nodiscard]] Result<SubmittedPrompt> submit(PromptRequest prompt);
    // Runs one batch. What it returns may be nothing, also while prompts are unfinished.
    [[nodiscard]] std::vector<PromptOutput> step();
    // Ends the step that runs ahead, if one does, and returns what it did: afterwards nothing runs.
    [[nodiscard]] std::vector<PromptOutput> flush();
    // Ends every sample of a prompt, submitted or inside generate(), with kAbort in the next step. Unknown ids and ended prompts are
    // ignored. May be called from any thread.
    void abort(uint64_t id);

    [[nodiscard]] uint64_t next_id() const { return next_id_; }  // ids count up from 0
    // step() has something to do or to tell.
    [[nodiscard]] bool has_unfinished() const { return !running_.empty() || !parked_.empty(); }
    // Submitted prompts of which at least one sample has not ended.
    [[nodiscard]] int64_t unfinished_count() const;
    [[nodiscard]] EngineStats stats() const { return loaded_->engine->stats(); }

    // What the model's authors advise, for requests that say nothing else.
    [[nodiscard]] SamplingParams default_sampling() const { return preparer_->default_sampling(); }

    [[nodiscard]] const SessionOptions& options() const { return options_; }
    [[nodiscard]] const std::string& model_directory() const { return options_.engine.model_directory; }
    [[nodiscard]] const ModelConfig& config() const { return loaded_->config; }
    [[nodiscard]] const MemoryPlan& plan() const { return loaded_->plan; }
    [[nodiscard]] const Tokenizer& tokenizer() const { return *tokenizer_; }
    [[nodiscard]] LoadedEngine& loaded() { return *loaded_; }
    [[nodiscard]] Preparer& preparer() { return *preparer_; }

  private:
    // One sample of a submitted prompt.
    struct Sample {
        Detokenizer detokenizer;
        StopStrings stop_strings;
        int64_t token_count = 0;
        bool is_ended = false;  // its caller has the end; only the engine's last record is still to come
    };
    struct Running {
        std::vector<Sample> samples;
        int32_t engine_count = 0;  // samples whose last record the engine still owes
        int32_t open_count = 0;    // samples whose end the caller does not have
    };
    class Run;

    Session(const SessionOptions& options, std::unique_ptr<Tokenizer> tokenizer, std::unique_ptr<LoadedEngine> loaded,
            GenerationConfig generation, ChatFormat chat_format);
    void log_statistics();
    [[nodiscard]] Result<SubmittedPrompt> submit_as(uint64_t id, PromptRequest prompt);
    // One step of the engine as it comes, without what is parked.
    [[nodiscard]] std::vector<PromptOutput> step_engine();
    [[nodiscard]] std::vector<PromptOutput> outputs_of(std::vector<StepOutput> steps);
    [[nodiscard]] std::optional<PromptOutput> output_of(StepOutput step);
    void take_tokens(const StepOutput& step, Sample& sample, PromptOutput& output);
    // The caller has heard enough of every sample.
    void drop(uint64_t id);
    void apply_aborts();

    SessionOptions options_;
    std::unique_ptr<Tokenizer> tokenizer_;
    std::unique_ptr<LoadedEngine> loaded_;
    std::unique_ptr<Preparer> preparer_;
    uint64_t next_id_ = 0;
    int64_t steps_ = 0;
    bool is_generating_ = false;
    std::map<uint64_t, Running> running_;
    std::vector<PromptOutput> parked_;  // of submitted prompts, met inside generate()
    std::set<uint64_t> aborted_ahead_;  // prompts of generate() that were aborted before their turn
    std::mutex aborts_mutex_;           // guards aborts_
    std::vector<uint64_t> aborts_;      // from any thread, for the next step
};

}  // namespace di
