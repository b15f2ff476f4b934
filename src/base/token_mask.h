#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

// What the engine knows of structured output: which tokens may come next. Text lives behind it (text/grammar.h).
namespace di {

// The state of one sequence under a constraint. One thread at a time.
class TokenMask {
  public:
    virtual ~TokenMask() = default;

    // Moves on by one token. False: the token is refused and the state is unchanged. An end token is accepted where the
    // constraint may end; behind it nothing is.
    [[nodiscard]] virtual bool accept(int32_t token_id) = 0;
    // Takes back the last `count` accepted tokens (at most kTokenMaskRollbackMax).
    virtual void rollback(int32_t count) = 0;
    // Sets bit id % 32 of word id / 32 for every id that accept() would take, clears the others. `words` holds
    // ceil(vocab / 32). False: every token is allowed and `words` was not written.
    [[nodiscard]] virtual bool fill(std::span<uint32_t> words) = 0;
    // The end token was accepted.
    [[nodiscard]] virtual bool is_finished() const = 0;
    // An independent copy in the same state (n > 1, fork).
    [[nodiscard]] virtual std::unique_ptr<TokenMask> clone() const = 0;
};

inline constexpr int32_t kTokenMaskRollbackMax = 16;

// A constraint that may still be in the making on other threads. Shared by the request's owner and the engine: whoever
// is last lets go of it. Any thread.
class TokenMaskSource {
  public:
    virtual ~TokenMaskSource() = default;

    // The work is over, well or not.
    [[nodiscard]] virtual bool is_ready() const = 0;
    // Behind is_ready(): a mask at the start of the output, again and again (recomputation replays the output into a
    // new one). The error says whether the constraint is wrong, too large, or took too long.
    [[nodiscard]] virtual Result<std::unique_ptr<TokenMask>> create() const = 0;
    // Nobody will ask any more: work not yet begun may be dropped.
    virtual void cancel() = 0;
};

}  // namespace di
