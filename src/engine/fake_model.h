#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "backend/ref/ref_backend.h"
#include "base/check.h"
#include "engine/engine.h"
#include "model/model.h"

// Test doubles of the engine's neighbours below: a model whose logits are a hash of the whole context as it reads it back from
// the cache pages, the state slot and the history that it is given. A wrong block, slot, position, history or embedding
// changes the logits, which `fake_logits` gives directly from the tokens.
namespace di {

// Counts live allocations and can refuse sizes.
class CountingBackend : public ref::RefBackend {
  public:
    CountingBackend() : RefBackend(BackendOptions{}) {}

    void* allocate(int64_t bytes) override {
        if (bytes == refused_bytes) {
            return nullptr;
        }
        ++live_count;
        return RefBackend::allocate(bytes);
    }
    void release(void* memory) override {
        --live_count;
        RefBackend::release(memory);
    }

    int64_t refused_bytes = -1;
    int64_t live_count = 0;
};

inline constexpr int64_t kFakeVocab = 61;
inline constexpr int64_t kFakeBlockTokens = 4;
inline constexpr int64_t kFakeRing = 6;       // newest values that logits depend on once more
inline constexpr int32_t kFakeBacktrack = 4;  // drafts of a round
inline constexpr int64_t kFakeRingRows = kFakeRing + kFakeBacktrack;
inline constexpr int32_t kFakeHistory = 3;
inline constexpr int64_t kFakeEmbedding = 5;
inline constexpr int64_t kFakePatchValues = 2;
inline constexpr int32_t kFakeNanToken = 60;  // the logits behind a prompt that holds it are not numbers
inline constexpr int64_t kFakeGridMax = 9;    // patches

inline uint64_t fake_mix(uint64_t state, uint64_t value) {
    state ^= value + 0x9E3779B97F4A7C15ULL + (state << 6) + (state >> 2);
    state *= 0xBF58476D1CE4E5B9ULL;
    return state ^ (state >> 29);
}

// What one row of context means to the model.
struct FakeEntry {
    uint64_t value = 0;      // of the token or the image row
    int32_t history_id = 0;  // as a later step must bring it along
    bool is_nan = false;
};

inline FakeEntry fake_token(int32_t id) { return {fake_mix(1, static_cast<uint64_t>(id)), id, id == kFakeNanToken}; }

inline float fake_embedding(const RequestImage& image, int64_t row, int64_t column) {
    float sum = 0.0F;
    for (const float value : image.patches) {
        sum = sum * 0.5F + value;
    }
    return sum + static_cast<float>(row * 16 + column);
}

inline FakeEntry fake_image_row(std::span<const float> embedding) {
    uint64_t value = 2;
    for (const float x : embedding) {
        uint32_t bits = 0;
        std::memcpy(&bits, &x, sizeof(bits));
        value = fake_mix(value, bits);
    }
    return {value, kImageHistory, false};
}

inline std::vector<float> fake_logits_of(uint64_t context) {
    std::vector<float> logits;
    for (int64_t id = 0; id < kFakeVocab; ++id) {
        const uint64_t bits = fake_mix(context, static_cast<uint64_t>(id) + 1000);
        logits.push_back(static_cast<float>(bits >> 40) * 0x1p-24F * 6.0F - 3.0F);
    }
    return logits;
}

// Logits behind `entries`, computed without any cache.
inline std::vector<float> fake_logits(std::span<const FakeEntry> entries) {
    uint64_t context = 3;
    for (const FakeEntry& entry : entries) {
        context = fake_mix(context, entry.value);
    }
    const auto count = static_cast<int64_t>(entries.size());
    for (int64_t p = std::max<int64_t>(0, count - kFakeRing); p < count; ++p) {
        context = fake_mix(context, entries[static_cast<size_t>(p)].value);
    }
    for (int64_t p = std::max<int64_t>(0, count - 1 - kFakeHistory); p < count - 1; ++p) {
        context = fake_mix(context, static_cast<uint64_t>(int64_t{entries[static_cast<size_t>(p)].history_id}));
    }
    return fake_logits_of(context);
}

struct FakeShape {
    bool has_vision = false;
    int64_t block_tokens = kFakeBlockTokens;
    int32_t draft_depth = 0;       // up to kFakeBacktrack
    int32_t draft_right_of_8 = 6;  // drafts that are the target's own, on average
    int32_t logit_rows_max = 1 << 20;
};

class FakeModel : public Model {
  public:
    explicit FakeModel(const FakeShape& shape = {}) : shape_(shape) {
        geometry_.block_tokens = shape.block_tokens;
        geometry_.block_bytes = shape.block_tokens * 8 + 24;  // with padding
        geometry_.state_bytes = kFakeRingRows * static_cast<int64_t>(sizeof(RingRow)) + 8;
        geometry_.history_tokens = kFakeHistory;
        geometry_.backtrack_tokens = kFakeBacktrack;
    }

