#include "engine/step_runner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "engine/image_embeddings.h"

namespace di {

namespace {

double milliseconds_since(int64_t from_us, Clock& clock) { return static_cast<double>(clock.now_us() - from_us) / 1000.0; }

}  // namespace

StepRunner::StepRunner(const Parts& parts, VerifyMode mode)
    : parts_(parts),
      mode_(mode),
      vocab_(static_cast<size_t>(parts.model.vocab_size())),
      sampler_(parts.model.vocab_size()),
      mask_words_((vocab_ + 31) / 32) {}

std::span<float> StepRunner::logits_of(int32_t first_row, int32_t count) {
    return std::span(logits_).subspan(static_cast<size_t>(first_row) * vocab_, static_cast<size_t>(count) * vocab_);
}

void StepRunner::run(StepWork& work, std::atomic<bool>* masks_ready) {
    const int64_t start_us = parts_.clock.now_us();
    copy_caches(work);
    encode_images(work);
    forward(work);
    work.times.forward_ms = milliseconds_since(start_us, parts_.clock);
    if (masks_ready != nullptr) {
        masks_ready->wait(false, std::memory_order_acquire);
    }
    const int64_t drawn_from_us = parts_.clock.now_us();
    draw(work);
    work.times.sample_ms = milliseconds_since(drawn_from_us, parts_.clock);
    const int64_t drafted_from_us = parts_.clock.now_us();
    draft(work);
    work.times.draft_ms = milliseconds_since(drafted_from_us, parts_.clock);
}

// --- the model -------------------------------------------------------------------

void StepRunner::copy_caches(const StepWork& work) {
    const CacheSize& size = parts_.storage.size();
    const auto copy = [&](uint8_t* memory, const CacheCopies::Pair& pair, int64_t bytes) {
        if (bytes > 0) {
            parts_.backend.copy_bytes(memory + pair.to * bytes, memory + pair.from * bytes, bytes);
        }
    };
    for (const CacheCopies::Pair& pair : work.copies.slots) {
        copy(parts_.storage.states(), pair, size.state_bytes);
    }
    for (const CacheCopies::Pair& pair : work.copies.blocks) {
        copy(parts_.storage.blocks(), pair, size.block_bytes);
    }
    for (size_t i = 0; i < work.used; ++i) {
        const StepRows& rows = work.rows[i];
        for (const StateSnapshot& snapshot : rows.snapshots) {
            copy(parts_.storage.states(), {.from = rows.sequence->state_slot, .to = snapshot.state_slot}, size.state_bytes);
        }
    }
}

void StepRunner::encode_images(StepWork& work) {
    for (StepRows& rows : work.used_rows()) {
        encode_reserved_images(parts_.model, parts_.backend, *rows.sequence);
        const int32_t slow_ms = rows.sequence->fault.slow_prefill_ms;
        if (slow_ms > 0 && rows.first_position == rows.sequence->admitted_from && rows.sequence->output_length() == 0) {
            parts_.clock.wait_us(int64_t{slow_ms} * 1000);
        }
    }
}

void StepRunner::forward(StepWork& work) {
    const Tensor logits = parts_.model.forward(work.batch);
    logits_.resize(work.batch.logit_rows.size() * vocab_);
    if (work.batch.logit_rows.empty()) {
        return;
    }
    DI_CHECK(logits.rows() == static_cast<int64_t>(work.batch.logit_rows.size()) &&
                 logits.row_size() == static_cast<int64_t>(vocab_),
             "the model gave logits of another shape");
    parts_.backend.download(logits, logits_.data());
}

// --- tokens ----------------------------------------------------------------------

void StepRunner::draw(StepWork& work) {
    for (StepRows& rows : work.used_rows()) {
        take_prompt_logprobs(rows);
        if (!rows.draws_token) {
            continue;
        }
        const auto draws = static_cast<int32_t>(rows.drafts.size()) + 1;
        const std::span<float> logits = logits_of(rows.first_logit_row + rows.logit_row_count - draws, draws);
        rows.verified = draw_sequence(*rows.sequence, rows, logits);
        for (DrawnTokens& sample : rows.samples) {
            sample.verified = draw_sequence(*sample.sequence, rows, logits);
        }
    }
}

// Tokens of `sequence`, whose rows these are or whose prompt they end.
VerifyResult StepRunner::draw_sequence(Sequence& sequence, const StepRows& rows, std::span<const float> logits) {
    std::vector<float> broken;
    const int32_t nan_at = sequence.fault.nan_logits_at;
    const int32_t nan_row = nan_at < 0 ? -1 : nan_at - sequence.output_length();
    if (nan_row >= 0 && nan_row <= static_cast<int32_t>(rows.drafts.size())) {
        broken.assign(logits.begin(), logits.end());
        std::fill_n(broken.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(nan_row) * vocab_), vocab_,
                    std::numeric_limits<float>::quiet_NaN());
        logits = broken;
    }
    if (!sequence.history) {
        const std::span<const int32_t> prompt(sequence.tokens.data(), static_cast<size_t>(sequence.prompt_length));
        sequence.history.emplace(sequence.sampling, prompt, static_cast<int64_t>(vocab_));
    }
    std::span<const DraftDistribution> distributions(sequence.draft_distributions);
    if (mode_ == VerifyMode::kRejection) {
        distributions = distributions.first(rows.drafts.size());  // of those that this step verifies
    }
    VerifyResult result = verify(sampler_, mode_,
                                 {.params = &sequence.sampling,
                                  .seed = sequence.seed,
                                  .end_token_ids = sequence.end_token_ids,
                                  .prompt_length = sequence.prompt_length,
                                  .output_length = sequence.output_length(),
                                  .length_max = sequence.length_max,
                                  .history = &*sequence.history,
                                  .logits = logits,
                                  .drafts = rows.drafts,
                                  .draft_distributions = distributions,
                                  .masks = rows.masks,
                                  .has_mask = rows.has_mask});
    const int32_t error_at = sequence.fault.engine_error_at - sequence.output_length();
    if (sequence.fault.engine_error_at >= 0 && error_at >= 0 && error_at < static_cast<int32_t>(result.tokens.size())) {
        result.error = Error{ErrorCode::kInternal, "injected fault: engine_error_at"};
    }
    for (size_t i = 0; i < result.tokens.size() && sequence.mask && !result.error; ++i) {
        if (!sequence.mask->accept(result.tokens[i])) {
            result.error =
                Error{ErrorCode::kInvalidArgument,
                      fmt::format("the forced token {} is not allowed by the structured output at output position {}",
                                  result.tokens[i], sequence.output_length() + static_cast<int32_t>(i))};
        }
    }
    return result;
}

