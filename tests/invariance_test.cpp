// One request, one answer: the bits of a row do not depend on how its prompt was cut, on what else is in the batch, or on
// the number of threads.
#include <cstring>

#include "model_fixture.h"

namespace di {
namespace {

struct Setup {
    std::string checkpoint;
    std::string backend;
};

class Invariance : public testing::TestWithParam<Setup> {
  protected:
    [[nodiscard]] static ModelFixture load(int threads, Replay replay = Replay::kOff) {
        FixtureOptions options;
        options.backend = GetParam().backend;
        options.threads = threads;
        options.model.replay = replay;
        const bool embedded = GetParam().checkpoint == "v41-mini";
        return ModelFixture(std::string(embedded ? DI_MODELS : DI_TEST_DATA) + "/" + GetParam().checkpoint, options);
    }
    // Prompts that differ: a walk through the vocabulary.
    [[nodiscard]] static std::vector<int32_t> prompt(const ModelFixture& fixture, int32_t seed, int32_t length) {
        std::vector<int32_t> ids{0};
        while (static_cast<int32_t>(ids.size()) < length) {
            ids.push_back(
                static_cast<int32_t>((int64_t{ids.back()} * 31 + seed * 17 + static_cast<int64_t>(ids.size()) * 7 + 11) %
                                     fixture.config.vocab_size));
        }
        return ids;
    }
};

TEST_P(Invariance, HoweverThePromptIsCut) {
    const ModelFixture fixture = load(2);
    const std::vector<int32_t> ids = prompt(fixture, 1, 200);
    const std::vector<float> whole = run_in_chunks(fixture, ids, ids.size());
    for (const size_t chunk : {size_t{1}, size_t{3}, size_t{63}, size_t{64}, size_t{127}, size_t{128}}) {
        expect_same_bits(run_in_chunks(fixture, ids, chunk), whole, "chunk " + std::to_string(chunk));
    }
}

TEST_P(Invariance, WhateverTheThreadCount) {
    const std::vector<int32_t> ids = prompt(load(1), 2, 150);
    const std::vector<float> one = run_in_chunks(load(1), ids, 61);
    expect_same_bits(run_in_chunks(load(2), ids, 61), one, "2 threads");
    expect_same_bits(run_in_chunks(load(3), ids, 61), one, "3 threads");
}

// Several sequences in one cache, blocks dealt out in turn.
class ManySequences {
  public:
    ManySequences(const ModelFixture& fixture, int32_t count) : fixture_(fixture), tokens_(static_cast<size_t>(count)) {
        const CacheGeometry& geometry = fixture.model->geometry();
        blocks_.resize(static_cast<size_t>(count * kBlocks * geometry.block_bytes) + 64);
        states_.resize(static_cast<size_t>(count * geometry.state_bytes) + 64);
        cache_ = {.blocks = align(blocks_), .states = align(states_)};
    }
    // Adds `ids` to the sequence's next rows; run() does all that was added.
    void add(int32_t sequence, const std::vector<int32_t>& ids) {
        std::vector<int32_t>& tokens = tokens_[static_cast<size_t>(sequence)];
        SequenceRows rows;
        rows.first_row = batch_.row_count();
        rows.row_count = static_cast<int32_t>(ids.size());
        rows.first_position = static_cast<int32_t>(tokens.size());
        rows.prompt_length = rows.first_position + rows.row_count;
        rows.state_slot = sequence;
        for (int32_t block = 0; block < kBlocks; ++block) {
            rows.block_table.push_back(block * static_cast<int32_t>(tokens_.size()) + sequence);
        }
        for (size_t i = tokens.size() > 3 ? tokens.size() - 3 : 0; i < tokens.size(); ++i) {
            rows.history.push_back(tokens[i]);
        }
        batch_.token_ids.insert(batch_.token_ids.end(), ids.begin(), ids.end());
        batch_.logit_rows.push_back(batch_.row_count() - 1);
        batch_.sequences.push_back(std::move(rows));
        tokens.insert(tokens.end(), ids.begin(), ids.end());
    }
    // Logits of the last row of every added piece, in that order.
    std::vector<std::vector<float>> run() {
        batch_.cache = cache_;
        const Tensor logits = fixture_.model->forward(batch_);
        std::vector<std::vector<float>> rows;
        for (int64_t row = 0; row < logits.rows(); ++row) {
            rows.emplace_back(logits.row<float>(row), logits.row<float>(row) + logits.row_size());
        }
        batch_ = {};
        return rows;
    }