    [[nodiscard]] const CacheGeometry& geometry() const override { return geometry_; }
    [[nodiscard]] int64_t vocab_size() const override { return kFakeVocab; }
    [[nodiscard]] int32_t logit_rows_max() const override { return shape_.logit_rows_max; }
    [[nodiscard]] int64_t workspace_bytes() const override { return 0; }

    Tensor forward(const Batch& batch) override {
        ++step_count;
        if (on_forward) {
            on_forward(batch.row_count());
        }
        rows_seen.push_back(batch.row_count());
        sequences_seen.push_back(static_cast<int32_t>(batch.sequences.size()));
        logits_.clear();
        size_t next_logit = 0;
        for (const SequenceRows& rows : batch.sequences) {
            for (int32_t i = 0; i < rows.row_count; ++i) {
                const int32_t row = rows.first_row + i;
                const std::vector<float> logits = run_row(batch, rows, i);
                if (next_logit < batch.logit_rows.size() && batch.logit_rows[next_logit] == row) {
                    logits_.insert(logits_.end(), logits.begin(), logits.end());
                    ++next_logit;
                }
            }
        }
        DI_CHECK(next_logit == batch.logit_rows.size(), "logit rows must be rows of the batch, ascending");
        if (logits_.empty()) {
            return {};
        }
        return {logits_.data(), DType::kF32, {static_cast<int64_t>(next_logit), kFakeVocab}};
    }

    [[nodiscard]] int32_t draft_depth_max() const override { return shape_.draft_depth; }
    void draft_begin(const DraftBatch& batch) override {
        DI_CHECK(batch.depth >= 1 && batch.depth <= shape_.draft_depth, "a depth that the drafter does not have");
        ++draft_rounds;
        draft_batch_ = batch;
        draft_tails_.clear();
        for (const DraftRow& row : batch.sequences) {
            draft_tails_.push_back(read_tail(row));
        }
    }
    // The target's own logits behind the drafts so far, or some others: what is right depends on the context.
    DraftStep draft_step(int32_t /*depth*/, std::span<const int32_t> previous_ids) override {
        draft_logits_.clear();
        confidences_.clear();
        for (size_t i = 0; i < draft_tails_.size(); ++i) {
            Tail& tail = draft_tails_[i];
            push(tail, fake_token(previous_ids[i]));
            const uint64_t context = context_of(tail);
            const bool is_right = static_cast<int32_t>(fake_mix(context, 77) >> 61) < shape_.draft_right_of_8;
            const std::vector<float> logits = fake_logits_of(is_right ? context : context + 1);
            draft_logits_.insert(draft_logits_.end(), logits.begin(), logits.end());
            confidences_.push_back(is_right ? 0.9F : 0.2F);
        }
        const auto count = static_cast<int64_t>(draft_tails_.size());
        return {.logits = {draft_logits_.data(), DType::kF32, {count, kFakeVocab}},
                .confidence = {confidences_.data(), DType::kF32, {count}}};
    }

    [[nodiscard]] bool has_vision() const override { return shape_.has_vision; }
    [[nodiscard]] int64_t embedding_size() const override { return kFakeEmbedding; }
    [[nodiscard]] int64_t patch_values() const override { return kFakePatchValues; }
    [[nodiscard]] int64_t image_token_count(int64_t grid_height, int64_t grid_width) const override {
        return grid_height * grid_width > kFakeGridMax ? 0 : grid_height * grid_width + 2;
    }
    void encode_image(const ImageInput& image, const Tensor& output) override {
        ++images_encoded;
        const float* patches = image.patches.ptr<float>();
        const RequestImage copy{.patches = {patches, patches + image.patches.size()}};
        for (int64_t row = 0; row < output.rows(); ++row) {
            for (int64_t column = 0; column < kFakeEmbedding; ++column) {
                output.row<float>(row)[column] = fake_embedding(copy, row, column);
            }
        }
    }
    void set_probe(Probe /*probe*/) override {}

    std::function<void(int32_t rows)> on_forward;  // lets virtual time pass
    int64_t step_count = 0;
    int64_t images_encoded = 0;
    int64_t draft_rounds = 0;
    std::vector<int32_t> rows_seen;       // of each step
    std::vector<int32_t> sequences_seen;  // of each step

  private:
    [[nodiscard]] FakeEntry entry_of(const Batch& batch, int32_t row) const {
        if (batch.is_image.empty() || batch.is_image[static_cast<size_t>(row)] == 0) {
            return fake_token(batch.token_ids[static_cast<size_t>(row)]);
        }
        for (size_t i = 0; i < batch.image_rows.size(); ++i) {
            if (batch.image_rows[i] == row) {
                return fake_image_row({batch.image_embeddings[i].ptr<float>(), static_cast<size_t>(kFakeEmbedding)});
            }
        }
        DI_CHECK(false, "an image row without embedding");
        return {};
    }