// Logits of row p are about token p + 1. A prompt that is computed again is not asked again.
void StepRunner::take_prompt_logprobs(StepRows& rows) {
    const Sequence& sequence = *rows.sequence;
    rows.prompt_logprobs.clear();
    rows.top_prompt_logprobs.clear();
    rows.prompt_error.reset();
    if (!sequence.sampling.prompt_logprobs) {
        return;
    }
    for (int32_t i = 0; i < rows.row_count; ++i) {
        const int32_t position = rows.first_position + i;
        const auto collected = static_cast<int32_t>(sequence.prompt_logprobs.size() + rows.prompt_logprobs.size());
        if (position != collected || position + 1 >= sequence.prompt_length) {
            continue;
        }
        const int32_t token_id = sequence.tokens[static_cast<size_t>(position) + 1];
        Result<TokenLogprobs> logprobs = sampler_.prompt_logprobs(logits_of(rows.first_logit_row + i, 1), position + 1,
                                                                  token_id, sequence.sampling.top_logprobs);
        if (!logprobs) {
            rows.prompt_error = std::move(logprobs.error());
            return;
        }
        rows.prompt_logprobs.push_back(logprobs->logprob);
        if (sequence.sampling.top_logprobs > 0) {
            rows.top_prompt_logprobs.push_back(std::move(logprobs->top));
        }
    }
}

// --- drafts ----------------------------------------------------------------------

