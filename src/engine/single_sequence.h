#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/model.h"

namespace di {

// One sequence through a model, with cache memory of its own: no scheduler, no sampler. For tools that want logits, and
// for tests of the model.
class SingleSequence {
  public:
    // Room for `context_max` tokens. `model` and `backend` must outlive it.
    [[nodiscard]] static Result<std::unique_ptr<SingleSequence>> create(Model& model, Backend& backend, int32_t context_max);
    ~SingleSequence();
    SingleSequence(const SingleSequence&) = delete;
    SingleSequence& operator=(const SingleSequence&) = delete;

    struct Image {
        int32_t first_token = 0;  // position of the span's first token
        Tensor embeddings;        // [token count, d] on the device
    };

    // Runs the next tokens in one step. With all_rows the logits of every row come back, else of the last one: row-major
    // [rows, vocab]. prompt_length: whole prompt (replay), -1 = everything given so far is prompt.
    [[nodiscard]] std::vector<float> forward(std::span<const int32_t> ids, bool all_rows, int32_t prompt_length = -1);
    // The same with no logits at all (always empty): a prompt chunk that is not the last. Replay may drop its rows.
    std::vector<float> forward_without_logits(std::span<const int32_t> ids, int32_t prompt_length);
    // Ids inside get their embeddings from the image.
    void add_image(const Image& image) { images_.push_back(image); }
    // Forgets tokens behind `length` (at most the geometry's backtrack_tokens).
    void roll_back(int32_t length);
    [[nodiscard]] int32_t length() const { return static_cast<int32_t>(tokens_.size()); }
    [[nodiscard]] CacheMemory cache() const { return cache_; }
    // The sequence as rows of a batch that somebody else runs, `count` tokens from the current length on.
    [[nodiscard]] SequenceRows rows(int32_t first_row, int32_t count, int32_t prompt_length) const;

  private:
    SingleSequence(Model& model, Backend& backend, int32_t block_count);
    [[nodiscard]] bool is_image(int32_t position) const;
    std::vector<float> run(std::span<const int32_t> ids, int32_t prompt_length, int32_t first_logit_row);

    Model& model_;
    Backend& backend_;
    CacheMemory cache_;
    std::vector<int32_t> block_table_;
    std::vector<int32_t> tokens_;
    std::vector<Image> images_;
};

}  // namespace di
