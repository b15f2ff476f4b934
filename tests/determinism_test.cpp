// One request, one answer: tokens and log-probabilities of a request with a seed, bit for bit, whatever else runs, however it is
// computed (behaviours B34, B35). DEEPINFER_DETERMINISM=all runs the whole product of ways, =N a seeded sample of N of them for each model.
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>

#include "base/clock.h"
#include "base/random.h"
#include "engine/continuous_engine.h"
#include "model_fixture.h"

namespace di {
namespace {

constexpr int32_t kRequests = 50;
constexpr int32_t kLengthMax = 300;

// A constraint whose state depends on every token before: wrong bookkeeping of drafts, rollback or samples changes what it allows.
class ParityMask : public TokenMask {
  public:
    explicit ParityMask(int64_t vocab) : vocab_(vocab) {}
    bool accept(int32_t id) override {
        if (!allows(id)) {
            return false;
        }
        states_.push_back(states_.back() * 31 + static_cast<uint32_t>(id) + 1);
        return true;
    }
    void rollback(int32_t count) override { states_.resize(states_.size() - static_cast<size_t>(count)); }
    bool fill(std::span<uint32_t> words) override {
        std::fill(words.begin(), words.end(), 0U);
        for (int64_t id = 0; id < vocab_; ++id) {
            if (allows(static_cast<int32_t>(id))) {
                words[static_cast<size_t>(id / 32)] |= 1U << (id % 32);
            }
        }
        return true;
    }
    [[nodiscard]] bool is_finished() const override { return false; }
    [[nodiscard]] std::unique_ptr<TokenMask> clone() const override { return std::make_unique<ParityMask>(*this); }

  private:
    [[nodiscard]] bool allows(int32_t id) const { return (static_cast<uint32_t>(id) * 2654435761U + states_.back()) % 3 != 0; }

    int64_t vocab_;
    std::vector<uint32_t> states_{1};
};

class ParitySource : public TokenMaskSource {
  public:
    explicit ParitySource(int64_t vocab) : vocab_(vocab) {}
    [[nodiscard]] bool is_ready() const override { return true; }
    [[nodiscard]] Result<std::unique_ptr<TokenMask>> create() const override {
        return std::unique_ptr<TokenMask>(std::make_unique<ParityMask>(vocab_));
    }
    void cancel() override {}

  private:
    int64_t vocab_;
};

// Prompts that share beginnings of many lengths, greedy and drawn, with and without a constraint.
std::vector<TokenRequest> make_requests(int64_t vocab) {
    constexpr uint64_t kSeed = 41;
    SeededRandom random(kSeed);
    std::vector<int32_t> stems[3];
    for (auto& stem : stems) {
        for (int i = 0; i < 260; ++i) {
            stem.push_back(static_cast<int32_t>(3 + random.below(vocab - 3)));
        }
    }
    std::vector<TokenRequest> requests;
    for (int32_t i = 0; i < kRequests; ++i) {
        TokenRequest request;
        request.id = static_cast<uint64_t>(i) + 1;
        const std::vector<int32_t>& stem = stems[i % 3];
        // Every fourth answer outgrows its block, and is longer than the others let expect: in a small pool somebody must give way.
        const bool outgrows = i % 4 == 0;
        request.prompt_token_ids.assign(stem.begin(), stem.begin() + (outgrows ? 95 + random.below(10) : random.below(260)));
        for (int64_t own = 1 + random.below(20); own > 0; --own) {
            request.prompt_token_ids.push_back(static_cast<int32_t>(3 + random.below(vocab - 3)));
        }
        request.sampling.max_tokens = static_cast<int32_t>(outgrows ? 40 : 3 + random.below(12));
        request.sampling.ignore_eos = outgrows;
        request.sampling.temperature = i % 2 == 0 ? 0.0 : 1.0;
        request.sampling.top_p = i % 4 == 1 ? 0.9 : 1.0;
        request.sampling.seed = static_cast<uint64_t>(i) * 17;
        request.sampling.logprobs = true;
        request.sampling.top_logprobs = i % 5;
        request.sampling.repetition_penalty = i % 7 == 3 ? 1.2 : 1.0;
        request.sampling.n = i % 10 == 4 ? 2 : 1;
        if (i % 3 == 2) {
            request.mask = std::make_shared<ParitySource>(vocab);
        }
        requests.push_back(std::move(request));
    }
    return requests;
}

struct SampleAnswer {
    std::vector<int32_t> token_ids;
    std::vector<float> logprobs;
    std::vector<float> top;
    FinishReason finish = FinishReason::kNone;
    bool operator==(const SampleAnswer&) const = default;
};
using AllAnswers = std::map<std::pair<uint64_t, int32_t>, SampleAnswer>;

enum class CacheWay { kOff, kCold, kWarm, kEvicted };

// One way to compute all requests.
struct Way {
    int32_t batch = 1;
    bool shuffled = false;
    int32_t rows = 512;
    CacheWay cache = CacheWay::kOff;
    int32_t drafts = 0;
    bool scheduled = false;
    bool small_pool = false;
    bool asynchronous = false;
    int threads = 1;

