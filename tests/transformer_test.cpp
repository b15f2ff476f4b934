// The Llama-like families: logits of an independent implementation, and the same bits however a prompt is cut, whatever else
// is in the batch, with any number of threads and with a prefix from the cache.
#include <cstring>

#include "engine/engine.h"
#include "engine/load.h"
#include "model_fixture.h"

namespace di {
namespace {

constexpr const char* kFamilies[] = {"llama", "qwen2", "qwen3", "qwen3moe"};

std::string directory_of(const std::string& family) { return std::string(DI_TEST_DATA) + "/transformer/" + family; }

struct Variant {
    std::string family;
    std::string backend;
};

std::vector<Variant> variants() {
    std::vector<Variant> all;
    for (const char* family : kFamilies) {
        for (const char* backend : {"ref", "cpu"}) {
            all.push_back({family, backend});
        }
    }
    return all;
}

class Transformers : public testing::TestWithParam<Variant> {
  protected:
    [[nodiscard]] static ModelFixture load(KvQuant kv_quant = KvQuant::kReference, int threads = 2) {
        FixtureOptions options;
        options.backend = GetParam().backend;
        options.threads = threads;
        options.model.kv_quant = kv_quant;
        return ModelFixture(directory_of(GetParam().family), options);
    }
    [[nodiscard]] static SafetensorsFixture golden() {
        return SafetensorsFixture(directory_of(GetParam().family) + "/golden.safetensors");
    }
    [[nodiscard]] static std::vector<int32_t> ids() { return golden().at("ids").as<int32_t>(); }
};

// The rows of the goldens out of those of all tokens.
std::vector<float> golden_rows(const std::vector<float>& all, const std::vector<int32_t>& rows, int64_t vocab) {
    std::vector<float> picked;
    for (const int32_t row : rows) {
        picked.insert(picked.end(), all.begin() + row * vocab, all.begin() + (row + 1) * vocab);
    }
    return picked;
}

TEST_P(Transformers, GivesTheLogitsOfAnotherImplementation) {
    const SafetensorsFixture want = golden();
    const std::vector<int32_t> rows = want.at("rows").as<int32_t>();
    const std::vector<float> expected = want.at("logits").floats();
    const ModelFixture exact = load(KvQuant::kOff);
    const int64_t vocab = exact.config.vocab_size;
    expect_exact(golden_rows(exact.sequence()->forward(ids(), true), rows, vocab), expected, "f32 keys and values");
    const std::vector<float> half = golden_rows(load().sequence()->forward(ids(), true), rows, vocab);
    float worst = 0.0F;
    for (size_t i = 0; i < half.size(); ++i) {
        worst = std::max(worst, std::fabs(half[i] - expected[i]));
    }
    EXPECT_LT(worst, 3e-3F * (1.0F + largest(expected))) << "f16 keys and values";
    EXPECT_GT(worst, 0.0F) << "keys and values are not f16";
}

TEST_P(Transformers, HoweverThePromptIsCut) {
    const ModelFixture fixture = load();
    const std::vector<float> whole = run_in_chunks(fixture, ids(), ids().size());
    for (const size_t chunk : {size_t{1}, size_t{3}, size_t{17}, size_t{128}}) {
        expect_same_bits(run_in_chunks(fixture, ids(), chunk), whole, "chunk " + std::to_string(chunk));
    }
    for (const int threads : {1, 3}) {
        expect_same_bits(run_in_chunks(load(KvQuant::kReference, threads), ids(), 61), whole,
                         std::to_string(threads) + " threads");
    }
}

TEST_P(Transformers, AnyNumberOfTokensCanBeTakenBack) {
    const ModelFixture fixture = load();
    const std::vector<int32_t> all = ids();
    const auto straight = fixture.sequence();
    const std::vector<float> want = straight->forward(all, false);
    const auto rolled = fixture.sequence();
    std::vector<int32_t> others = all;
    for (size_t i = 5; i < others.size(); ++i) {
        others[i] = (others[i] + 1) % static_cast<int32_t>(fixture.config.vocab_size);
    }
    (void)rolled->forward(others, false);
    rolled->roll_back(5);
    expect_same_bits(rolled->forward(std::span(all).subspan(5), false), want, "after 136 tokens were taken back");
}

// Greedy answers of `prompts` by an engine of this family; `cached` gets the tokens of each prompt that came from the cache.
std::vector<std::vector<int32_t>> answers(const EngineOptions& options, const std::vector<std::vector<int32_t>>& prompts,
                                          bool together, std::vector<int64_t>* cached = nullptr) {
    auto loaded = ModelFixture::take(load_engine(options, [](int64_t) { return std::vector<int32_t>{}; }));
    std::vector<std::vector<int32_t>> tokens(prompts.size());
    const auto run = [&] {
        while (loaded->engine->has_unfinished()) {
            for (const StepOutput& output : loaded->engine->step()) {
                auto& list = tokens[output.request_id];
                list.insert(list.end(), output.token_ids.begin(), output.token_ids.end());
                EXPECT_FALSE(output.finish == FinishReason::kError) << (output.error ? output.error->text : "");
                if (cached != nullptr && output.finish != FinishReason::kNone) {
                    cached->push_back(output.usage.cached_tokens);
                }
            }
        }
    };
    for (size_t i = 0; i < prompts.size(); ++i) {
        TokenRequest request;
        request.id = i;
        request.prompt_token_ids = prompts[i];
        request.sampling.temperature = 1.0F;  // seeded: every bit of the logits counts
        request.sampling.seed = 11;
        request.sampling.max_tokens = 40;
        request.sampling.ignore_eos = true;
        loaded->engine->add_request(std::move(request));
        if (!together) {
            run();
        }
    }
    run();
    return tokens;
}

EngineOptions engine_options() {
    EngineOptions options;
    options.model_directory = directory_of("llama");
    options.max_model_len = 512;
    options.max_num_seqs = 4;
    options.max_num_batched_tokens = 64;
    options.kv_memory_bytes = 16 << 20;
    options.threads = 2;
    options.behaviour.deterministic = true;
    return options;
}

TEST(TransformerEngine, PrefixesAreReusedWithoutStateAndChangeNothing) {
    for (const char* family : kFamilies) {
        EngineOptions options = engine_options();
        options.model_directory = directory_of(family);
        const std::vector<int32_t> ids =
            SafetensorsFixture(directory_of(family) + "/golden.safetensors").at("ids").as<int32_t>();
        std::vector<int32_t> longer = ids;
        longer.insert(longer.end(), ids.begin(), ids.end());
        std::vector<int32_t> branch(longer.begin(), longer.begin() + 200);
        branch[150] = 5;
        const std::vector<std::vector<int32_t>> prompts{longer, longer, branch, {1, 7, 9}};
        std::vector<int64_t> cached;
        const auto with_cache = answers(options, prompts, false, &cached);
        EXPECT_EQ(cached, (std::vector<int64_t>{0, 256, 128, 0})) << family;
        const auto together = answers(options, prompts, true);
        options.behaviour.prefix_cache = false;
        const auto without = answers(options, prompts, false);
        EXPECT_EQ(with_cache, without) << family;
        EXPECT_EQ(together, without) << family;
        EXPECT_EQ(without[0].size(), 40U);
    }
}

TEST(TransformerEngine, SaysWhatThisFamilyCannotDo) {
    EngineOptions options = engine_options();
    options.act_quant = ActQuant::kFp8;
    auto loaded = load_engine(options, {});
    ASSERT_FALSE(loaded);
    EXPECT_NE(loaded.error().text.find("expected act-quant none"), std::string::npos) << loaded.error().text;
    options = engine_options();
    options.behaviour.deterministic = false;
    options.replay = Replay::kExact;
    loaded = load_engine(options, {});
    ASSERT_FALSE(loaded);
    EXPECT_NE(loaded.error().text.find("expected replay off"), std::string::npos) << loaded.error().text;
}

TEST(TransformerEngine, PlansWithoutState) {
    const auto config = ModelFixture::take(load_model_config(directory_of("llama")));
    const auto plan = ModelFixture::take(plan_memory(config, engine_options(), int64_t{1} << 32));
    EXPECT_EQ(plan.state_slot_bytes, 0);
    EXPECT_EQ(plan.bytes_per_token, 3 * 2 * 16 * 2);  // layers, keys and values, values of a row, bytes of f16
    EXPECT_GT(plan.kv_block_count, 0);
    EXPECT_EQ(plan.limits.snapshot_slots, plan.kv_block_count);  // every block may end a prefix
    EXPECT_EQ(plan.weights_on_demand_bytes, 0);
    const auto mixture = ModelFixture::take(load_model_config(directory_of("qwen3moe")));
    EXPECT_GT(ModelFixture::take(plan_memory(mixture, engine_options(), int64_t{1} << 32)).weights_on_demand_bytes, 0);
}

TEST(TransformerModel, CountsWhatItsExpertsWereAsked) {
    const ModelFixture fixture(directory_of("qwen3moe"));
    (void)fixture.sequence()->forward(std::vector<int32_t>{1, 5, 9, 7}, false);
    const Model::RoutingCounts counts = fixture.model->routing_counts();
    ASSERT_EQ(counts.layer_count, 3);
    EXPECT_EQ(std::vector<int32_t>(counts.rows_of_layer.begin(), counts.rows_of_layer.end()), (std::vector<int32_t>{4, 0, 4}));
    int32_t sum = 0;
    for (const int32_t rows : counts.rows_of_expert) {
        sum += rows;
    }
    EXPECT_EQ(sum, 4 * 2 * 2);
}

INSTANTIATE_TEST_SUITE_P(Families, Transformers, testing::ValuesIn(variants()),
                         [](const auto& entry) { return entry.param.family + "_" + entry.param.backend; });

}  // namespace
}  // namespace di
