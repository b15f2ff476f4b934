// A sequence that starts from a snapshot of another one's state gives the bits of one that ran everything itself.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "model_fixture.h"

namespace di {
namespace {

struct Setup {
    std::string checkpoint;
    std::string backend;
};

struct CachedSequence {
    std::vector<int32_t> blocks;
    int32_t slot = -1;
    std::vector<int32_t> tokens;
    std::vector<float> logits;  // of all rows of its last step

    [[nodiscard]] int32_t length() const { return static_cast<int32_t>(tokens.size()); }
};

struct Piece {
    CachedSequence* sequence = nullptr;
    std::vector<int32_t> ids{};
    std::vector<StateSnapshot> snapshots{};
    int32_t prompt_length = -1;  // -1: ends with this piece
};

// Blocks and state slots that sequences share as an engine would share them. All memory starts as garbage.
class SharedCache {
  public:
    explicit SharedCache(const ModelFixture& fixture) : fixture_(fixture), geometry_(fixture.model->geometry()) {
        blocks_.assign(static_cast<size_t>(kBlocks * geometry_.block_bytes) + 64, 0x5A);
        states_.assign(static_cast<size_t>(kSlots * geometry_.state_bytes) + 64, 0x5A);
        cache_ = {.blocks = align(blocks_), .states = align(states_)};
    }

    int32_t take_slot() {
        EXPECT_LT(next_slot_, kSlots);
        return next_slot_++;
    }
    CachedSequence make() { return {.blocks = {}, .slot = take_slot(), .tokens = {}, .logits = {}}; }

    void run(const std::vector<Piece>& pieces) {
        Batch batch;
        batch.cache = cache_;
        for (const Piece& piece : pieces) {
            CachedSequence& sequence = *piece.sequence;
            SequenceRows rows;
            rows.first_row = batch.row_count();
            rows.row_count = static_cast<int32_t>(piece.ids.size());
            rows.first_position = sequence.length();
            rows.prompt_length = piece.prompt_length < 0 ? rows.first_position + rows.row_count : piece.prompt_length;
            rows.state_slot = sequence.slot;
            rows.snapshots = piece.snapshots;
            while (static_cast<int64_t>(sequence.blocks.size()) * geometry_.block_tokens <
                   rows.first_position + rows.row_count) {
                sequence.blocks.push_back(take_block());
            }
            rows.block_table = sequence.blocks;
            const int32_t first_history = std::max(0, sequence.length() - geometry_.history_tokens);
            rows.history.assign(sequence.tokens.begin() + first_history, sequence.tokens.end());
            for (const StateSnapshot& snapshot : piece.snapshots) {
                copy_state(snapshot.state_slot, sequence.slot);
            }
            batch.token_ids.insert(batch.token_ids.end(), piece.ids.begin(), piece.ids.end());
            batch.sequences.push_back(std::move(rows));
        }
        add_logit_rows(batch, pieces);
        const Tensor logits = fixture_.model->forward(batch);
        int64_t row = 0;
        for (size_t i = 0; i < pieces.size(); ++i) {
            CachedSequence& sequence = *pieces[i].sequence;
            sequence.tokens.insert(sequence.tokens.end(), pieces[i].ids.begin(), pieces[i].ids.end());
            const int64_t rows = last_rows_only_ ? 1 : static_cast<int64_t>(pieces[i].ids.size());
            sequence.logits.assign(logits.row<float>(row), logits.row<float>(row) + rows * logits.row_size());
            row += rows;
        }
    }
    void run(CachedSequence& sequence, std::vector<int32_t> ids, std::vector<StateSnapshot> snapshots = {},
             int32_t prompt_length = -1) {
        run({Piece{&sequence, std::move(ids), std::move(snapshots), prompt_length}});
    }
    // Only the last row of every piece has logits: replay drops the others.
    void want_last_rows_only() { last_rows_only_ = true; }

    // A new sequence of the first `position` tokens of `donor`, whose state then lies in `snapshot_slot`: whole blocks are
    // shared, a begun one is copied.
    CachedSequence resume(const CachedSequence& donor, int32_t position, int32_t snapshot_slot) {
        CachedSequence sequence = make();
        copy_state(sequence.slot, snapshot_slot);
        sequence.tokens.assign(donor.tokens.begin(), donor.tokens.begin() + position);
        const auto whole = static_cast<int32_t>(position / geometry_.block_tokens);
        sequence.blocks.assign(donor.blocks.begin(), donor.blocks.begin() + whole);
        if (position % geometry_.block_tokens != 0) {
            sequence.blocks.push_back(take_block());
            fixture_.backend->copy_bytes(cache_.blocks + sequence.blocks.back() * geometry_.block_bytes,
                                         cache_.blocks + donor.blocks[static_cast<size_t>(whole)] * geometry_.block_bytes,
                                         geometry_.block_bytes);
        }
        return sequence;
    }

