#pragma once

#include <cstdint>
#include <cstring>
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
inline constexpr int64_t kFakeRing = 6;
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

class FakeModel : public Model {
  public:
    explicit FakeModel(bool has_vision = false) : has_vision_(has_vision) {
        geometry_.block_tokens = kFakeBlockTokens;
        geometry_.block_bytes = kFakeBlockTokens * 8 + 24;  // with padding
        geometry_.state_bytes = kFakeRing * 8 + 8;
        geometry_.history_tokens = kFakeHistory;
    }

    [[nodiscard]] const CacheGeometry& geometry() const override { return geometry_; }
    [[nodiscard]] int64_t vocab_size() const override { return kFakeVocab; }
    [[nodiscard]] int64_t workspace_bytes() const override { return 0; }

    Tensor forward(const Batch& batch) override {
        ++step_count;
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

    [[nodiscard]] int32_t draft_depth_max() const override { return 0; }
    void draft_begin(const DraftBatch& /*batch*/) override { DI_CHECK(false, "the fake model does not draft"); }
    DraftStep draft_step(int32_t /*depth*/, std::span<const int32_t> /*previous_ids*/) override {
        DI_CHECK(false, "the fake model does not draft");
        return {};
    }

    [[nodiscard]] bool has_vision() const override { return has_vision_; }
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

    int64_t step_count = 0;
    int64_t images_encoded = 0;
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
        const int64_t block = rows.block_table.at(static_cast<size_t>(position / kFakeBlockTokens));
        return batch.cache.blocks + block * geometry_.block_bytes + position % kFakeBlockTokens * 8;
    }

    [[nodiscard]] uint8_t* ring_entry(const Batch& batch, const SequenceRows& rows, int64_t position) const {
        return batch.cache.states + rows.state_slot * geometry_.state_bytes + position % kFakeRing * 8;
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
        std::memcpy(ring_entry(batch, rows, position), &value, sizeof(value));
        uint64_t context = 3;
        bool is_nan = false;
        for (int64_t p = 0; p <= position; ++p) {
            const uint64_t stored = load(page_entry(batch, rows, p));
            is_nan = is_nan || stored == 0;
            context = fake_mix(context, stored);
        }
        for (int64_t p = std::max<int64_t>(0, position + 1 - kFakeRing); p <= position; ++p) {
            context = fake_mix(context, load(ring_entry(batch, rows, p)));
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

    bool has_vision_;
    CacheGeometry geometry_;
    std::vector<float> logits_;
};

}  // namespace di
