#include "weights/inventory.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

namespace di {
namespace {

ModelConfig load(const std::string& directory) {
    auto config = load_model_config(directory);
    EXPECT_TRUE(config) << config.error().text;
    return std::move(*config);
}

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// The sums of the published index: no dtype and no shape can be wrong if they come out.
TEST(Inventory, GivesTheSumsOfFlash) {
    const InventorySummary summary = summarise_inventory(load(DI_TEST_DATA "/flash"));
    EXPECT_EQ(summary.total.tensor_count, 96'085);
    EXPECT_EQ(summary.total.bytes, 510'286'023'000);

    EXPECT_EQ(summary.of(ModelPart::kRoutedExperts).bytes, int64_t{40} * 384 * 18'800'640);
    EXPECT_EQ(summary.of(ModelPart::kEngramTables).bytes, (int64_t{384006168} + 384016682) * 264);
    EXPECT_EQ(summary.of(ModelPart::kEngramMixing).bytes, 2 * (25600 * 6144 + 800 * 192 + 2 * 4 * 5120 * 2));
    EXPECT_NEAR(static_cast<double>(summary.of(ModelPart::kAttention).bytes) / kGiB, 4.72, 0.005);
    EXPECT_NEAR(static_cast<double>(summary.of(ModelPart::kAttention).bytes + summary.of(ModelPart::kIndexers).bytes) / kGiB,
                4.80, 0.005);
    EXPECT_NEAR(static_cast<double>(summary.of(ModelPart::kSharedExperts).bytes) / kGiB, 1.32, 0.005);
    EXPECT_NEAR(static_cast<double>(summary.of(ModelPart::kGates).bytes) / 1e9, 0.157, 0.0005);
    EXPECT_NEAR(static_cast<double>(summary.of(ModelPart::kHyperConnections).bytes) / 1e9, 0.157, 0.0005);
    EXPECT_NEAR(static_cast<double>(summary.of(ModelPart::kEmbedding).bytes) / kGiB, 1.233, 0.0005);
    EXPECT_EQ(summary.of(ModelPart::kHead).bytes, summary.of(ModelPart::kEmbedding).bytes);
    EXPECT_NEAR(static_cast<double>(summary.of(ModelPart::kDraftExperts).bytes) / kGiB, 6.72, 0.005);
    EXPECT_NEAR(static_cast<double>(summary.of(ModelPart::kDraftExperts).bytes + summary.of(ModelPart::kDraft).bytes) / kGiB,
                7.39, 0.005);
    EXPECT_NEAR(static_cast<double>(summary.of(ModelPart::kVision).bytes) / 1e9, 0.824, 0.0005);
    EXPECT_NEAR(static_cast<double>(summary.of(ModelPart::kAligner).bytes) / 1e9, 0.147, 0.0005);
    EXPECT_NEAR(static_cast<double>(summary.resident_text_bytes()) / kGiB, 9.17, 0.005);
    EXPECT_NEAR(static_cast<double>(summary.of(ModelPart::kRoutedExperts).parameter_count) / 1e9, 543.6, 0.05);
    EXPECT_NEAR(static_cast<double>(summary.of(ModelPart::kEngramTables).parameter_count) / 1e9, 196.6, 0.05);

    // The parts are disjoint and complete.
    PartSize sum;
    for (const PartSize& part : summary.parts) {
        // All its layers have experts.
        EXPECT_EQ(part.bytes == 0, &part == &summary.of(ModelPart::kFeedForward));
        sum.tensor_count += part.tensor_count;
        sum.bytes += part.bytes;
        sum.parameter_count += part.parameter_count;
    }
    EXPECT_EQ(sum.tensor_count, summary.total.tensor_count);
    EXPECT_EQ(sum.bytes, summary.total.bytes);
    EXPECT_EQ(sum.parameter_count, summary.total.parameter_count);
}

TEST(Inventory, NamesEveryTensorOnce) {
    const auto tensors = expected_tensors(load(DI_TEST_DATA "/flash"));
    std::set<std::string> names;
    for (const ExpectedTensor& tensor : tensors) {
        EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
    }
}

// Shapes that the format writes out; the byte sum alone would not see two swapped dimensions.
TEST(Inventory, GivesTheShapesOfFlash) {
    const ModelConfig config = load(DI_TEST_DATA "/flash");
    std::map<std::string, StoredForm> forms;
    for (const ExpectedTensor& tensor : expected_tensors(config)) {
        forms[tensor.name] = official_form(tensor, config.stored);
    }
    using Shape = std::vector<int64_t>;
    const std::vector<std::tuple<std::string, DType, Shape, Shape>> cases{
        {"embed.weight", DType::kBF16, {129280, 5120}, {}},
        {"image_newline", DType::kBF16, {5120}, {}},
        {"layers.0.attn.wq_a.weight", DType::kF8E4M3, {1280, 5120}, {40, 160}},
        {"layers.39.attn.wq_b.weight", DType::kF8E4M3, {32768, 1280}, {1024, 40}},
        {"layers.0.attn.wkv.weight", DType::kF8E4M3, {512, 5120}, {16, 160}},
        {"layers.0.attn.attn_sink", DType::kF32, {64}, {}},
        {"layers.0.attn.wo_a.weight", DType::kF8E4M3, {8192, 4096}, {256, 128}},
        {"layers.0.attn.wo_b.weight", DType::kF8E4M3, {5120, 8192}, {160, 256}},
        {"layers.0.hc_ffn_fn", DType::kF32, {24, 20480}, {}},
        {"layers.0.hc_attn_scale", DType::kF32, {3}, {}},
        {"layers.0.ffn.gate.weight", DType::kBF16, {384, 5120}, {}},
        {"mtp.0.ffn.gate.bias_vl", DType::kF32, {128}, {}},
        {"layers.5.ffn.experts.383.w1.weight", DType::kI8, {2304, 2560}, {2304, 160}},
        {"layers.5.ffn.experts.0.w2.weight", DType::kI8, {5120, 1152}, {5120, 72}},
        {"layers.5.ffn.shared_experts.w2.weight", DType::kF8E4M3, {5120, 2304}, {160, 72}},
        {"layers.14.attn.compressor.wgate.weight", DType::kBF16, {512, 5120}, {}},
        {"layers.36.attn.indexer.wq_b.weight", DType::kF8E4M3, {4096, 1280}, {128, 40}},
        {"layers.20.attn.indexer.wk.weight", DType::kBF16, {128, 512}, {}},
        {"layers.14.engram.embed.weight", DType::kF8E4M3, {384016682, 256}, {384016682, 8}},
        {"layers.1.engram.wkv.weight", DType::kF8E4M3, {25600, 6144}, {800, 192}},
        {"layers.1.engram.q_weight", DType::kBF16, {4, 5120}, {}},
        {"mtp.0.main_proj.weight", DType::kF8E4M3, {5120, 15360}, {160, 480}},
        {"mtp.2.confidence_head.proj.weight", DType::kBF16, {1, 5376}, {}},
        {"vision.blocks.31.mlp.w1.weight", DType::kBF16, {5632, 1024}, {}},
        {"vision.patch_embed.proj.weight", DType::kBF16, {1024, 588}, {}},
        {"aligner.w1.weight", DType::kBF16, {5120, 9216}, {}},
    };
    for (const auto& [name, dtype, shape, scale_shape] : cases) {
        ASSERT_TRUE(forms.contains(name)) << name;
        EXPECT_EQ(forms[name].dtype, dtype) << name;
        EXPECT_EQ(forms[name].shape, shape) << name;
        EXPECT_EQ(forms[name].scale_shape, scale_shape) << name;
    }
    EXPECT_FALSE(forms.contains("layers.20.attn.compressor.wgate.weight"));  // ratio 1
    EXPECT_FALSE(forms.contains("layers.24.attn.indexer.wk.weight"));
    EXPECT_FALSE(forms.contains("mtp.0.norm.weight"));
    EXPECT_FALSE(forms.contains("mtp.2.main_proj.weight"));
}

TEST(Inventory, LeavesOutWhatTheConfigLeavesOut) {
    ModelConfig config = load(DI_TEST_DATA "/v41-tiny");
    config.vision = {};
    config.engram = {};
    config.draft = {};
    for (const ExpectedTensor& tensor : expected_tensors(config)) {
        EXPECT_TRUE(tensor.name.starts_with("layers.") || tensor.name == "embed.weight" || tensor.name == "head.weight" ||
                    tensor.name == "norm.weight")
            << tensor.name;
        EXPECT_EQ(tensor.name.find("engram"), std::string::npos);
    }
    config = load(DI_TEST_DATA "/v41-tiny");
    config.draft.stage_count = 1;  // one stage is the first and the last
    std::set<std::string> names;
    for (const ExpectedTensor& tensor : expected_tensors(config)) {
        names.insert(tensor.name);
    }
    EXPECT_TRUE(names.contains("mtp.0.main_proj.weight"));
    EXPECT_TRUE(names.contains("mtp.0.confidence_head.proj.weight"));
    EXPECT_FALSE(names.contains("mtp.1.attn_norm.weight"));
}

TEST(Inventory, WidensTheSharedExpertByItsCount) {
    ModelConfig config = load(DI_TEST_DATA "/v41-tiny");
    config.shared_expert_count = 3;
    for (const ExpectedTensor& tensor : expected_tensors(config)) {
        if (tensor.name == "layers.0.ffn.shared_experts.w1.weight") {
            EXPECT_EQ(tensor.shape(), (std::vector<int64_t>{96, 64}));
        }
        if (tensor.name == "layers.0.ffn.shared_experts.w2.weight") {
            EXPECT_EQ(tensor.shape(), (std::vector<int64_t>{64, 96}));
        }
    }
}

TEST(Inventory, AcceptsTheFormatsOfEachStorage) {
    const ExpectedTensor linear{"x.weight", 2, 70, 50, Storage::kLinear, ModelPart::kAttention, Initial::kLinear};
    EXPECT_EQ(form_for_dtype(linear, DType::kF8E4M3)->scale_shape, (std::vector<int64_t>{3, 2}));
    EXPECT_TRUE(form_for_dtype(linear, DType::kBF16)->scale_shape.empty());
    EXPECT_FALSE(form_for_dtype(linear, DType::kI8));
    EXPECT_FALSE(form_for_dtype(linear, DType::kF16));
    ExpectedTensor tensor = linear;
    tensor.storage = Storage::kExpert;
    EXPECT_EQ(form_for_dtype(tensor, DType::kU8)->shape, (std::vector<int64_t>{70, 25}));
    EXPECT_EQ(form_for_dtype(tensor, DType::kI8)->scale_shape, (std::vector<int64_t>{70, 2}));
    EXPECT_EQ(form_for_dtype(tensor, DType::kF8E4M3)->scale_layout, ScaleLayout::kBlock32x32);
    tensor.storage = Storage::kTable;
    EXPECT_EQ(form_for_dtype(tensor, DType::kF8E4M3)->scale_layout, ScaleLayout::kRow32);
    tensor.storage = Storage::kF32;
    EXPECT_FALSE(form_for_dtype(tensor, DType::kBF16));
    tensor.storage = Storage::kBF16;
    EXPECT_FALSE(form_for_dtype(tensor, DType::kF32));
    tensor.storage = Storage::kMatrix;
    EXPECT_FALSE(form_for_dtype(tensor, DType::kF8E4M3));
    EXPECT_EQ(scale_name_of("a.b.weight"), "a.b.scale");
}

}  // namespace
}  // namespace di