    [[nodiscard]] std::string text() const {
        return fmt::format("batch {} shuffled {} rows {} cache {} drafts {} scheduled {} small pool {} async {} threads {}",
                           batch, shuffled, rows, static_cast<int>(cache), drafts, scheduled, small_pool, asynchronous,
                           threads);
    }
};

std::vector<Way> all_ways(int32_t depth) {
    std::vector<Way> ways;
    for (const int32_t batch : {1, 2, 7, 33}) {
        for (const int32_t rows : {1, 64, 128, 512}) {
            for (const CacheWay cache : {CacheWay::kOff, CacheWay::kCold, CacheWay::kWarm, CacheWay::kEvicted}) {
                for (const int32_t drafts : {0, 1, 3, 5}) {
                    for (int bits = 0; bits < 32; ++bits) {
                        ways.push_back({.batch = batch,
                                        .shuffled = (bits & 1) != 0,
                                        .rows = rows,
                                        .cache = cache,
                                        .drafts = std::min(drafts, depth),
                                        .scheduled = (bits & 2) != 0,
                                        .small_pool = (bits & 4) != 0,
                                        .asynchronous = (bits & 8) != 0,
                                        .threads = (bits & 16) != 0 ? 2 : 1});
                    }
                }
            }
        }
    }
    return ways;
}

class Determinism {
  public:
    explicit Determinism(const std::string& directory) {
        for (const int threads : {1, 2}) {
            FixtureOptions options;
            options.backend = "cpu";
            options.threads = threads;
            fixtures_.push_back(std::make_unique<ModelFixture>(directory, options));
        }
        requests_ = make_requests(fixtures_[0]->config.vocab_size);
        depth_ = fixtures_[0]->model->draft_depth_max();
    }

    [[nodiscard]] int32_t depth() const { return depth_; }

    AllAnswers run(const Way& way) {
        ModelFixture& fixture = *fixtures_[static_cast<size_t>(way.threads - 1)];
        EngineLimits limits{.max_model_len = kLengthMax + 20, .max_num_seqs = way.batch, .max_num_batched_tokens = way.rows};
        const int64_t block_bytes = fixture.model->geometry().block_bytes;
        limits.kv_memory_bytes = (way.small_pool ? 7 : 3 * way.batch + 40) * block_bytes;  // a request takes up to 3
        limits.snapshot_slots = way.cache == CacheWay::kOff ? 0 : (way.cache == CacheWay::kEvicted ? 4 : 60);
        EngineBehaviour behaviour;
        behaviour.deterministic = true;
        behaviour.asynchronous = way.asynchronous;
        behaviour.prefix_cache = way.cache != CacheWay::kOff;
        behaviour.drafts = way.drafts;
        behaviour.scheduled_verify = way.scheduled;
        SystemClock clock;
        SeededRandom random(3);
        auto engine = ModelFixture::take(ContinuousEngine::create(*fixture.model, *fixture.backend, limits, behaviour,
                                                                  {fixture.config.eos_token_id}, clock, random));
        AllAnswers answers = run_all(*engine, way);
        if (way.cache == CacheWay::kWarm) {
            answers = run_all(*engine, way);
        }
        preemptions += engine->stats().preemptions;
        cached_tokens += engine->stats().cached_tokens;
        accepted_tokens += engine->stats().accepted_tokens;
        return answers;
    }

    int64_t preemptions = 0;
    int64_t cached_tokens = 0;
    int64_t accepted_tokens = 0;