    [[nodiscard]] uint8_t* page_entry(const Batch& batch, const SequenceRows& rows, int64_t position) const {
        const int64_t block = rows.block_table.at(static_cast<size_t>(position / shape_.block_tokens));
        return batch.cache.blocks + block * geometry_.block_bytes + position % shape_.block_tokens * 8;
    }

    // What a state slot keeps of a position.
    struct RingRow {
        uint64_t value = 0;
        uint64_t fold = 0;  // of all values up to here
        int64_t history_id = 0;
    };
    // The end of a context, as the state slot has it.
    struct Tail {
        uint64_t fold = 3;
        std::vector<RingRow> rows;  // the newest ones, oldest first
    };

    [[nodiscard]] uint8_t* ring_entry(const CacheMemory& cache, int32_t slot, int64_t position) const {
        return cache.states + slot * geometry_.state_bytes + position % kFakeRingRows * static_cast<int64_t>(sizeof(RingRow));
    }

    [[nodiscard]] Tail read_tail(const DraftRow& row) const {
        Tail tail;
        for (int64_t p = std::max<int64_t>(0, row.position - kFakeRing); p < row.position; ++p) {
            RingRow stored;
            std::memcpy(&stored, ring_entry(draft_batch_.cache, row.state_slot, p), sizeof(stored));
            tail.fold = stored.fold;
            tail.rows.push_back(stored);
        }
        return tail;
    }

    static void push(Tail& tail, const FakeEntry& entry) {
        tail.fold = fake_mix(tail.fold, entry.value);
        tail.rows.push_back({.value = entry.value, .fold = tail.fold, .history_id = entry.history_id});
    }

    // As fake_logits folds it.
    [[nodiscard]] static uint64_t context_of(const Tail& tail) {
        uint64_t context = tail.fold;
        const auto count = static_cast<int64_t>(tail.rows.size());
        for (int64_t p = std::max<int64_t>(0, count - kFakeRing); p < count; ++p) {
            context = fake_mix(context, tail.rows[static_cast<size_t>(p)].value);
        }
        for (int64_t p = std::max<int64_t>(0, count - 1 - kFakeHistory); p < count - 1; ++p) {
            context = fake_mix(context, static_cast<uint64_t>(tail.rows[static_cast<size_t>(p)].history_id));
        }
        return context;
    }

    [[nodiscard]] static uint64_t load(const uint8_t* from) {
        uint64_t value = 0;
        std::memcpy(&value, from, sizeof(value));
        return value;
    }

    // Stores the row, then hashes the context as fake_logits does, from what is stored.
    [[nodiscard]] std::vector<float> run_row(const Batch& batch, const SequenceRows& rows, int32_t index) const {
        const int32_t row = rows.first_row + index;
        const int64_t position = rows.first_position + index;
        const FakeEntry entry = entry_of(batch, row);
        // Stored as 0, so that later rows see it in their context. Drawn by the model itself it means nothing.
        const uint64_t value = entry.is_nan && position < rows.prompt_length ? 0 : entry.value;
        std::memcpy(page_entry(batch, rows, position), &value, sizeof(value));
        uint64_t context = 3;
        bool is_nan = false;
        for (int64_t p = 0; p <= position; ++p) {
            const uint64_t stored = load(page_entry(batch, rows, p));
            is_nan = is_nan || stored == 0;
            context = fake_mix(context, stored);
        }
        const RingRow stored{.value = value, .fold = context, .history_id = entry.history_id};
        std::memcpy(ring_entry(batch.cache, rows.state_slot, position), &stored, sizeof(stored));
        for (const StateSnapshot& snapshot : rows.snapshots) {
            if (position < snapshot.position) {
                std::memcpy(ring_entry(batch.cache, snapshot.state_slot, position), &stored, sizeof(stored));
            }
        }
        for (int64_t p = std::max<int64_t>(0, position + 1 - kFakeRing); p <= position; ++p) {
            context = fake_mix(context, load(ring_entry(batch.cache, rows.state_slot, p)));
        }
        for (int64_t p = std::max<int64_t>(0, position - kFakeHistory); p < position; ++p) {
            context = fake_mix(context, static_cast<uint64_t>(int64_t{history_id(batch, rows, p)}));
        }
        if (is_nan) {
            return std::vector<float>(static_cast<size_t>(kFakeVocab), __builtin_nanf(""));
        }
        return fake_logits_of(context);
    }

    [[nodiscard]] int32_t history_id(const Batch& batch, const SequenceRows& rows, int64_t position) const {
        if (position >= rows.first_position) {
            return entry_of(batch, static_cast<int32_t>(rows.first_row + position - rows.first_position)).history_id;
        }
        const int64_t from_end = rows.first_position - position;
        return rows.history.at(rows.history.size() - static_cast<size_t>(from_end));
    }

    FakeShape shape_;
    CacheGeometry geometry_;
    DraftBatch draft_batch_;
    std::vector<Tail> draft_tails_;
    std::vector<float> draft_logits_;
    std::vector<float> confidences_;
    std::vector<float> logits_;
};

}  // namespace di
