#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "session/prompt.h"
#include "text/generation_config.h"
#include "text/grammar.h"

namespace di {

// What is done for every request of a session beside what the request says.
struct PreparerOptions {
    std::vector<int32_t> banned_token_ids{};  // no request produces them
    int32_t top_k_max = 0;                    // no request draws among more; 0: no cap
    GrammarCompilerOptions grammar{};         // of structured output
};

// Makes what the engine takes of what a caller wants: renders, tokenises, decodes images, starts compiling what the
// answer must look like. Any thread, many at once. Config and tokenizer must outlive it.
class Preparer {
  public:
    Preparer(PreparerOptions options, const ModelConfig& config, const Tokenizer& tokenizer, GenerationConfig generation,
             ChatFormat chat_format);

    Preparer(const Preparer&) = delete;
    Preparer& operator=(const Preparer&) = delete;

    // The request has no id yet. Errors are the caller's fault.
    [[nodiscard]] Result<TokenRequest> prepare(PromptRequest prompt);

    // What the model's authors advise, for requests that say nothing else.
    [[nodiscard]] SamplingParams default_sampling() const;
    // Tokens that end an answer: of config.json and of generation_config.json.
    [[nodiscard]] std::vector<int32_t> end_token_ids() const;
    // Tokens that have no place in an answer to a conversation: the special ones and those that open turns, but not the ends,
    // the delimiters of reasoning, and the marker of tool calls where calls may come.
    [[nodiscard]] std::vector<int32_t> control_token_ids(bool may_call_tools) const;
    // The prompt of a conversation, in the model's format.
    [[nodiscard]] Result<EncodedPrompt> encode(const Conversation& conversation) const {
        return chat_format_.encode(conversation, tokenizer());
    }
    [[nodiscard]] const Tokenizer& tokenizer() const { return *context_.tokenizer; }
    [[nodiscard]] const ModelConfig& config() const { return *context_.config; }

  private:
    // What the options say of every request.
    void apply_options(SamplingParams& sampling) const;
    // The engine knows the end token of config.json; generation_config.json may name more.
    void add_end_tokens(SamplingParams& sampling) const;
    [[nodiscard]] GrammarCompiler& grammar_compiler();

    PreparerOptions options_;
    ChatFormat chat_format_;
    PromptContext context_;  // points to chat_format_: a Preparer stays where it is
    GenerationConfig generation_;
    std::vector<int32_t> control_ids_;  // as control_token_ids(), without the marker of tool calls
    std::optional<int32_t> tool_marker_id_;
    std::mutex compiler_mutex_;  // guards the making of grammar_compiler_, with the first request that asks
    std::unique_ptr<GrammarCompiler> grammar_compiler_;
};

}  // namespace di
