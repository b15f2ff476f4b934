// Rejection is lossless: what a small real model says with drafts has the distribution of what it says without.
#include <cmath>
#include <map>

#include "base/clock.h"
#include "base/random.h"
#include "engine/continuous_engine.h"
#include "model_fixture.h"

namespace di {
namespace {

constexpr int32_t kSeeds = 20000;
constexpr int32_t kTokens = 3;
constexpr int32_t kTripleCells = 512;

using Texts = std::vector<std::vector<int32_t>>;

// One continuation a seed.
Texts run(ModelFixture& fixture, int32_t drafts, uint64_t first_seed) {
    const EngineLimits limits{.max_model_len = 32, .max_num_seqs = 40, .max_num_batched_tokens = 400};
    EngineBehaviour behaviour;
    behaviour.drafts = drafts;
    behaviour.scheduled_verify = false;  // how many are verified would follow the clock, and the draws with it
    behaviour.verify_mode = VerifyMode::kRejection;
    SystemClock clock;
    SeededRandom random(1);
    auto engine =
        ModelFixture::take(ContinuousEngine::create(*fixture.model, *fixture.backend, limits, behaviour, {}, clock, random));
    Texts texts(kSeeds);
    int32_t next = 0;
    int32_t unfinished = 0;
    while (next < kSeeds || engine->has_unfinished()) {
        for (; next < kSeeds && unfinished < 80; ++next, ++unfinished) {
            TokenRequest request;
            request.id = static_cast<uint64_t>(next);
            request.prompt_token_ids = {5, 17, 9};
            request.sampling.max_tokens = kTokens;
            request.sampling.ignore_eos = true;
            request.sampling.seed = first_seed + static_cast<uint64_t>(next);
            engine->add_request(std::move(request));
        }
        for (const StepOutput& output : engine->step()) {
            std::vector<int32_t>& text = texts[output.request_id];
            text.insert(text.end(), output.token_ids.begin(), output.token_ids.end());
            unfinished -= output.finish == FinishReason::kNone ? 0 : 1;
        }
    }
    if (drafts > 0) {
        const EngineStats stats = engine->stats();
        EXPECT_GT(stats.accepted_tokens, kSeeds / 20);  // both outcomes of the test are met
        EXPECT_GT(stats.drafted_tokens - stats.accepted_tokens, kSeeds / 20);
    }
    return texts;
}

// Two samples of one distribution: sum of (a - b)^2 / (a + b) is chi-square with cells - 1 degrees of freedom. Rare cells are one cell.
template <typename Cell>
void expect_same_distribution(const Texts& left, const Texts& right, Cell cell_of, const std::string& what) {
    std::map<int64_t, std::pair<double, double>> cells;
    for (const std::vector<int32_t>& text : left) {
        cells[cell_of(text)].first += 1.0;
    }
    for (const std::vector<int32_t>& text : right) {
        cells[cell_of(text)].second += 1.0;
    }
    double statistic = 0.0;
    double count = 0.0;
    std::pair<double, double> rare;
    const auto add = [&](const std::pair<double, double>& cell) {
        const double difference = cell.first - cell.second;
        statistic += difference * difference / (cell.first + cell.second);
        count += 1.0;
    };
    for (const auto& [key, cell] : cells) {
        if (cell.first + cell.second < 20.0) {
            rare.first += cell.first;
            rare.second += cell.second;
            continue;
        }
        add(cell);
    }
    if (rare.first + rare.second > 0.0) {
        add(rare);
    }
    const double freedom = count - 1.0;
    // Normal approximation of the tail at about 1 in 30,000.
    EXPECT_LT(statistic, freedom + 4.0 * std::sqrt(2.0 * freedom) + 4.0) << what << ", " << freedom << " degrees of freedom";
    EXPECT_GT(freedom, 10.0) << what;
}

TEST(Rejection, ContinuationsOfASmallModelKeepTheirDistribution) {
    FixtureOptions options;
    options.backend = "cpu";
    ModelFixture fixture(std::string(DI_TEST_DATA) + "/v41-tiny", options);
    const Texts plain = run(fixture, 0, 1);
    const Texts drafted = run(fixture, 2, 1000001);
    for (size_t position = 0; position < kTokens; ++position) {
        expect_same_distribution(
            plain, drafted, [&](const std::vector<int32_t>& text) { return int64_t{text.at(position)}; },
            "position " + std::to_string(position));
    }
    const auto triple = [](const std::vector<int32_t>& text) {
        uint64_t hash = 7;
        for (const int32_t id : text) {
            hash = (hash + static_cast<uint64_t>(id)) * 0x9E3779B97F4A7C15ULL;
            hash ^= hash >> 29;
        }
        return static_cast<int64_t>(hash % kTripleCells);
    };
    expect_same_distribution(plain, drafted, triple, "triples");
}

}  // namespace
}  // namespace di
