#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "engine/token_history.h"

namespace di {

// One sequence's rows of a step: row t gives the token behind draft t - 1, the last one the token behind all drafts.
struct VerifyArgs {
    const SamplingParams* params = nullptr;
    uint64_t seed = 0;
    std::span<const int32_t> end_token_ids{};  // stop_token_ids, and the engine's unless ignore_eos
    int32_t prompt_length = 0;
    int32_t output_length = 0;          // before this step
    int32_t length_max = 0;             // prompt + output
    TokenHistory* history = nullptr;    // the tokens produced are pushed; may be null where no penalty is on
    std::span<const float> logits{};    // [1 + drafts, vocab]
    std::span<const int32_t> drafts{};  // -1: none at this place (it and all behind it are refused)
    std::span<const DraftDistribution> draft_distributions{};  // [drafts], rejection mode only
    std::span<const uint32_t> masks{};                         // [1 + drafts, ceil(vocab / 32)]; empty: none
    std::span<const uint8_t> has_mask{};  // [1 + drafts] 0: everything may come; empty: with `masks`, all have one
};

struct VerifyResult {
    std::vector<int32_t> tokens;  // the accepted drafts, then one token of the target unless the sequence ended before
    int32_t accepted_drafts = 0;
    std::vector<float> logprobs;                          // one a token, if asked for
    std::vector<std::vector<TokenLogprob>> top_logprobs;  // one list a token, if asked for
    FinishReason finish = FinishReason::kNone;
    std::optional<Error> error;  // with kError; `tokens` are those before it
};

// Draws the tokens of the rows up to the first refused draft, an end token or length_max; what is behind is not looked at.
// Forced ids (golden_token_ids) take the place of draws and of tests: a draft is accepted if it is the forced one.
//   kExact      a row's token is the target's own draw, a draft is accepted if it equals it: tokens and log-probabilities
//               are those of a run without drafts, bit for bit
//   kRejection  Sampler::check_draft(); the row behind all drafts is an ordinary draw
[[nodiscard]] VerifyResult verify(Sampler& sampler, VerifyMode mode, const VerifyArgs& args);

// The draft for the place of `row`, from the drafter's logits under the same rules as a draw. kExact: with the noise of
// that place, as the target will draw; `distribution` is left alone. kRejection: Sampler::draw_draft().
// An error means that there can be no draft here; the request itself goes on.
[[nodiscard]] Result<int32_t> draw_draft(Sampler& sampler, VerifyMode mode, const SampleRow& row,
                                         DraftDistribution& distribution);

}  // namespace di