    // Logits and confidences of a whole drafting round, as if `id` had just been drawn.
    std::vector<float> drafts(const CachedSequence& sequence, int32_t id) {
        const int32_t depth = fixture_.model->draft_depth_max();
        std::vector<float> values;
        if (depth == 0) {
            return values;
        }
        fixture_.model->draft_begin(
            {.sequences = {{.token_id = id, .position = sequence.length(), .state_slot = sequence.slot}},
             .depth = depth,
             .cache = cache_});
        for (int32_t step = 0; step < depth; ++step) {
            const int32_t previous = id + step;
            const Model::DraftStep out = fixture_.model->draft_step(step, {&previous, 1});
            values.insert(values.end(), out.logits.ptr<float>(), out.logits.ptr<float>() + out.logits.size());
            values.push_back(out.confidence.ptr<float>()[0]);
        }
        return values;
    }

  private:
    static constexpr int32_t kBlocks = 64;
    static constexpr int32_t kSlots = 64;
    static uint8_t* align(std::vector<uint8_t>& memory) {
        return reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
    }
    int32_t take_block() {
        EXPECT_LT(next_block_, kBlocks);
        return next_block_++;
    }
    void copy_state(int32_t to, int32_t from) {
        fixture_.backend->copy_bytes(cache_.states + to * geometry_.state_bytes, cache_.states + from * geometry_.state_bytes,
                                     geometry_.state_bytes);
    }
    void add_logit_rows(Batch& batch, const std::vector<Piece>& pieces) const {
        for (size_t i = 0; i < pieces.size(); ++i) {
            const SequenceRows& rows = batch.sequences[i];
            const int32_t end = rows.first_row + rows.row_count;
            for (int32_t row = last_rows_only_ ? end - 1 : rows.first_row; row < end; ++row) {
                batch.logit_rows.push_back(row);
            }
        }
    }

