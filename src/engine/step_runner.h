#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/sampler.h"
#include "engine/step_work.h"
#include "engine/verify.h"
#include "kv/cache_storage.h"
#include "model/model.h"

namespace di {

// Runs one step from copies to drafts: what a device does between two looks of the scheduler. Holds scratch memory and the
// sampler; knows nothing of queues or pools. One thread at a time.
class StepRunner {
  public:
    // All must outlive the runner.
    struct Parts {
        Model& model;
        Backend& backend;
        const CacheStorage& storage;
        Clock& clock;
    };
    StepRunner(const Parts& parts, VerifyMode mode);

    // Runs `work` and fills its results. With `masks_ready`, the masks may still be written while the model computes; they are
    // when it is true.
    void run(StepWork& work, std::atomic<bool>* masks_ready = nullptr);

  private:
    // A sequence that goes on behind this step and wants drafts.
    struct Drafting {
        StepRows* rows = nullptr;
        int32_t accepted_by_mask = 0;  // drafts that the mask was moved on by
        bool is_over = false;          // nothing more may be drafted
    };

    void copy_caches(const StepWork& work);
    void encode_images(StepWork& work);
    void forward(StepWork& work);
    void draw(StepWork& work);
    [[nodiscard]] VerifyResult draw_sequence(Sequence& sequence, const StepRows& rows, std::span<const float> logits);
    void take_prompt_logprobs(StepRows& rows);
    void draft(StepWork& work);
    void draw_drafts(int32_t depth, const Model::DraftStep& step);
    void draw_draft_of(Drafting& drafting, std::span<const float> logits, float confidence);
    [[nodiscard]] std::span<float> logits_of(int32_t first_row, int32_t count);

    Parts parts_;
    VerifyMode mode_;
    size_t vocab_;
    Sampler sampler_;
    std::vector<float> logits_;  // [logit rows, vocab]
    std::vector<float> draft_logits_;
    std::vector<float> confidences_;
    std::vector<uint32_t> mask_words_;
    std::vector<Drafting> drafting_;
    std::vector<int32_t> previous_ids_;
    DraftBatch draft_batch_;
};

// Fills the masks of the rows that draw: from the constraint's state in front of the step, drafts accepted one by one and taken back. A draft
// that the constraint refuses ends the list: nothing behind it can be reached.
void fill_masks(StepWork& work, int64_t vocab_size);

}  // namespace di
