// What a model tells of a step besides its logits: which experts its rows chose, how sure the drafter is.
#include <numeric>

#include "model_fixture.h"

namespace di {
namespace {

const std::string kDirectory = std::string(DI_MODELS) + "/v41-mini";

FixtureOptions on(const std::string& backend) {
    FixtureOptions options;
    options.backend = backend;
    return options;
}

std::vector<int32_t> prompt(int32_t length) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < length; ++i) {
        ids.push_back(10 + i * 7 % 900);
    }
    return ids;
}

constexpr int32_t kDepth = 5;

// Confidences of one round behind what the sequence has run, always for the same tokens.
std::vector<double> draft(const ModelFixture& fixture, const SingleSequence& sequence) {
    fixture.model->draft_begin(
        {.sequences = {{.token_id = 11, .position = sequence.length()}}, .depth = kDepth, .cache = sequence.cache()});
    std::vector<double> result;
    for (int32_t depth = 0; depth < kDepth; ++depth) {
        const int32_t previous = 11 + depth;
        float confidence = 0.0F;
        fixture.backend->download(fixture.model->draft_step(depth, {&previous, 1}).confidence, &confidence);
        result.push_back(static_cast<double>(confidence));
    }
    return result;
}

void expect_counts_of_probes(const std::string& backend) {
    const ModelFixture fixture(kDirectory, on(backend));
    const int32_t layers = fixture.config.layer_count;
    const int32_t experts = fixture.config.routed_expert_count;
    std::vector<int32_t> want(static_cast<size_t>(layers * experts), 0);
    fixture.model->set_probe([&](std::string_view name, int32_t layer, const Tensor& value) {
        if (name == "ffn.router.experts" && layer < layers) {
            for (int64_t i = 0; i < value.size(); ++i) {
                ++want[static_cast<size_t>(layer * experts + value.ptr<int32_t>()[i])];
            }
        }
    });
    const auto sequence = fixture.sequence();
    for (const int32_t rows : {9, 1, 4}) {
        std::fill(want.begin(), want.end(), 0);
        (void)sequence->forward(prompt(rows), false);
        const Model::RoutingCounts got = fixture.model->routing_counts();
        ASSERT_EQ(got.layer_count, layers);
        ASSERT_EQ(got.expert_count, experts);
        EXPECT_EQ(std::vector<int32_t>(got.rows_of_expert.begin(), got.rows_of_expert.end()), want) << rows;
        EXPECT_EQ(std::vector<int32_t>(got.rows_of_layer.begin(), got.rows_of_layer.end()),
                  std::vector<int32_t>(static_cast<size_t>(layers), rows));
        EXPECT_EQ(std::accumulate(want.begin(), want.end(), 0), rows * layers * fixture.config.experts_per_token);
    }
}

TEST(RoutingCounts, AreThoseOfEveryLayerOfTheLastStep) { expect_counts_of_probes("cpu"); }
TEST(RoutingCounts, AreThoseOfEveryLayerOnTheReferenceToo) { expect_counts_of_probes("ref"); }

TEST(RoutingCounts, DraftingLeavesThemAlone) {
    const ModelFixture fixture(kDirectory, on("cpu"));
    const auto sequence = fixture.sequence();
    (void)sequence->forward(prompt(6), false);
    const Model::RoutingCounts counts = fixture.model->routing_counts();
    const std::vector<int32_t> before(counts.rows_of_expert.begin(), counts.rows_of_expert.end());
    (void)draft(fixture, *sequence);
    const Model::RoutingCounts after = fixture.model->routing_counts();
    EXPECT_EQ(std::vector<int32_t>(after.rows_of_expert.begin(), after.rows_of_expert.end()), before);
}

TEST(RoutingCounts, AreZeroBeforeTheFirstStep) {
    const ModelFixture fixture(kDirectory, on("cpu"));
    const Model::RoutingCounts counts = fixture.model->routing_counts();
    ASSERT_EQ(counts.rows_of_layer.size(), static_cast<size_t>(counts.layer_count));
    EXPECT_EQ(std::accumulate(counts.rows_of_expert.begin(), counts.rows_of_expert.end(), 0), 0);
}

std::vector<double> confidences(const std::vector<float>& temperatures) {
    FixtureOptions options = on("cpu");
    options.model.confidence_temperatures = temperatures;
    const ModelFixture fixture(kDirectory, options);
    const auto sequence = fixture.sequence();
    (void)sequence->forward(prompt(20), false);
    return draft(fixture, *sequence);
}

double logit(double probability) { return std::log(probability / (1.0 - probability)); }

TEST(ConfidenceTemperature, DividesTheLogitByDepthAndTheLastGoesOn) {
    const std::vector<double> plain = confidences({});
    const std::vector<double> same = confidences({2.0F});
    const std::vector<double> each = confidences({1.0F, 4.0F});
    for (size_t depth = 0; depth < plain.size(); ++depth) {
        // The logits are near 0 to 5, where a float's confidence keeps five digits of them.
        EXPECT_NEAR(logit(same[depth]), logit(plain[depth]) / 2.0, 2e-4) << depth;
        EXPECT_NEAR(logit(each[depth]), logit(plain[depth]) / (depth == 0 ? 1.0 : 4.0), 2e-4) << depth;
    }
}

TEST(ConfidenceTemperature, NoneBelowTheLeast) {
    EXPECT_EQ(confidences({0.0F}), confidences({kConfidenceTemperatureMin}));
    for (const double confidence : confidences({0.0F})) {
        EXPECT_TRUE(std::isfinite(confidence));
    }
}

TEST(ConfidenceTemperature, WrongListsAreRefusedByName) {
    const ModelFixture fixture(kDirectory, on("cpu"));
    const auto error_of = [&](const std::vector<float>& temperatures) {
        ModelOptions options;
        options.rows_max = options.logit_rows_max = options.sequences_max = 1;
        options.context_max = 16;
        options.confidence_temperatures = temperatures;
        const auto model = create_model(fixture.config, *fixture.checkpoint, *fixture.backend, options);
        return model ? std::string() : model.error().text;
    };
    EXPECT_NE(error_of(std::vector<float>(6, 1.0F)).find("6 confidence temperatures"), std::string::npos);
    EXPECT_NE(error_of({-1.0F}).find("temperature is -1"), std::string::npos);
    EXPECT_NE(error_of({__builtin_nanf("")}).find("temperature is nan"), std::string::npos);
}

}  // namespace
}  // namespace di
