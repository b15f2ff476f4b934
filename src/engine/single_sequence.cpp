#include "engine/single_sequence.h"

#include <algorithm>

#include "base/check.h"

namespace di {

Result<std::unique_ptr<SingleSequence>> SingleSequence::create(Model& model, Backend& backend, int32_t context_max) {
    const CacheGeometry& geometry = model.geometry();
    const auto block_count = static_cast<int32_t>((context_max + geometry.block_tokens - 1) / geometry.block_tokens);
    std::unique_ptr<SingleSequence> sequence(new SingleSequence(model, backend, std::max(block_count, 1)));
    if (sequence->cache_.blocks == nullptr || sequence->cache_.states == nullptr) {
        return fail(ErrorCode::kOutOfMemory, "no memory for the caches of {} tokens ({} bytes)", context_max,
                    block_count * geometry.block_bytes + geometry.state_bytes);
    }
    return sequence;
}

SingleSequence::SingleSequence(Model& model, Backend& backend, int32_t block_count) : model_(model), backend_(backend) {
    const CacheGeometry& geometry = model.geometry();
    cache_.blocks = static_cast<uint8_t*>(backend.allocate(block_count * geometry.block_bytes));
    cache_.states = static_cast<uint8_t*>(backend.allocate(geometry.state_bytes));
    // Not the identity, so that a mistaken use of the position as the place shows.
    for (int32_t block = block_count - 1; block >= 0; --block) {
        block_table_.push_back(block);
    }
}

SingleSequence::~SingleSequence() {
    backend_.release(cache_.blocks);
    backend_.release(cache_.states);
}

bool SingleSequence::is_image(int32_t position) const {
    return std::any_of(images_.begin(), images_.end(), [&](const Image& image) {
        return position >= image.first_token && position < image.first_token + image.embeddings.rows();
    });
}

SequenceRows SingleSequence::rows(int32_t first_row, int32_t count, int32_t prompt_length) const {
    SequenceRows rows;
    rows.first_row = first_row;
    rows.row_count = count;
    rows.first_position = length();
    rows.prompt_length = prompt_length < 0 ? length() + count : prompt_length;
    rows.block_table = block_table_;
    for (int32_t position = std::max(0, length() - model_.geometry().history_tokens); position < length(); ++position) {
        rows.history.push_back(is_image(position) ? kImageHistory : tokens_[static_cast<size_t>(position)]);
    }
    return rows;
}

std::vector<float> SingleSequence::forward(std::span<const int32_t> ids, bool all_rows, int32_t prompt_length) {
    return run(ids, prompt_length, all_rows ? 0 : static_cast<int32_t>(ids.size()) - 1);
}

std::vector<float> SingleSequence::forward_without_logits(std::span<const int32_t> ids, int32_t prompt_length) {
    return run(ids, prompt_length, static_cast<int32_t>(ids.size()));
}

// Logits of the rows from `first_logit_row` on.
std::vector<float> SingleSequence::run(std::span<const int32_t> ids, int32_t prompt_length, int32_t first_logit_row) {
    const auto count = static_cast<int32_t>(ids.size());
    Batch batch;
    batch.token_ids.assign(ids.begin(), ids.end());
    batch.cache = cache_;
    batch.sequences.push_back(rows(0, count, prompt_length));
    for (int32_t row = 0; row < count; ++row) {
        const int32_t position = length() + row;
        batch.is_image.push_back(is_image(position) ? 1 : 0);
        if (is_image(position)) {
            const auto image = std::find_if(images_.begin(), images_.end(), [&](const Image& candidate) {
                return position >= candidate.first_token && position < candidate.first_token + candidate.embeddings.rows();
            });
            batch.image_rows.push_back(row);
            batch.image_embeddings.push_back(image->embeddings.slice(position - image->first_token, 1));
        }
        if (row >= first_logit_row) {
            batch.logit_rows.push_back(row);
        }
    }
    const Tensor logits = model_.forward(batch);
    std::vector<float> values(static_cast<size_t>(logits.size()));
    backend_.download(logits, values.data());
    backend_.synchronize();
    tokens_.insert(tokens_.end(), ids.begin(), ids.end());
    return values;
}

void SingleSequence::roll_back(int32_t new_length) {
    DI_CHECK(new_length >= 0 && new_length <= length() && length() - new_length <= model_.geometry().backtrack_tokens,
             "a sequence cannot be rolled back that far");
    tokens_.resize(static_cast<size_t>(new_length));
}

}  // namespace di