  private:
    static constexpr int32_t kBlocks = 2;
    static uint8_t* align(std::vector<uint8_t>& memory) {
        return reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
    }
    const ModelFixture& fixture_;
    std::vector<std::vector<int32_t>> tokens_;
    std::vector<uint8_t> blocks_, states_;
    CacheMemory cache_;
    Batch batch_;
};

TEST_P(Invariance, AloneOrInAnyBatchAtAnyPlace) {
    const ModelFixture fixture = load(2);
    const std::vector<int32_t> ids = prompt(fixture, 5, 140);
    const std::vector<int32_t> next{7};
    ManySequences alone(fixture, 1);
    alone.add(0, ids);
    const std::vector<float> prefill = alone.run()[0];
    alone.add(0, next);
    const std::vector<float> decode = alone.run()[0];
    for (const int32_t count : {2, 7, 33}) {
        for (int32_t place = 0; place < count; place += count == 33 ? 4 : 1) {
            ManySequences many(fixture, count);
            // The others are of other lengths, the middle one still in its prompt when ours decodes.
            for (int32_t other = 0; other < count; ++other) {
                many.add(other, other == place ? ids : prompt(fixture, 100 + other, 3 + other % 5));
            }
            expect_same_bits(many.run()[static_cast<size_t>(place)], prefill,
                             "prefill in " + std::to_string(count) + " at " + std::to_string(place));
            for (int32_t other = 0; other < count; ++other) {
                many.add(other, other == place ? next : prompt(fixture, 200 + other, 1 + other % 3));
            }
            expect_same_bits(many.run()[static_cast<size_t>(place)], decode,
                             "decode in " + std::to_string(count) + " at " + std::to_string(place));
        }
    }
}

// Verification rows: several tokens at once, some taken back, others in their place.
TEST_P(Invariance, RolledBackTokensLeaveNoTrace) {
    const ModelFixture fixture = load(2);
    const std::vector<int32_t> ids = prompt(fixture, 9, 101);
    const auto straight = fixture.sequence();
    (void)straight->forward(ids, false);
    const auto rolled = fixture.sequence();
    (void)rolled->forward(ids, false);
    for (int32_t round = 1; round <= 3; ++round) {
        const std::vector<int32_t> drafts{round, 2 * round, 3 * round, 4 * round};
        (void)rolled->forward(drafts, true);
        rolled->roll_back(rolled->length() - round);
        std::vector<float> last;
        for (int32_t i = 0; i < 4 - round; ++i) {
            last = straight->forward({&drafts[static_cast<size_t>(i)], 1}, false);
        }
        const int32_t id = 5;
        expect_same_bits(rolled->forward({&id, 1}, false), straight->forward({&id, 1}, false),
                         "round " + std::to_string(round));
    }
}

TEST_P(Invariance, ExactReplayGivesTheSameLastLogits) {
    const ModelFixture off = load(2);
    const ModelFixture exact = load(2, Replay::kExact);
    const std::vector<int32_t> ids = prompt(off, 3, 300);
    const std::vector<int32_t> next{9, 4, 77};
    for (const size_t chunk : {size_t{300}, size_t{128}, size_t{37}}) {
        const auto a = off.sequence();
        const auto b = exact.sequence();
        std::vector<float> last_a, last_b;
        for (size_t first = 0; first < ids.size(); first += chunk) {
            const std::span<const int32_t> part = std::span(ids).subspan(first, std::min(chunk, ids.size() - first));
            last_a = a->forward(part, false, 300);
            last_b = first + chunk < ids.size() ? b->forward_without_logits(part, 300) : b->forward(part, false, 300);
        }
        expect_same_bits(last_b, last_a, "prompt end, chunk " + std::to_string(chunk));
        for (const int32_t id : next) {
            expect_same_bits(b->forward({&id, 1}, false, 300), a->forward({&id, 1}, false, 300),
                             "decode, chunk " + std::to_string(chunk));
        }
    }
}

TEST_P(Invariance, MaskAndCompactReplayAgree) {
    const ModelFixture mask = load(2, Replay::kMask);
    const ModelFixture compact = load(2, Replay::kCompact);
    const std::vector<int32_t> ids = prompt(mask, 4, 300);
    for (const size_t chunk : {size_t{300}, size_t{91}}) {
        const auto a = mask.sequence();
        const auto b = compact.sequence();
        std::vector<float> last_a, last_b;
        for (size_t first = 0; first < ids.size(); first += chunk) {
            const std::span<const int32_t> part = std::span(ids).subspan(first, std::min(chunk, ids.size() - first));
            const bool is_last = first + chunk >= ids.size();
            last_a = is_last ? a->forward(part, false, 300) : a->forward_without_logits(part, 300);
            last_b = is_last ? b->forward(part, false, 300) : b->forward_without_logits(part, 300);
        }
        expect_same_bits(last_b, last_a, "prompt end, chunk " + std::to_string(chunk));
        for (const int32_t id : {9, 4, 77}) {
            expect_same_bits(b->forward({&id, 1}, false, 300), a->forward({&id, 1}, false, 300), "decode");
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Setups, Invariance,
                         testing::Values(Setup{"v41-tiny-quant", "ref"}, Setup{"v41-tiny-quant", "cpu"},
                                         Setup{"v41-mini", "cpu"}),
                         [](const auto& entry) {
                             std::string name = entry.param.checkpoint + "_" + entry.param.backend;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace di
