#include "engine/token_history.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace di {
namespace {

SamplingParams penalised() {
    SamplingParams params;
    params.repetition_penalty = 1.2;
    return params;
}

std::vector<int32_t> ids_of(const TokenHistory& history) { return {history.token_ids().begin(), history.token_ids().end()}; }

TEST(TokenHistory, CountsTheOutputAndKnowsThePrompt) {
    TokenHistory history(penalised(), std::vector<int32_t>{3, 1, 3}, 10);
    history.push(1);
    history.push(7);
    history.push(7);
    EXPECT_EQ(ids_of(history), (std::vector<int32_t>{3, 1, 7}));
    EXPECT_EQ(history.output_count(3), 0U);
    EXPECT_EQ(history.output_count(1), 1U);
    EXPECT_EQ(history.output_count(7), 2U);
}

TEST(TokenHistory, LeavesThePromptOutWhereOnlyTheOutputCounts) {
    SamplingParams params;
    params.frequency_penalty = 0.5;
    TokenHistory history(params, std::vector<int32_t>{3, 1}, 10);
    history.push(1);
    EXPECT_EQ(ids_of(history), (std::vector<int32_t>{1}));
}

TEST(TokenHistory, KeepsNothingWithoutPenalties) {
    TokenHistory history(SamplingParams{}, std::vector<int32_t>{3, 1}, 10);
    history.push(1);
    history.pop(1);
    EXPECT_TRUE(history.token_ids().empty());
}

TEST(TokenHistory, LeavesOutIdsThatHaveNoLogit) {
    TokenHistory history(penalised(), std::vector<int32_t>{12, -1, 2}, 10);
    history.push(10);
    history.push(4);
    history.pop(2);
    EXPECT_EQ(ids_of(history), (std::vector<int32_t>{2}));
}

TEST(TokenHistory, TakingBackLeavesWhatWasBefore) {
    for (uint64_t seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        SeededRandom random(seed);
        const std::vector<int32_t> prompt{2, 5};
        TokenHistory history(penalised(), prompt, 12);
        std::vector<int32_t> output;
        for (int32_t step = 0; step < 60; ++step) {
            if (random.below(3) == 0) {
                const int64_t count = random.below(static_cast<int64_t>(output.size()) + 1);
                history.pop(static_cast<int32_t>(count));
                output.resize(output.size() - static_cast<size_t>(count));
            } else {
                output.push_back(static_cast<int32_t>(random.below(12)));
                history.push(output.back());
            }
            const TokenHistory fresh(penalised(), prompt, 12, output);
            ASSERT_EQ(ids_of(history), ids_of(fresh));
            for (int32_t id = 0; id < 12; ++id) {
                ASSERT_EQ(history.output_count(id), static_cast<uint32_t>(std::count(output.begin(), output.end(), id)));
            }
        }
    }
}

}  // namespace
}  // namespace di
