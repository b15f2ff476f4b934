// The embedded model against its own goldens (models/v41-mini): logits, greedy texts, speculative rounds.
#include "model_fixture.h"

namespace di {
namespace {

const std::string kDirectory = std::string(DI_MODELS) + "/v41-mini";

ModelFixture load(KvQuant kv_quant, const std::string& backend = "cpu") {
    FixtureOptions options;
    options.backend = backend;
    options.threads = 2;
    options.model.kv_quant = kv_quant;
    return ModelFixture(kDirectory, options);
}

std::vector<float> last_rows(std::vector<float> logits, size_t count) {
    logits.erase(logits.begin(), logits.end() - static_cast<std::ptrdiff_t>(count));
    return logits;
}

void check_exact_logits(const std::string& backend, size_t prompt_count) {
    const ModelFixture fixture = load(KvQuant::kOff, backend);
    const nlohmann::json golden = read_json(kDirectory + "/goldens.json");
    const SafetensorsFixture arrays(kDirectory + "/goldens.safetensors");
    for (size_t i = 0; i < prompt_count; ++i) {
        const auto ids = golden["prompts"][i]["ids"].get<std::vector<int32_t>>();
        const std::vector<float> want = arrays.at("logits." + std::to_string(i) + ".exact").floats();
        expect_exact(last_rows(fixture.sequence()->forward(ids, true), want.size()), want, "prompt " + std::to_string(i));
    }
}

TEST(Mini, ExactLogits) { check_exact_logits("cpu", 5); }
TEST(Mini, ExactLogitsOnTheReference) { check_exact_logits("ref", 1); }

TEST(Mini, ExactGreedyTexts) {
    const ModelFixture fixture = load(KvQuant::kOff);
    const nlohmann::json golden = read_json(kDirectory + "/goldens.json");
    for (const nlohmann::json& prompt : golden["prompts"]) {
        const auto sequence = fixture.sequence();
        std::vector<float> logits = sequence->forward(prompt["ids"].get<std::vector<int32_t>>(), false);
        for (const int32_t id : prompt["exact"]["greedy"].get<std::vector<int32_t>>()) {
            ASSERT_EQ(arg_max(logits.data(), fixture.config.vocab_size), id) << prompt["text"];
            logits = sequence->forward({&id, 1}, false);
        }
    }
}

TEST(Mini, CachequantLogits) {
    const ModelFixture fixture = load(KvQuant::kReference);
    const nlohmann::json golden = read_json(kDirectory + "/goldens.json");
    const SafetensorsFixture arrays(kDirectory + "/goldens.safetensors");
    const auto vocab = static_cast<size_t>(fixture.config.vocab_size);
    for (size_t i = 0; i < 5; ++i) {
        const auto ids = golden["prompts"][i]["ids"].get<std::vector<int32_t>>();
        const std::vector<float> want = arrays.at("logits." + std::to_string(i) + ".cachequant").floats();
        const std::vector<float> got = last_rows(fixture.sequence()->forward(ids, true), want.size());
        int other_top = 0;
        for (size_t row = 0; row < want.size() / vocab; ++row) {
            float worst = 0.0F;
            for (size_t k = row * vocab; k < (row + 1) * vocab; ++k) {
                worst = std::max(worst, std::fabs(got[k] - want[k]));
            }
            if (i < 4) {
                EXPECT_LE(worst, 2e-2F) << "prompt " << i << " row " << row;
            }
            other_top +=
                arg_max(&got[row * vocab], fixture.config.vocab_size) != arg_max(&want[row * vocab], fixture.config.vocab_size)
                    ? 1
                    : 0;
        }
        EXPECT_LE(other_top, i < 4 ? 0 : 1) << "prompt " << i;
    }
}

TEST(Mini, CachequantGreedyTextsWhereTheyAreStable) {
    const ModelFixture fixture = load(KvQuant::kReference);
    const nlohmann::json golden = read_json(kDirectory + "/goldens.json");
    int compared = 0;
    for (const nlohmann::json& prompt : golden["prompts"]) {
        if (prompt["cachequant"]["min_top2_gap"].get<double>() <= 0.05) {
            continue;
        }
        const auto sequence = fixture.sequence();
        std::vector<float> logits = sequence->forward(prompt["ids"].get<std::vector<int32_t>>(), false);
        for (const int32_t id : prompt["cachequant"]["greedy"].get<std::vector<int32_t>>()) {
            ASSERT_EQ(arg_max(logits.data(), fixture.config.vocab_size), id) << prompt["text"];
            logits = sequence->forward({&id, 1}, false);
        }
        ++compared;
    }
    EXPECT_GE(compared, 3);
}

// Greedy speculation: draft five, verify, keep the matching prefix. Returns accepted counts of the rounds.
struct Speculation {
    std::vector<int32_t> tokens;
    std::vector<int32_t> accepted;
    std::vector<float> first_confidence;
};

Speculation speculate(const ModelFixture& fixture, const std::vector<int32_t>& prompt, size_t token_count) {
    Speculation result;
    const auto sequence = fixture.sequence();
    const int64_t vocab = fixture.config.vocab_size;
    std::vector<float> logits = sequence->forward(prompt, false);
    int32_t golden = arg_max(logits.data(), vocab);
    result.tokens.push_back(golden);
    while (result.tokens.size() < token_count && golden != fixture.config.eos_token_id) {
        fixture.model->draft_begin({.sequences = {{.token_id = golden, .position = sequence->length(), .state_slot = 0}},
                                    .depth = 5,
                                    .cache = sequence->cache()});
        std::vector<int32_t> rows{golden};
        for (int32_t depth = 0; depth < 5; ++depth) {
            const Model::DraftStep step = fixture.model->draft_step(depth, {&rows.back(), 1});
            if (result.accepted.empty()) {
                result.first_confidence.push_back(step.confidence.ptr<float>()[0]);
            }
            rows.push_back(arg_max(step.logits.ptr<float>(), vocab));
        }
        logits = sequence->forward(rows, true);
        int32_t accepted = 0;
        while (accepted < 5 &&
               arg_max(&logits[static_cast<size_t>(accepted * vocab)], vocab) == rows[static_cast<size_t>(accepted + 1)]) {
            ++accepted;
        }
        sequence->roll_back(sequence->length() - (5 - accepted));
        for (int32_t i = 0; i <= accepted && golden != fixture.config.eos_token_id; ++i) {
            golden = arg_max(&logits[static_cast<size_t>(i * vocab)], vocab);
            result.tokens.push_back(golden);
        }
        result.accepted.push_back(accepted);
    }
    result.tokens.resize(std::min(result.tokens.size(), token_count));
    return result;
}

TEST(Mini, SpeculationAcceptsWhatTheGoldensAccept) {
    const ModelFixture fixture = load(KvQuant::kOff);
    const nlohmann::json golden = read_json(kDirectory + "/goldens.json")["draft"]["exact"];
    double accepted = 0.0;
    double rounds = 0.0;
    int compared = 0;
    for (const nlohmann::json& prompt : golden["prompts"]) {
        const auto tokens = prompt["tokens"].get<std::vector<int32_t>>();
        const Speculation got = speculate(fixture, prompt["ids"].get<std::vector<int32_t>>(), tokens.size());
        for (const int32_t count : got.accepted) {
            accepted += count;
            rounds += 1.0;
        }
        if (prompt["min_top2_gap"].get<double>() <= 0.05) {
            continue;
        }
        ++compared;
        EXPECT_EQ(got.tokens, tokens) << prompt["text"];
        EXPECT_EQ(got.accepted, prompt["accepted"].get<std::vector<int32_t>>()) << prompt["text"];
        const auto confidence = prompt["confidence_first_round"].get<std::vector<float>>();
        for (size_t i = 0; i < confidence.size(); ++i) {
            EXPECT_NEAR(got.first_confidence[i], confidence[i], 1e-4) << prompt["text"];
        }
    }
    EXPECT_GE(compared, 3);
    EXPECT_NEAR(accepted / rounds, golden["mean_accepted"].get<double>(), 0.1);
}

}  // namespace
}  // namespace di
