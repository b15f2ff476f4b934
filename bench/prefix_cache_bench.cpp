// Cost of prefix cache bookkeeping, each time with 100,000 blocks in the cache. The budget of a whole step of 256 sequences
// is 300 us; such a step fills two blocks on average when all decode, and 64 with a prompt chunk of 8,192 tokens.
#include <cstdlib>
#include <span>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/random.h"
#include "kv/prefix_cache.h"

namespace {

constexpr int32_t kBlocks = 100000;
constexpr int32_t kSlots = 512;
constexpr size_t kChain = 256;  // blocks of a conversation: 32,768 tokens

// Conversations of kChain blocks, the first half of each shared by eight of them.
struct World {
    di::BlockPool blocks{kBlocks};
    di::BlockPool slots{kSlots};
    di::PrefixCache cache{blocks, slots, {.snapshots_max = kSlots}};
    uint64_t next_conversation = 0;

    static std::vector<di::PrefixKey> keys(uint64_t conversation) {
        std::vector<di::PrefixKey> chain;
        for (size_t i = 0; i < kChain; ++i) {
            const uint64_t owner = i < kChain / 2 ? conversation / 8 : conversation;
            di::SeededRandom random(owner * 4096 + i + (i < kChain / 2 ? 0 : uint64_t{1} << 40));
            chain.push_back({.low = random.next(), .high = random.next()});
        }
        return chain;
    }
    // Runs a conversation to its end and leaves; how many blocks it ran.
    int64_t run(const std::vector<di::PrefixKey>& chain) {
        di::PrefixMatch match = cache.match(chain);
        int64_t ran = 0;
        for (size_t count = match.blocks.size() + 1; count <= chain.size(); ++count, ++ran) {
            if (!cache.evict_blocks(1) || !cache.evict_snapshots(1)) {
                std::abort();
            }
            match.blocks.push_back(*blocks.allocate());
            cache.insert(std::span(chain).first(count), match.blocks.back(), *slots.allocate());
        }
        blocks.release_all(match.blocks);
        if (match.snapshot_slot >= 0) {
            slots.release(match.snapshot_slot);
        }
        return ran;
    }
    void fill() {
        while (blocks.free_count() > 0) {
            run(keys(next_conversation++));
        }
    }
};

World& world() {
    static World instance;
    instance.fill();
    return instance;
}

// One block and one snapshot in, one of each out; keys prepared.
void insert_and_evict(benchmark::State& state) {
    World& w = world();
    int64_t blocks = 0;
    for (auto _ : state) {
        state.PauseTiming();
        const std::vector<di::PrefixKey> chain = World::keys(w.next_conversation++);
        state.ResumeTiming();
        blocks += w.run(chain);
    }
    state.counters["block"] =
        benchmark::Counter(static_cast<double>(blocks), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// A hit of up to 256 blocks, taken and given back.
void match_and_release(benchmark::State& state) {
    World& w = world();
    const std::vector<di::PrefixKey> chain = World::keys(w.next_conversation - 1);
    w.run(chain);
    for (auto _ : state) {
        di::PrefixMatch match = w.cache.match(chain);
        benchmark::DoNotOptimize(match.block_count);
        w.blocks.release_all(match.blocks);
        w.slots.release(match.snapshot_slot);
    }
}

void peek(benchmark::State& state) {
    World& w = world();
    const std::vector<di::PrefixKey> chain = World::keys(w.next_conversation - 1);
    for (auto _ : state) {
        benchmark::DoNotOptimize(w.cache.peek(chain));
    }
}

void keys_of_256_blocks(benchmark::State& state) {
    const std::vector<int32_t> tokens(kChain * 128, 17);
    const di::PrefixKey root = di::prefix_root("bench", "");
    for (auto _ : state) {
        std::vector<di::PrefixKey> chain;
        di::extend_prefix_keys(root, tokens, {}, 128, chain);
        benchmark::DoNotOptimize(chain.data());
    }
}

BENCHMARK(insert_and_evict);
BENCHMARK(match_and_release);
BENCHMARK(peek);
BENCHMARK(keys_of_256_blocks);

}  // namespace

BENCHMARK_MAIN();
