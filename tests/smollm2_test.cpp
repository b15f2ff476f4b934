// A real model: SmolLM2-135M-Instruct in Q4_1 against what two independent implementations said (tests/data/smollm2/README.md).
#include "smollm2_model.h"

#include <cmath>

#include "model_fixture.h"

namespace di {
namespace {

constexpr int32_t kContext = 512;

nlohmann::json prompts() { return read_json(std::string(DI_TEST_DATA) + "/smollm2/goldens.json")["prompts"]; }

ModelFixture load(KvQuant kv_quant, const std::string& backend = "cpu") {
    FixtureOptions options;
    options.backend = backend;
    options.threads = 2;
    options.model.kv_quant = kv_quant;
    return ModelFixture(smollm2_path(), options);
}

// Natural-log probabilities of a row.
std::vector<double> log_probabilities(const std::vector<float>& logits) {
    const double top = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
    double sum = 0.0;
    for (const float logit : logits) {
        sum += std::exp(static_cast<double>(logit) - top);
    }
    std::vector<double> values;
    for (const float logit : logits) {
        values.push_back(static_cast<double>(logit) - top - std::log(sum));
    }
    return values;
}

// Feeds the prompt with the goldens' own tokens behind it, at one go (a row's bits do not depend on that); what is drawn at
// every step must be theirs, or, where `margin` allows, the second of two that are nearly as likely.
void check_prompt(const ModelFixture& fixture, const nlohmann::json& prompt, double tolerance, double margin) {
    const auto name = prompt["name"].get<std::string>();
    const auto greedy = prompt["greedy_ids"].get<std::vector<int32_t>>();
    const auto seconds = prompt["second_ids"].get<std::vector<int32_t>>();
    const size_t end = prompt["first_eos"].is_null() ? greedy.size() : prompt["first_eos"].get<size_t>() + 1;
    auto ids = prompt["prompt_ids"].get<std::vector<int32_t>>();
    const size_t first_row = ids.size() - 1;
    ids.insert(ids.end(), greedy.begin(), greedy.begin() + static_cast<std::ptrdiff_t>(end) - 1);
    const std::vector<float> rows = fixture.sequence(kContext)->forward(ids, true);
    const auto vocab = static_cast<std::ptrdiff_t>(fixture.config.vocab_size);
    for (size_t step = 0; step < end; ++step) {
        const auto row = rows.begin() + static_cast<std::ptrdiff_t>(first_row + step) * vocab;
        const std::vector<float> logits(row, row + vocab);
        const int32_t drawn = arg_max(logits.data(), fixture.config.vocab_size);
        const bool may_differ = prompt["margins"][step].get<double>() < margin && drawn == seconds[step];
        ASSERT_TRUE(drawn == greedy[step] || may_differ) << name << " step " << step << ": " << drawn;
        if (step < prompt["top5_logprobs"].size()) {
            const std::vector<double> values = log_probabilities(logits);
            for (const nlohmann::json& pair : prompt["top5_logprobs"][step]) {
                EXPECT_NEAR(values[pair[0].get<size_t>()], pair[1].get<double>(), tolerance) << name << " step " << step;
            }
        }
    }
}

TEST(SmolLm2, AnswersAsInFloat32) {
    const ModelFixture fixture = load(KvQuant::kOff);
    for (const nlohmann::json& prompt : prompts()) {
        check_prompt(fixture, prompt, 1e-3, 0.0);
    }
}

TEST(SmolLm2, AnswersAsInFloat32OnTheReference) {
    check_prompt(load(KvQuant::kOff, "ref"), prompts()[0], 1e-3, 0.0);  // plain loops: one prompt takes four seconds
}

// Keys and values in f16, as they are served: an order closer than bf16, whose margin is 0.2.
TEST(SmolLm2, StaysAtItsAnswersWithHalfPrecisionKeys) {
    const ModelFixture fixture = load(KvQuant::kReference);
    for (const nlohmann::json& prompt : prompts()) {
        check_prompt(fixture, prompt, 2e-2, 0.02);
    }
}

}  // namespace
}  // namespace di
