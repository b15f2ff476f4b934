#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token_mask.h"
#include "text/grammar_spec.h"
#include "text/tokenizer.h"

// Structured output: from what an answer must look like to the tokens that may come next.
namespace di {

struct GrammarCompilerOptions {
    int thread_count = 0;                    // 0: four, or as many as the machine has when it has fewer
    int64_t timeout_ms = 5'000;              // from submit() on; 0 is over at once, not never
    int64_t cache_bytes = int64_t{1} << 30;  // of compiled grammars that are kept for the next request
};

struct GrammarCompilerCounts {
    int64_t compiled = 0;
    int64_t reused = 0;   // requests that found their grammar compiled or in the making
    int64_t dropped = 0;  // cancelled before anything was done
    int64_t cache_bytes = 0;
};

// Compiles on threads of its own, so that neither the engine nor the caller waits. Any thread. Masks that it made may
// outlive it, sources may not be waited for any longer.
class GrammarCompiler {
  public:
    // `tokenizer` must outlive this. Ids from `vocab_size` on do not exist for the engine; masks have vocab_size bits.
    // Special tokens are never part of an answer; the end tokens end it.
    GrammarCompiler(const Tokenizer& tokenizer, int64_t vocab_size, std::vector<int32_t> end_token_ids,
                    GrammarCompilerOptions options);
    // Waits for what is being compiled; what waits is dropped.
    ~GrammarCompiler();
    GrammarCompiler(const GrammarCompiler&) = delete;
    GrammarCompiler& operator=(const GrammarCompiler&) = delete;

    // Checks the limits at once (an error names what is wrong), then compiles in the background.
    [[nodiscard]] Result<std::shared_ptr<TokenMaskSource>> submit(const GrammarSpec& spec);

    [[nodiscard]] GrammarCompilerCounts counts() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace di