  private:
    AllAnswers run_all(ContinuousEngine& engine, const Way& way) {
        std::vector<size_t> order(requests_.size());
        std::iota(order.begin(), order.end(), size_t{0});
        SeededRandom random(static_cast<uint64_t>(way.batch) * 100 + static_cast<uint64_t>(way.rows));
        for (size_t i = order.size(); way.shuffled && i > 1; --i) {
            std::swap(order[i - 1], order[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
        }
        AllAnswers answers;
        size_t next = 0;
        size_t unfinished = 0;
        while (next < order.size() || engine.has_unfinished()) {
            // Alone means alone; else arrivals are spread over steps.
            while (next < order.size() && unfinished < static_cast<size_t>(way.batch) * 2 &&
                   (way.batch > 1 || unfinished == 0)) {
                engine.add_request(requests_[order[next++]]);
                ++unfinished;
            }
            for (StepOutput& output : engine.step()) {
                unfinished -= take(output, answers[{output.request_id, output.sample_index}]) ? 1 : 0;
            }
        }
        return answers;
    }

    // True when the request's last sample has ended.
    bool take(StepOutput& output, SampleAnswer& answer) {
        answer.token_ids.insert(answer.token_ids.end(), output.token_ids.begin(), output.token_ids.end());
        answer.logprobs.insert(answer.logprobs.end(), output.logprobs.begin(), output.logprobs.end());
        for (const auto& list : output.top_logprobs) {
            for (const TokenLogprob& entry : list) {
                answer.top.push_back(static_cast<float>(entry.token_id));
                answer.top.push_back(entry.logprob);
            }
        }
        if (output.finish == FinishReason::kNone) {
            return false;
        }
        EXPECT_NE(output.finish, FinishReason::kError) << (output.error ? output.error->text : "");
        answer.finish = output.finish;
        int32_t& ended = ended_[output.request_id];
        if (++ended < requests_[output.request_id - 1].sampling.n) {
            return false;
        }
        ended_.erase(output.request_id);
        return true;
    }

    std::vector<std::unique_ptr<ModelFixture>> fixtures_;
    std::vector<TokenRequest> requests_;
    int32_t depth_ = 0;
    std::map<uint64_t, int32_t> ended_;
};

void check(const std::string& directory, int64_t sample_count) {
    Determinism determinism(directory);
    const std::vector<Way> ways = all_ways(determinism.depth());
    const char* asked = std::getenv("DEEPINFER_DETERMINISM");
    const bool all = asked != nullptr && std::string(asked) == "all";
    const int64_t count = all ? static_cast<int64_t>(ways.size()) : (asked != nullptr ? std::atoll(asked) : sample_count);
    constexpr uint64_t kSeed = 2026;
    SeededRandom random(kSeed);
    fmt::print("{}: {} + 1 of {} ways (seed {}), {} requests each\n", directory, count, ways.size(), kSeed, kRequests);
    const AllAnswers expected = determinism.run({});
    // The first is always the one with everything at once: drafts, a cache that is warm, too few blocks, two threads.
    const Way crowded{.batch = 7,
                      .rows = 64,
                      .cache = CacheWay::kWarm,
                      .drafts = determinism.depth(),
                      .scheduled = true,
                      .small_pool = true,
                      .asynchronous = true,
                      .threads = 2};
    for (int64_t i = -1; i < count; ++i) {
        const size_t place =
            static_cast<size_t>(all ? std::max<int64_t>(i, 0) : random.below(static_cast<int64_t>(ways.size())));
        const Way& way = i < 0 ? crowded : ways[place];
        const AllAnswers answers = determinism.run(way);
        ASSERT_EQ(answers.size(), expected.size()) << way.text();
        for (const auto& [key, answer] : expected) {
            ASSERT_TRUE(answers.at(key) == answer)
                << "request " << key.first << " sample " << key.second << " differs: " << way.text();
        }
    }
    // The ways meet what they are made for.
    EXPECT_GT(determinism.preemptions, 0);
    EXPECT_GT(determinism.cached_tokens, 0);
    if (determinism.depth() > 0) {
        EXPECT_GT(determinism.accepted_tokens, 0);
    }
}

TEST(Determinism, OneRequestOneAnswerOnMini) { check(std::string(DI_MODELS) + "/v41-mini", 4); }
TEST(Determinism, OneRequestOneAnswerOnTiny) { check(std::string(DI_TEST_DATA) + "/v41-tiny", 7); }
TEST(Determinism, OneRequestOneAnswerOnTinyQuant) { check(std::string(DI_TEST_DATA) + "/v41-tiny-quant", 7); }

}  // namespace
}  // namespace di