void StepRunner::draft(StepWork& work) {
    drafting_.clear();
    draft_batch_.sequences.clear();
    previous_ids_.clear();
    for (StepRows& rows : work.used_rows()) {
        rows.next_drafts.clear();
        rows.confidences.clear();
        rows.next_distributions.clear();
        const VerifyResult& result = rows.verified;
        const bool goes_on = rows.draws_token && !result.error && result.finish == FinishReason::kNone;
        const auto drawn = static_cast<int32_t>(result.tokens.size());
        const bool is_full = static_cast<int32_t>(drafting_.size()) >= work.draft_sequences_max;
        if (work.draft_depth == 0 || is_full || !goes_on || rows.sequence->length() + drawn + 1 >= rows.sequence->length_max) {
            continue;
        }
        // One row for each token drawn counts; before it, all rows of the prompt.
        const int32_t known = rows.row_count - static_cast<int32_t>(rows.drafts.size());
        const int32_t position = rows.first_position + known + drawn - 1;
        drafting_.push_back({.rows = &rows});
        draft_batch_.sequences.push_back(
            {.token_id = result.tokens.back(), .position = position, .state_slot = rows.sequence->state_slot});
        previous_ids_.push_back(result.tokens.back());
    }
    work.draft_rows = static_cast<int32_t>(drafting_.size()) * work.draft_depth;
    if (drafting_.empty()) {
        return;
    }
    draft_batch_.depth = work.draft_depth;
    draft_batch_.cache = work.batch.cache;
    parts_.model.draft_begin(draft_batch_);
    for (int32_t depth = 0; depth < work.draft_depth; ++depth) {
        draw_drafts(depth, parts_.model.draft_step(depth, previous_ids_));
    }
    for (Drafting& drafting : drafting_) {
        Sequence& sequence = *drafting.rows->sequence;
        sequence.history->pop(static_cast<int32_t>(drafting.rows->next_drafts.size()));
        if (drafting.accepted_by_mask > 0) {
            sequence.mask->rollback(drafting.accepted_by_mask);
        }
    }
}

void StepRunner::draw_drafts(int32_t depth, const Model::DraftStep& step) {
    draft_logits_.resize(drafting_.size() * vocab_);
    confidences_.resize(drafting_.size());
    parts_.backend.download(step.logits, draft_logits_.data());
    parts_.backend.download(step.confidence, confidences_.data());
    for (size_t i = 0; i < drafting_.size(); ++i) {
        Drafting& drafting = drafting_[i];
        if (drafting.is_over) {
            continue;
        }
        draw_draft_of(drafting, std::span(draft_logits_).subspan(i * vocab_, vocab_), confidences_[i]);
        if (!drafting.is_over) {
            DI_CHECK(static_cast<int32_t>(drafting.rows->next_drafts.size()) == depth + 1, "a draft was left out");
            previous_ids_[i] = drafting.rows->next_drafts.back();
        }
    }
}

void StepRunner::draw_draft_of(Drafting& drafting, std::span<const float> logits, float confidence) {
    StepRows& rows = *drafting.rows;
    Sequence& sequence = *rows.sequence;
    const bool has_mask = sequence.mask && sequence.mask->fill(mask_words_);
    const auto produced = static_cast<int32_t>(rows.verified.tokens.size() + rows.next_drafts.size());
    DraftDistribution distribution;
    const Result<int32_t> draft =
        draw_draft(sampler_, mode_,
                   {.logits = logits,
                    .params = &sequence.sampling,
                    .seed = sequence.seed,
                    .index = int64_t{sequence.length()} + produced,
                    .end_token_ids = sequence.end_token_ids,
                    .bans_end_tokens = sequence.output_length() + produced < sequence.sampling.min_tokens,
                    .history = &*sequence.history,
                    .mask = has_mask ? std::span<const uint32_t>(mask_words_) : std::span<const uint32_t>()},
                   distribution);
    // No draft is no error: the target decides what is one.
    if (!draft) {
        drafting.is_over = true;
        return;
    }
    if (sequence.mask) {
        drafting.is_over = !sequence.mask->accept(*draft);
        if (drafting.is_over) {
            return;
        }
        ++drafting.accepted_by_mask;
    }
    rows.next_drafts.push_back(*draft);
    rows.confidences.push_back(confidence);
    if (mode_ == VerifyMode::kRejection) {
        rows.next_distributions.push_back(distribution);
    }
    sequence.history->push(*draft);
    drafting.is_over = sequence.is_end_token(*draft);
}

void fill_masks(StepWork& work, int64_t vocab_size) {
    const auto words = static_cast<size_t>((vocab_size + 31) / 32);
    for (StepRows& rows : work.used_rows()) {
        rows.masks.clear();
        rows.has_mask.clear();
        TokenMask* mask = rows.sequence->mask.get();
        if (mask == nullptr || !rows.draws_token) {
            continue;
        }
        const size_t draws = rows.drafts.size() + 1;
        rows.masks.assign(draws * words, ~uint32_t{0});
        rows.has_mask.assign(draws, 0);
        int32_t moved = 0;
        for (size_t i = 0; i < draws; ++i) {
            rows.has_mask[i] = mask->fill(std::span(rows.masks).subspan(i * words, words)) ? 1 : 0;
            if (i + 1 == draws || !mask->accept(rows.drafts[i])) {
                break;
            }
            ++moved;
        }
        mask->rollback(moved);
    }
}

}  // namespace di
