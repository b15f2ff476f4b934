#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/load.h"
#include "session/prompt.h"
#include "text/generation_config.h"
#include "text/tokenizer.h"

// The life of a prompt from text to text, without HTTP: render, tokenise, submit, then for each token of the engine detokenise,
// look for stop strings and tell the caller.
namespace di {

struct SessionOptions {
    EngineOptions engine;
    std::string tokenizer_directory;  // empty: the model's
};

// The end of one prompt. Every prompt gets exactly one, in the order of the input.
struct PromptResult {
    std::vector<int32_t> prompt_token_ids;
    std::vector<int32_t> token_ids;
    std::vector<float> logprobs;  // natural log, one for each of token_ids
    std::string text;
    FinishReason finish = FinishReason::kNone;
    std::optional<Error> error;  // with kError; what came before it is kept
    RequestUsage usage;
    RequestTiming timing;
};

// Something happened to one prompt: a token, or its end.
struct PromptEvent {
    size_t index = 0;  // in the input
    std::optional<int32_t> token_id = {};
    float logprob = 0.0F;
    std::string_view text = {};         // that became final with it, often empty; good during the call
    const PromptResult* end = nullptr;  // the last event of this prompt; its text is the rest
};

// Told of every event, in order for each prompt. False ends that prompt with kAbort.
using PromptSink = std::function<bool(const PromptEvent& event)>;

// Owns the model, the engine and the tokenizer. One thread at a time.
class Session {
  public:
    // kOutOfMemory: the plan does not fit; kInvalidArgument: an option is wrong; else the model cannot be loaded.
    [[nodiscard]] static Result<std::unique_ptr<Session>> open(const SessionOptions& options);

    // Runs all prompts, batched, and returns their results in input order and always as many. A prompt that cannot
    // run has an error; the others are not affected. `sink` may be empty.
    [[nodiscard]] std::vector<PromptResult> generate(std::vector<PromptRequest> prompts, const PromptSink& sink);

    // What the model's authors advise, for requests that say nothing else.
    [[nodiscard]] SamplingParams default_sampling() const;

    [[nodiscard]] const ModelConfig& config() const { return loaded_->config; }
    [[nodiscard]] const MemoryPlan& plan() const { return loaded_->plan; }
    [[nodiscard]] const Tokenizer& tokenizer() const { return *tokenizer_; }
    [[nodiscard]] LoadedEngine& loaded() { return *loaded_; }

  private:
    struct Running;
    class Run;
    // The engine knows the end token of config.json; generation_config.json may name more.
    void add_end_tokens(SamplingParams& sampling) const;
    Session(std::unique_ptr<Tokenizer> tokenizer, std::unique_ptr<LoadedEngine> loaded, GenerationConfig generation);

    std::unique_ptr<Tokenizer> tokenizer_;
    std::unique_ptr<LoadedEngine> loaded_;
    GenerationConfig generation_;
    uint64_t next_id_ = 1;
};

}  // namespace di
