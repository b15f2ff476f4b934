// The small checkpoints against the goldens of an independent implementation, at the tolerances of
// tests/data/v41-tiny/README.md: logits, sublayer states, selections, greedy and draft ids, confidence, images.
#include <set>

#include "model_fixture.h"
#include "text/image.h"

namespace di {
namespace {

struct Variant {
    std::string checkpoint;  // directory in tests/data
    std::string backend;
};

std::string variant_name(const testing::TestParamInfo<Variant>& info) {
    std::string name = info.param.checkpoint + "_" + info.param.backend;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

class Golden : public testing::TestWithParam<Variant> {
  protected:
    [[nodiscard]] static std::string directory() { return std::string(DI_TEST_DATA) + "/" + GetParam().checkpoint; }
    [[nodiscard]] static SafetensorsFixture arrays(const std::string& set) {
        return SafetensorsFixture(directory() + "/golden_" + set + ".safetensors");
    }
    [[nodiscard]] static nlohmann::json golden(const std::string& set) {
        return read_json(directory() + "/golden_" + set + ".json");
    }
    [[nodiscard]] static std::vector<int32_t> prompt(const std::string& length) {
        return read_json(directory() + "/prompts.json")["prompts"][length]["ids"].get<std::vector<int32_t>>();
    }
    [[nodiscard]] static ModelFixture load(const std::string& set) {
        FixtureOptions options;
        options.backend = GetParam().backend;
        options.threads = 2;
        options.model.kv_quant = set == "exact" ? KvQuant::kOff : KvQuant::kReference;
        return ModelFixture(directory(), options);
    }
};

// Rows of `got` that differ from `want` by more than 2e-2 somewhere, and whose arg-max differs: shares.
struct RowShares {
    double far = 0.0;
    double other_top = 0.0;
};

RowShares compare_rows(const std::vector<float>& got, const std::vector<float>& want, size_t width) {
    EXPECT_EQ(got.size(), want.size());
    RowShares shares;
    const size_t rows = want.size() / width;
    for (size_t row = 0; row < rows; ++row) {
        float worst = 0.0F;
        for (size_t i = row * width; i < (row + 1) * width; ++i) {
            worst = std::max(worst, std::fabs(got[i] - want[i]));
        }
        shares.far += worst > 2e-2F ? 1.0 : 0.0;
        shares.other_top +=
            arg_max(&got[row * width], static_cast<int64_t>(width)) != arg_max(&want[row * width], static_cast<int64_t>(width))
                ? 1.0
                : 0.0;
    }
    shares.far /= static_cast<double>(rows);
    shares.other_top /= static_cast<double>(rows);
    return shares;
}

TEST_P(Golden, ExactLogitsOfEveryPrompt) {
    const ModelFixture fixture = load("exact");
    const SafetensorsFixture want = arrays("exact");
    for (const std::string length : {"1", "5", "17", "37", "130", "300"}) {
        const std::vector<float> expected = want.at("logits." + length).floats();
        std::vector<float> got = fixture.sequence()->forward(prompt(length), true);
        got.erase(got.begin(), got.end() - static_cast<std::ptrdiff_t>(expected.size()));
        expect_exact(got, expected, "logits." + length);
    }
}

TEST_P(Golden, ExactGreedyTokensDecodedOneByOne) {
    const ModelFixture fixture = load("exact");
    const SafetensorsFixture want = arrays("exact");
    const nlohmann::json expected = golden("exact");
    const auto vocab = static_cast<size_t>(fixture.config.vocab_size);
    for (const std::string length : {"17", "130"}) {
        const auto ids = expected["greedy"][length].get<std::vector<int32_t>>();
        const std::vector<float> rows = want.at("greedy." + length + ".logits").floats();
        const auto sequence = fixture.sequence();
        std::vector<float> logits = sequence->forward(prompt(length), false);
        for (size_t step = 0; step < ids.size(); ++step) {
            expect_exact(logits,
                         {rows.begin() + static_cast<std::ptrdiff_t>(step * vocab),
                          rows.begin() + static_cast<std::ptrdiff_t>((step + 1) * vocab)},
                         "greedy " + length + " step " + std::to_string(step));
            ASSERT_EQ(arg_max(logits.data(), fixture.config.vocab_size), ids[step]) << length << " step " << step;
            logits = sequence->forward({&ids[step], 1}, false);
        }
    }
}

// Rows as sets of chosen numbers.
std::vector<std::set<int64_t>> as_sets(const std::vector<int64_t>& values, size_t width) {
    std::vector<std::set<int64_t>> sets;
    for (size_t first = 0; first < values.size(); first += width) {
        std::set<int64_t> chosen(values.begin() + static_cast<std::ptrdiff_t>(first),
                                 values.begin() + static_cast<std::ptrdiff_t>(first + width));
        chosen.erase(-1);
        sets.push_back(std::move(chosen));
    }
    return sets;
}

std::vector<int64_t> integers(const std::vector<float>& values) { return {values.begin(), values.end()}; }

TEST_P(Golden, ExactSelectionsAndRouterChoices) {
    ModelFixture fixture = load("exact");
    const SafetensorsFixture want = arrays("exact");
    ProbeRecord record;
    fixture.model->set_probe(record.probe());
    int compared = 0;
    for (const std::string length : {"130", "300"}) {
        (void)fixture.sequence()->forward(prompt(length), false);
        for (int32_t layer = 0; layer < fixture.config.layer_count; ++layer) {
            const std::string prefix = "sel." + length + ".layers." + std::to_string(layer) + ".";
            if (want.has(prefix + "ffn.router.experts")) {
                EXPECT_EQ(integers(record.at(layer, "ffn.router.experts")), want.at(prefix + "ffn.router.experts").integers())
                    << prefix;
                ++compared;
            }
            if (want.has(prefix + "attn.indexer.topk")) {
                const auto width = static_cast<size_t>(fixture.config.index_topk);
                EXPECT_EQ(as_sets(integers(record.at(layer, "attn.indexer.topk")), width),
                          as_sets(want.at(prefix + "attn.indexer.topk").integers(), width))
                    << prefix;
                ++compared;
            }
            if (want.has(prefix + "attn.indexer.candidates_blocks")) {
                const FixtureTensor& mask = want.at(prefix + "attn.indexer.candidates_blocks");
                const auto columns = static_cast<size_t>(mask.shape[1]);
                const std::vector<int64_t> bits = mask.integers();
                const auto chosen = as_sets(integers(record.at(layer, "attn.indexer.candidates")),
                                            static_cast<size_t>(fixture.config.candidate_topk_blocks));
                for (size_t row = 0; row < chosen.size(); ++row) {
                    std::set<int64_t> expected;
                    for (size_t column = 0; column < columns; ++column) {
                        if (bits[row * columns + column] != 0) {
                            expected.insert(static_cast<int64_t>(column));
                        }
                    }
                    EXPECT_EQ(chosen[row], expected) << prefix << " row " << row;
                }
                ++compared;
            }
        }
    }
    EXPECT_EQ(compared, 2 * (8 + 4 + 1));
}

// One drafting round after `length` prompt tokens.
void check_draft(ModelFixture& fixture, const SafetensorsFixture& want, const nlohmann::json& expected,
                 const std::vector<int32_t>& ids, bool exact) {
    ProbeRecord record;
    fixture.model->set_probe(record.probe());
    const std::string key = std::to_string(ids.size());
    const nlohmann::json& draft = expected["draft"][key];
    const auto sequence = fixture.sequence();
    (void)sequence->forward(ids, false);
    int32_t previous = draft["anchor"].get<int32_t>();
    fixture.model->draft_begin(
        {.sequences = {{.token_id = previous, .position = static_cast<int32_t>(ids.size()), .state_slot = 0}},
         .depth = 5,
         .cache = sequence->cache()});
    const auto tokens = draft["tokens"].get<std::vector<int32_t>>();
    const auto confidence = draft["confidence_raw"].get<std::vector<float>>();
    std::vector<float> logits;
    for (int32_t depth = 0; depth < 5; ++depth) {
        const Model::DraftStep step = fixture.model->draft_step(depth, {&previous, 1});
        logits.insert(logits.end(), step.logits.ptr<float>(), step.logits.ptr<float>() + step.logits.size());
        EXPECT_NEAR(step.confidence.ptr<float>()[0], confidence[static_cast<size_t>(depth)], exact ? 1e-4 : 1e-2)
            << key << " depth " << depth;
        previous = arg_max(step.logits.ptr<float>(), step.logits.size());
        if (expected["stable"]["draft"][key].get<bool>()) {
            EXPECT_EQ(previous, tokens[static_cast<size_t>(depth)]) << key << " depth " << depth;
        }
        previous = tokens[static_cast<size_t>(depth)];
    }
    const std::string prefix = "draft." + key + ".";
    if (!exact) {
        EXPECT_EQ(compare_rows(logits, want.at(prefix + "step_logits").floats(), logits.size() / 5).far, 0.0) << key;
        return;
    }
    expect_exact(logits, want.at(prefix + "step_logits").floats(), prefix + "step_logits");
    if (!want.has(prefix + "hidden_raw")) {
        return;
    }
    const int32_t layers = fixture.config.layer_count;
    std::vector<float> streams;
    for (int32_t stage = 0; stage < fixture.config.draft.stage_count; ++stage) {
        const std::vector<float>& out = record.at(layers + stage, "streams_out");
        streams.insert(streams.end(), out.begin(), out.end());
    }
    expect_exact(streams, want.at(prefix + "stage_streams").floats(), prefix + "stage_streams");
    for (const std::string name : {"target_features", "hidden_raw", "hidden_normed", "base_logits"}) {
        expect_exact(record.at(layers, "draft." + name), want.at(prefix + name).floats(), prefix + name);
    }
}

TEST_P(Golden, ExactDraftsAndConfidence) {
    ModelFixture fixture = load("exact");
    const SafetensorsFixture want = arrays("exact");
    for (const std::string length : {"5", "17", "130"}) {
        check_draft(fixture, want, golden("exact"), prompt(length), true);
    }
}

TEST_P(Golden, CachequantDrafts) {
    ModelFixture fixture = load("cachequant");
    const SafetensorsFixture want = arrays("cachequant");
    for (const std::string length : {"5", "17"}) {
        check_draft(fixture, want, golden("cachequant"), prompt(length), false);
    }
}

TEST_P(Golden, CachequantLogits) {
    const ModelFixture fixture = load("cachequant");
    const SafetensorsFixture want = arrays("cachequant");
    const std::map<std::string, RowShares> allowed{{"1", {0, 0}},        {"5", {0, 0}},         {"17", {0, 0}},
                                                   {"37", {0.03, 0.03}}, {"130", {0.35, 0.07}}, {"300", {0.35, 0.07}}};
    for (const auto& [length, limit] : allowed) {
        const std::vector<float> expected = want.at("logits." + length).floats();
        std::vector<float> got = fixture.sequence()->forward(prompt(length), true);
        got.erase(got.begin(), got.end() - static_cast<std::ptrdiff_t>(expected.size()));
        const RowShares shares = compare_rows(got, expected, static_cast<size_t>(fixture.config.vocab_size));
        EXPECT_LE(shares.far, limit.far) << "rows off by more than 2e-2 at " << length;
        EXPECT_LE(shares.other_top, limit.other_top) << "rows with another top-1 at " << length;
    }
}

// Fed with the golden tokens. On the reference every arg-max behind 17 tokens is the golden one. Behind 130 tokens, and on a backend that
// sums in another order, a value on the edge of a quantisation bin moves a row here and there: the README's share for such
// rows counts, equal top-1 on 93 %.
TEST_P(Golden, CachequantGreedyTokensWhereStable) {
    const ModelFixture fixture = load("cachequant");
    const nlohmann::json expected = golden("cachequant");
    for (const std::string length : {"17", "130"}) {
        if (!expected["stable"]["greedy"][length].get<bool>()) {
            continue;
        }
        const auto sequence = fixture.sequence();
        std::vector<float> logits = sequence->forward(prompt(length), false);
        const auto ids = expected["greedy"][length].get<std::vector<int32_t>>();
        int other = 0;
        for (const int32_t id : ids) {
            other += arg_max(logits.data(), fixture.config.vocab_size) != id ? 1 : 0;
            logits = sequence->forward({&id, 1}, false);
        }
        EXPECT_LE(other,
                  length == "17" && GetParam().backend == "ref" ? 0 : static_cast<int>(0.07 * static_cast<double>(ids.size())))
            << length;
    }
}

// Every sublayer boundary of the 37-token prompt. In `cachequant` a value may sit on the edge of a quantisation bin: rows behind
// it may differ, so the bound there is for the bulk.
void check_detail(ModelFixture& fixture, const SafetensorsFixture& want, const std::vector<int32_t>& ids, bool exact) {
    ProbeRecord record;
    fixture.model->set_probe(record.probe());
    const std::vector<float> logits = fixture.sequence()->forward(ids, true);
    const int32_t layers = fixture.config.layer_count;
    record.values["final.collapsed"] = record.at(layers, "final.collapsed");
    record.values["final.normed"] = record.at(layers, "final.normed");
    record.values["logits"] = logits;
    int compared = 0;
    for (const auto& [name, tensor] : want.tensors) {
        if (!name.starts_with("detail.") || name == "detail.engram_hash_ids") {
            continue;
        }
        std::string key = name.substr(7);
        if (key == "layers.7.attn.indexer.keys") {
            key = "layers.5.attn.indexer.keys";  // layer 7 reads the keys of layer 5
        }
        ASSERT_TRUE(record.values.contains(key)) << name;
        std::vector<float> got = record.values.at(key);
        if (key.ends_with("attn.indexer.topk")) {
            const auto width = static_cast<size_t>(fixture.config.index_topk);
            EXPECT_EQ(as_sets(integers(got), width), as_sets(tensor.integers(), width)) << name;
            ++compared;
            continue;
        }
        if (key.ends_with("attn.indexer.candidates")) {
            continue;  // compared as blocks in ExactSelectionsAndRouterChoices
        }
        if (!exact && (key.ends_with("attn.compressed_kv") || key.ends_with("attn.indexer.keys"))) {
            const RowFormat format = key.ends_with("keys") ? RowFormat::kMxfp4 : RowFormat::kNvfp4;
            const auto width = static_cast<size_t>(tensor.shape[1]);
            for (size_t first = 0; first < got.size(); first += width) {
                fake_quantise_row(format, {&got[first], width});
            }
        }
        ++compared;
        if (exact) {
            expect_exact(got, tensor.floats(), name);
            continue;
        }
        const std::vector<float> expected = tensor.floats();
        ASSERT_EQ(got.size(), expected.size()) << name;
        size_t far = 0;
        for (size_t i = 0; i < got.size(); ++i) {
            far += got[i] != expected[i] && !(std::fabs(got[i] - expected[i]) <= 2e-2F * (1.0F + largest(expected))) ? 1U : 0U;
        }
        EXPECT_LE(static_cast<double>(far), 0.03 * static_cast<double>(got.size())) << name;
    }
    EXPECT_GT(compared, 100);
}

TEST_P(Golden, SublayerStates) {
    ModelFixture exact_fixture = load("exact");
    const SafetensorsFixture exact = arrays("exact");
    if (GetParam().checkpoint == "v41-tiny") {
        check_detail(exact_fixture, exact, prompt("37"), true);
    }
    ModelFixture quant_fixture = load("cachequant");
    check_detail(quant_fixture, arrays("cachequant"), prompt("37"), false);
}

TEST_P(Golden, EngramRowsOfTheDetailPrompt) {
    ModelFixture fixture = load("cachequant");
    ProbeRecord record;
    fixture.model->set_probe(record.probe());
    (void)fixture.sequence()->forward(prompt("37"), false);
    const std::vector<int64_t> want = arrays("cachequant").at("detail.engram_hash_ids").integers();
    const auto& layers = fixture.config.engram.layer_ids;
    const auto per_token = static_cast<size_t>(fixture.config.engram.rows_per_token());
    for (size_t i = 0; i < layers.size(); ++i) {
        const std::vector<int64_t> got = integers(record.at(layers[i], "engram_hash_ids"));
        for (size_t row = 0; row < 37; ++row) {
            for (size_t k = 0; k < per_token; ++k) {
                ASSERT_EQ(got[row * per_token + k], want[(row * layers.size() + i) * per_token + k])
                    << "layer " << layers[i] << " row " << row;
            }
        }
    }
}

TEST_P(Golden, ImagePromptFromPixelsToLogits) {
    ModelFixture fixture = load("exact");
    const SafetensorsFixture want = arrays("exact");
    const nlohmann::json image = golden("exact")["image"];
    const auto ids = image["input_ids"].get<std::vector<int32_t>>();
    const auto types = image["vision_token_types"].get<std::vector<int32_t>>();
    const auto grid = image["image_grid_hws"][0].get<std::vector<int64_t>>();
    std::vector<float> pixels = want.at("image.pixel_values").floats();

    ProbeRecord record;
    fixture.model->set_probe(record.probe());
    const int64_t count = fixture.model->image_token_count(grid[0], grid[1]);
    std::vector<float> rows(static_cast<size_t>(count * fixture.config.hidden_size));
    const Tensor embeddings(rows.data(), DType::kF32, {count, fixture.config.hidden_size});
    const Tensor patches(pixels.data(), DType::kF32, {grid[0] * grid[1], fixture.model->patch_values()});
    fixture.model->encode_image({.patches = patches, .grid_height = grid[0], .grid_width = grid[1]}, embeddings);
    expect_exact(record.at(0, "vision.encoder"), want.at("image.vision.encoder").floats(), "image.vision.encoder");
    expect_exact(record.at(0, "vision.aligned"), want.at("image.vision.aligned").floats(), "image.vision.aligned");

    const auto first = std::find_if(types.begin(), types.end(), [](int32_t type) { return type >= 0; }) - types.begin();
    const auto sequence = fixture.sequence();
    sequence->add_image({.first_token = static_cast<int32_t>(first), .embeddings = embeddings});
    expect_exact(sequence->forward(ids, true), want.at("image.logits").floats(), "image.logits");
    const std::vector<int64_t> experts = want.at("image.router_experts").integers();
    const size_t per_layer = experts.size() / static_cast<size_t>(fixture.config.layer_count);
    for (int32_t layer = 0; layer < fixture.config.layer_count; ++layer) {
        const auto begin = experts.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(layer) * per_layer);
        EXPECT_EQ(integers(record.at(layer, "ffn.router.experts")),
                  std::vector<int64_t>(begin, begin + static_cast<std::ptrdiff_t>(per_layer)))
            << layer;
    }
    // Cut inside the image span.
    const auto cut = fixture.sequence();
    cut->add_image({.first_token = static_cast<int32_t>(first), .embeddings = embeddings});
    const auto middle = static_cast<std::ptrdiff_t>(first + 2);
    (void)cut->forward({ids.begin(), ids.begin() + middle}, false);
    const std::vector<float> last = cut->forward({ids.begin() + middle, ids.end()}, false);
    const std::vector<float> all = want.at("image.logits").floats();
    expect_exact(last, {all.end() - fixture.config.vocab_size, all.end()}, "image.logits, cut inside the span");
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Golden,
                         testing::Values(Variant{"v41-tiny", "ref"}, Variant{"v41-tiny-quant", "ref"},
                                         Variant{"v41-tiny", "cpu"}, Variant{"v41-tiny-quant", "cpu"}),
                         variant_name);

}  // namespace
}  // namespace di
