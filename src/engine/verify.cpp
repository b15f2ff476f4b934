#include "engine/verify.h"

#include <algorithm>

#include "base/check.h"

namespace di {

namespace {

void check_args(const VerifyArgs& args, VerifyMode mode, int64_t vocab_size) {
    const size_t rows = args.drafts.size() + 1;
    const auto words = static_cast<size_t>((vocab_size + 31) / 32);
    DI_CHECK(args.logits.size() == rows * static_cast<size_t>(vocab_size), "logits of another number of rows");
    DI_CHECK(args.masks.empty() || args.masks.size() == rows * words, "masks of another number of rows");
    DI_CHECK(args.has_mask.empty() || args.has_mask.size() == rows, "has_mask of another number of rows");
    DI_CHECK(mode == VerifyMode::kExact || args.draft_distributions.size() == args.drafts.size(),
             "rejection needs what every draft was drawn from");
    DI_CHECK(args.prompt_length + args.output_length < args.length_max, "a sequence that is as long as it may get");
}

SampleRow row_at(const VerifyArgs& args, size_t t, int64_t vocab_size) {
    const auto vocab = static_cast<size_t>(vocab_size);
    const size_t words = (vocab + 31) / 32;
    const size_t output_index = static_cast<size_t>(args.output_length) + t;
    const std::vector<int32_t>& golden = args.params->golden_token_ids;
    SampleRow row{.logits = args.logits.subspan(t * vocab, vocab),
                  .params = args.params,
                  .seed = args.seed,
                  .index = args.prompt_length + static_cast<int64_t>(output_index),
                  .end_token_ids = args.end_token_ids,
                  .bans_end_tokens = static_cast<int64_t>(output_index) < args.params->min_tokens,
                  .history = args.history};
    if (!args.masks.empty() && (args.has_mask.empty() || args.has_mask[t] != 0)) {
        row.mask = args.masks.subspan(t * words, words);
    }
    if (output_index < golden.size()) {
        row.forced_id = golden[output_index];
    }
    return row;
}

// The token of row t and whether it is the draft there.
Result<DraftVerdict> decide(Sampler& sampler, VerifyMode mode, const VerifyArgs& args, const SampleRow& row, size_t t) {
    if (mode == VerifyMode::kRejection && t < args.drafts.size()) {
        return sampler.check_draft(row, args.drafts[t], args.draft_distributions[t]);
    }
    DI_TRY(const int32_t id, sampler.draw(row));
    return DraftVerdict{.token_id = id, .is_accepted = t < args.drafts.size() && args.drafts[t] == id};
}

void add_logprobs(Sampler& sampler, const SampleRow& row, int32_t token_id, VerifyResult& result) {
    const int32_t top_count = row.params->top_logprobs;
    if (!row.params->logprobs && top_count == 0) {
        return;
    }
    TokenLogprobs logprobs = sampler.logprobs(row, token_id, top_count);
    result.logprobs.push_back(logprobs.logprob);
    if (top_count > 0) {
        result.top_logprobs.push_back(std::move(logprobs.top));
    }
}

FinishReason finish_behind(const VerifyArgs& args, const VerifyResult& result) {
    const auto ends = args.end_token_ids;
    if (std::find(ends.begin(), ends.end(), result.tokens.back()) != ends.end()) {
        return FinishReason::kStop;
    }
    const int64_t length = int64_t{args.prompt_length} + args.output_length + static_cast<int64_t>(result.tokens.size());
    return length >= args.length_max ? FinishReason::kLength : FinishReason::kNone;
}

}  // namespace

VerifyResult verify(Sampler& sampler, VerifyMode mode, const VerifyArgs& args) {
    check_args(args, mode, sampler.vocab_size());
    VerifyResult result;
    for (size_t t = 0; t <= args.drafts.size(); ++t) {
        const SampleRow row = row_at(args, t, sampler.vocab_size());
        Result<DraftVerdict> verdict = decide(sampler, mode, args, row, t);
        if (!verdict) {
            result.finish = FinishReason::kError;
            result.error = std::move(verdict.error());
            return result;
        }
        result.tokens.push_back(verdict->token_id);
        result.accepted_drafts += verdict->is_accepted ? 1 : 0;
        add_logprobs(sampler, row, verdict->token_id, result);  // of the history before this token
        if (args.history != nullptr) {
            args.history->push(verdict->token_id);
        }
        result.finish = finish_behind(args, result);
        if (result.finish != FinishReason::kNone || !verdict->is_accepted) {
            break;
        }
    }
    return result;
}

Result<int32_t> draw_draft(Sampler& sampler, VerifyMode mode, const SampleRow& row, DraftDistribution& distribution) {
    if (mode == VerifyMode::kExact) {
        return sampler.draw(row);
    }
    return sampler.draw_draft(row, distribution);
}

}  // namespace di