    const ModelFixture& fixture_;
    const CacheGeometry& geometry_;
    std::vector<uint8_t> blocks_, states_;
    CacheMemory cache_;
    int32_t next_block_ = 0;
    int32_t next_slot_ = 0;
    bool last_rows_only_ = false;
};

constexpr int32_t kPrompt = 300;

class Snapshots : public testing::TestWithParam<Setup> {
  protected:
    [[nodiscard]] static ModelFixture load(Replay replay = Replay::kOff) {
        FixtureOptions options;
        options.backend = GetParam().backend;
        options.threads = 2;
        options.model.replay = replay;
        const bool embedded = GetParam().checkpoint == "v41-mini";
        return ModelFixture(std::string(embedded ? DI_MODELS : DI_TEST_DATA) + "/" + GetParam().checkpoint, options);
    }
    // Fewer on the slow backend, still of every kind: block boundary or not, odd, the prompt's end.
    [[nodiscard]] static std::vector<int32_t> positions() {
        return GetParam().backend == "ref" ? std::vector<int32_t>{129, 256, kPrompt}
                                           : std::vector<int32_t>{1, 5, 63, 128, 129, 200, 256, 299, kPrompt};
    }
    [[nodiscard]] static std::vector<int32_t> walk(const ModelFixture& fixture, int32_t seed, int32_t length) {
        std::vector<int32_t> ids{seed % 7};
        while (static_cast<int32_t>(ids.size()) < length) {
            const int64_t next = int64_t{ids.back()} * 31 + seed * 17 + static_cast<int64_t>(ids.size()) * 7 + 11;
            ids.push_back(static_cast<int32_t>(next % fixture.config.vocab_size));
        }
        return ids;
    }
};

std::vector<int32_t> part(const std::vector<int32_t>& ids, int32_t first, int32_t end) {
    return {ids.begin() + first, ids.begin() + end};
}

// `got` equals the last rows of `want`.
void expect_tail_bits(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
    ASSERT_LE(got.size(), want.size()) << what;
    EXPECT_EQ(std::memcmp(got.data(), want.data() + (want.size() - got.size()), got.size() * sizeof(float)), 0) << what;
}

// Runs `ids` in pieces of `chunk`, with a snapshot at each of `positions`.
std::vector<StateSnapshot> run_with_snapshots(SharedCache& cache, CachedSequence& sequence, const Piece& prompt,
                                              const std::vector<int32_t>& positions, int32_t chunk) {
    std::vector<StateSnapshot> all;
    const auto length = static_cast<int32_t>(prompt.ids.size());
    while (sequence.length() < length) {
        const int32_t first = sequence.length();
        const int32_t end = std::min(first + chunk, length);
        std::vector<StateSnapshot> snapshots;
        for (const int32_t position : positions) {
            if (position > first && position <= end) {
                snapshots.push_back({.position = position, .state_slot = cache.take_slot()});
            }
        }
        cache.run(sequence, part(prompt.ids, first, end), snapshots, prompt.prompt_length);
        all.insert(all.end(), snapshots.begin(), snapshots.end());
    }
    return all;
}

TEST_P(Snapshots, ContinueThePromptWithTheBitsOfTheColdRun) {
    const ModelFixture fixture = load();
    const std::vector<int32_t> ids = walk(fixture, 1, kPrompt);
    SharedCache plain_cache(fixture);
    CachedSequence plain = plain_cache.make();
    plain_cache.run(plain, ids);
    const std::vector<float> prompt_logits = plain.logits;
    const std::vector<float> drafts = plain_cache.drafts(plain, 3);
    plain_cache.run(plain, {9});
    for (const int32_t chunk : {kPrompt, 97}) {
        SharedCache cache(fixture);
        CachedSequence donor = cache.make();
        const std::vector<StateSnapshot> snapshots = run_with_snapshots(cache, donor, {.ids = ids}, positions(), chunk);
        ASSERT_EQ(snapshots.size(), positions().size());
        expect_tail_bits(donor.logits, prompt_logits, "the donor itself");
        EXPECT_EQ(cache.drafts(donor, 3), drafts) << "drafts of the donor";
        for (const StateSnapshot& snapshot : snapshots) {
            const std::string what = "chunk " + std::to_string(chunk) + " snapshot at " + std::to_string(snapshot.position);
            CachedSequence warm = cache.resume(donor, snapshot.position, snapshot.state_slot);
            if (snapshot.position < kPrompt) {
                cache.run(warm, part(ids, snapshot.position, kPrompt));
                expect_tail_bits(warm.logits, prompt_logits, what);
            }
            EXPECT_EQ(cache.drafts(warm, 3), drafts) << what;
            cache.run(warm, {9});
            EXPECT_EQ(warm.logits, plain.logits) << what;
        }
    }
}

// What the donor ran behind the snapshot must not show.
TEST_P(Snapshots, ServeAnotherContinuation) {
    const ModelFixture fixture = load();
    const std::vector<int32_t> ids = walk(fixture, 2, kPrompt);
    const std::vector<int32_t> other = walk(fixture, 77, 45);
    SharedCache cache(fixture);
    CachedSequence donor = cache.make();
    for (const StateSnapshot& snapshot : run_with_snapshots(cache, donor, {.ids = ids}, positions(), kPrompt)) {
        const std::string what = "snapshot at " + std::to_string(snapshot.position);
        SharedCache cold_cache(fixture);
        CachedSequence cold = cold_cache.make();
        std::vector<int32_t> whole = part(ids, 0, snapshot.position);
        const std::vector<float> drafts_before = [&] {
            cold_cache.run(cold, whole);
            return cold_cache.drafts(cold, 11);
        }();
        CachedSequence fresh = cold_cache.make();
        whole.insert(whole.end(), other.begin(), other.end());
        cold_cache.run(fresh, whole);
        CachedSequence warm = cache.resume(donor, snapshot.position, snapshot.state_slot);
        EXPECT_EQ(cache.drafts(warm, 11), drafts_before) << what;
        for (const int32_t id : other) {
            cache.run(warm, {id});
        }
        expect_tail_bits(warm.logits, fresh.logits, what);
        EXPECT_EQ(cache.drafts(warm, 11), cold_cache.drafts(fresh, 11)) << what;
    }
}

TEST_P(Snapshots, InsideVerifyRowsHoldTheAcceptedTokens) {
    const ModelFixture fixture = load();
    const std::vector<int32_t> ids = walk(fixture, 3, 262);
    SharedCache plain_cache(fixture);
    CachedSequence plain = plain_cache.make();
    plain_cache.run(plain, ids);
    SharedCache cache(fixture);
    CachedSequence donor = cache.make();
    cache.run(donor, part(ids, 0, 251));
    // Three drafts are refused, so that the ring holds rows of tokens that never were.
    cache.run(donor, {ids[251], 1, 2, 3});
    donor.tokens.resize(252);
    // A snapshot inside accepted rows, with a refused one at the end.
    const StateSnapshot inside{.position = 254, .state_slot = cache.take_slot()};
    const StateSnapshot boundary{.position = 256, .state_slot = cache.take_slot()};
    cache.run(donor, {ids[252], ids[253], ids[254], ids[255], 4}, {inside, boundary});
    donor.tokens.resize(256);
    for (const StateSnapshot& snapshot : {inside, boundary}) {
        const std::string what = "snapshot at " + std::to_string(snapshot.position);
        CachedSequence warm = cache.resume(donor, snapshot.position, snapshot.state_slot);
        cache.run(warm, part(ids, snapshot.position, 262));
        expect_tail_bits(warm.logits, plain.logits, what);
        EXPECT_EQ(cache.drafts(warm, 5), plain_cache.drafts(plain, 5)) << what;
    }
    cache.run(donor, part(ids, 256, 262));
    expect_tail_bits(donor.logits, plain.logits, "the donor itself");
}

TEST_P(Snapshots, OfSeveralSequencesInOneStep) {
    const ModelFixture fixture = load();
    SharedCache cache(fixture);
    SharedCache plain_cache(fixture);
    std::vector<CachedSequence> donors(3);
    std::vector<std::vector<int32_t>> prompts;
    std::vector<Piece> pieces;
    for (int32_t i = 0; i < 3; ++i) {
        donors[static_cast<size_t>(i)] = cache.make();
        prompts.push_back(walk(fixture, 20 + i, 130 + 3 * i));
        pieces.push_back(
            {&donors[static_cast<size_t>(i)],
             prompts.back(),
             {{.position = 20 + i, .state_slot = cache.take_slot()}, {.position = 128, .state_slot = cache.take_slot()}}});
    }
    cache.run(pieces);
    for (size_t i = 0; i < donors.size(); ++i) {
        CachedSequence plain = plain_cache.make();
        plain_cache.run(plain, prompts[i]);
        EXPECT_EQ(donors[i].logits, plain.logits);
        for (const StateSnapshot& snapshot : pieces[i].snapshots) {
            CachedSequence warm = cache.resume(donors[i], snapshot.position, snapshot.state_slot);
            cache.run(warm, part(prompts[i], snapshot.position, static_cast<int32_t>(prompts[i].size())));
            expect_tail_bits(warm.logits, plain.logits, "sequence " + std::to_string(i));
        }
    }
}

// Rows that replay leaves out are in no ring; for a prompt of the same length they are not missed.
TEST_P(Snapshots, OfAReplayedPromptServeAPromptOfThatLength) {
    for (const Replay replay : {Replay::kMask, Replay::kCompact, Replay::kExact}) {
        const ModelFixture fixture = load(replay);
        const std::vector<int32_t> ids = walk(fixture, 4, kPrompt);
        SharedCache cache(fixture);
        cache.want_last_rows_only();
        CachedSequence donor = cache.make();
        const std::vector<StateSnapshot> snapshots =
            run_with_snapshots(cache, donor, {.ids = ids, .prompt_length = kPrompt}, positions(), kPrompt);
        for (const StateSnapshot& snapshot : snapshots) {
            if (snapshot.position < kPrompt) {
                CachedSequence warm = cache.resume(donor, snapshot.position, snapshot.state_slot);
                cache.run(warm, part(ids, snapshot.position, kPrompt), {}, kPrompt);
                EXPECT_EQ(warm.logits, donor.logits) << "replay " << static_cast<int>(replay) << " at " << snapshot.position;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Setups, Snapshots,
                         testing::Values(Setup{"v41-tiny", "ref"}, Setup{"v41-tiny", "cpu"}, Setup{"v41-tiny-quant", "ref"},
                                         Setup{"v41-tiny-quant", "cpu"}, Setup{"v41-mini", "cpu"}),
                         [](const auto& entry) {
                             std::string name = entry.param.checkpoint + "_" + entry.param.backend;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace di
