#include "weights/checkpoint.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file_io.h"
#include "safetensors_fixture.h"
#include "temporary_directory.h"
#include "tensor/quant.h"
#include "weights/inventory.h"
#include "weights/safetensors.h"

namespace di {
namespace {

const std::string kTiny = DI_TEST_DATA "/v41-tiny";
const std::string kTinyQuant = DI_TEST_DATA "/v41-tiny-quant";
const std::string kMini = DI_MODELS "/v41-mini";

Checkpoint open_good(const std::string& directory) {
    auto checkpoint = Checkpoint::open(directory, *load_model_config(directory));
    EXPECT_TRUE(checkpoint) << checkpoint.error().text;
    return std::move(*checkpoint);
}

std::string base_of(std::string_view name) {
    return std::string(name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name);
}

TEST(Checkpoint, ReachesEveryTensorOfTheModels) {
    for (const std::string& directory : {kTiny, kTinyQuant, kMini}) {
        const ModelConfig config = *load_model_config(directory);
        const Checkpoint checkpoint = open_good(directory);
        const InventorySummary summary = summarise_inventory(config);
        EXPECT_EQ(std::ssize(checkpoint.tensors()), summary.total.tensor_count) << directory;
        EXPECT_EQ(checkpoint.total_bytes(), summary.total.bytes) << directory;
        EXPECT_FALSE(checkpoint.is_dummy());
        for (const ExpectedTensor& expected : expected_tensors(config)) {
            if (expected.rank == 2) {
                const Weight weight = checkpoint.weight(base_of(expected.name));
                EXPECT_EQ(weight.rows, expected.rows) << expected.name;
                EXPECT_EQ(weight.cols, expected.cols) << expected.name;
                std::vector<float> row(static_cast<size_t>(weight.cols));
                dequantise_weight_row(weight, weight.rows - 1, 0, row);
                for (const float value : row) {
                    ASSERT_TRUE(std::isfinite(value)) << expected.name;
                }
                continue;
            }
            const Tensor tensor = checkpoint.tensor(expected.name);
            EXPECT_EQ(tensor.rank, 1);
            EXPECT_EQ(tensor.rows(), expected.rows) << expected.name;
            EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(dtype_bits(tensor.dtype) / 8), 0U);
        }
    }
}

TEST(Checkpoint, GivesTheBytesOfTheFileWhereverTheScaleLies) {
    const Checkpoint checkpoint = open_good(kTinyQuant);
    std::map<std::string, FixtureTensor> all = SafetensorsFixture(kTinyQuant + "/model-00001-of-00002.safetensors").tensors;
    all.merge(SafetensorsFixture(kTinyQuant + "/model-00002-of-00002.safetensors").tensors);
    ASSERT_EQ(all.size(), checkpoint.tensors().size());
    for (const auto& [name, expected] : all) {
        const StoredTensor& stored = checkpoint.tensors().at(name);
        EXPECT_EQ(stored.shape, expected.shape);
        ASSERT_EQ(stored.bytes, std::ssize(expected.bytes));
        EXPECT_EQ(std::memcmp(stored.data, expected.bytes.data(), expected.bytes.size()), 0) << name;
        if (name.ends_with(".scale")) {
            const Weight weight = checkpoint.weight(name.substr(0, name.size() - 6));
            EXPECT_EQ(weight.scale_bytes(), stored.bytes);
            EXPECT_EQ(weight.scale, stored.data) << name;
        }
    }
}

// The two directories hold the same weights; a block's scale is the smallest power of two that fits its largest value, so a
// value is off by at most half a step of its format.
TEST(Checkpoint, DequantisesToThePlainModelWithinTheFormatsSteps) {
    const Checkpoint plain = open_good(kTiny);
    const Checkpoint quantised = open_good(kTinyQuant);
    int64_t quantised_count = 0;
    for (const ExpectedTensor& expected : expected_tensors(*load_model_config(kTiny))) {
        if (expected.rank != 2) {
            continue;
        }
        const Weight a = plain.weight(base_of(expected.name));
        const Weight b = quantised.weight(base_of(expected.name));
        EXPECT_EQ(a.scale_layout, ScaleLayout::kNone);
        quantised_count += b.scale_layout != ScaleLayout::kNone ? 1 : 0;
        for (int64_t row = 0; row < a.rows; ++row) {
            std::vector<float> x(static_cast<size_t>(a.cols));
            std::vector<float> y(static_cast<size_t>(a.cols));
            dequantise_weight_row(a, row, 0, x);
            dequantise_weight_row(b, row, 0, y);
            for (size_t i = 0; i < x.size(); ++i) {
                float step = 0;
                if (b.scale_layout != ScaleLayout::kNone) {
                    const int64_t scale_row = b.scale_layout == ScaleLayout::kRow32 ? row : row / 32;
                    const float scale = e8m0_to_f32(b.scale[scale_row * b.scale_cols() + static_cast<int64_t>(i) / 32]);
                    // FP4 steps are at most 2; FP8 steps 1/8 of the value, or 2^-9 near zero.
                    step = b.dtype == DType::kF4E2M1 ? 2 * scale : std::max(std::fabs(x[i]) / 8, scale * 0x1p-9F);
                }
                ASSERT_LE(std::fabs(x[i] - y[i]), step / 2 * 1.001F) << expected.name << " row " << row << " column " << i;
            }
        }
    }
    EXPECT_GT(quantised_count, 100);
}

// --- files that a test makes ------------------------------------------------------

// A model directory whose tensors can be changed before it is opened.
struct EditableModel {
    struct Item {
        DType dtype;
        std::vector<int64_t> shape;
        std::vector<uint8_t> bytes;
    };
    ModelConfig config;
    std::map<std::string, Item> items;

    explicit EditableModel(const std::string& source) : config(*load_model_config(source)) {
        const Checkpoint checkpoint = open_good(source);
        for (const auto& [name, stored] : checkpoint.tensors()) {
            items[name] = {stored.dtype, stored.shape, {stored.data, stored.data + stored.bytes}};
        }
    }

    // Writes the items that `is_wanted` selects.
    void write(const std::string& path, const std::function<bool(const std::string&)>& is_wanted) const {
        std::vector<SafetensorsOutput> outputs;
        for (const auto& [name, item] : items) {
            if (is_wanted(name)) {
                outputs.push_back({name, item.dtype, item.shape, item.bytes.data()});
            }
        }
        const auto status = write_safetensors(path, outputs, {});
        ASSERT_TRUE(status) << status.error().text;
    }

    [[nodiscard]] Result<Checkpoint> open() const {
        const TemporaryDirectory directory;
        write(directory.file("model.safetensors"), [](const std::string&) { return true; });
        return Checkpoint::open(directory.path(), config);  // the mapping outlives the files
    }
    [[nodiscard]] std::string error() const {
        const auto checkpoint = open();
        return checkpoint ? "no error" : checkpoint.error().text;
    }
};

void expect_error(const std::string& error, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) {
        EXPECT_NE(error.find(part), std::string::npos) << part << " in: " << error;
    }
    EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(Checkpoint, ToleratesALeadingModel) {
    EditableModel model(kTinyQuant);
    std::map<std::string, EditableModel::Item> renamed;
    for (auto& [name, item] : model.items) {
        renamed["model." + name] = item;
    }
    model.items = renamed;
    auto checkpoint = model.open();
    ASSERT_TRUE(checkpoint) << checkpoint.error().text;
    EXPECT_TRUE(checkpoint->tensors().contains("norm.weight"));
    EXPECT_EQ(checkpoint->weight("layers.0.attn.wkv").rows, 64);
    model.items["norm.weight"] = model.items["model.norm.weight"];
    expect_error(model.error(), {"tensor norm.weight occurs twice"});
}

TEST(Checkpoint, AcceptsOtherFormatsOfOneWeight) {
    EditableModel model(kTinyQuant);
    const std::string expert = "layers.0.ffn.experts.0.w1";
    model.items[expert + ".weight"].dtype = DType::kU8;  // packed FP4 under its other name
    ASSERT_TRUE(model.open()) << model.error();
    EXPECT_EQ(model.open()->weight(expert).dtype, DType::kF4E2M1);
    // An expert in FP8 with block scales, one without any quantisation.
    model.items[expert + ".weight"] = {DType::kF8E4M3, {32, 64}, std::vector<uint8_t>(32 * 64, 0x38)};
    model.items[expert + ".scale"] = {DType::kF8E8M0, {1, 2}, {128, 127}};
    const std::string other = "layers.0.ffn.experts.1.w1";
    model.items[other + ".weight"] = {DType::kF32, {32, 64}, std::vector<uint8_t>(32 * 64 * 4, 0)};
    model.items.erase(other + ".scale");
    const auto checkpoint = model.open();
    ASSERT_TRUE(checkpoint) << checkpoint.error().text;
    std::vector<float> row(64);
    dequantise_weight_row(checkpoint->weight(expert), 5, 0, row);
    EXPECT_EQ(row[31], 2.0F);
    EXPECT_EQ(row[32], 1.0F);
    EXPECT_EQ(checkpoint->weight(other).dtype, DType::kF32);
    EXPECT_EQ(checkpoint->weight(other).scale, nullptr);
}

TEST(Checkpoint, NamesTheTensorThatIsWrong) {
    using Change = std::function<void(EditableModel&)>;
    const std::string linear = "layers.2.attn.wq_a";
    const std::vector<std::pair<Change, std::vector<std::string>>> cases{
        {[](auto& model) { model.items.erase("norm.weight"); },
         {"tensor norm.weight is missing, expected [64] of BF16 or F32"}},
        {[&](auto& model) { model.items.erase(linear + ".scale"); },
         {"scale layers.2.attn.wq_a.scale is missing, expected [1, 2] of F8_E8M0"}},
        {[](auto& model) {
             model.items["layers.0.attn.bias"] = {DType::kU8, {1}, {0}};
         },
         {"tensor layers.0.attn.bias is not one of this model's"}},
        {[](auto& model) {
             model.items["head.scale"] = {DType::kF8E8M0, {12, 2}, std::vector<uint8_t>(24)};
         },
         {"tensor head.scale is not one"}},
        {[&](auto& model) {
             model.items[linear + ".weight"].shape = {64, 32};
         },
         {"tensor layers.2.attn.wq_a.weight", "has shape [64, 32], expected [32, 64]"}},
        {[&](auto& model) { model.items[linear + ".weight"].shape = {2048}; }, {"has shape [2048], expected [32, 64]"}},
        {[&](auto& model) { model.items[linear + ".weight"].dtype = DType::kI8; },
         {"has dtype I8, expected F8_E4M3, BF16 or F32"}},
        {[](auto& model) {
             model.items["layers.0.attn.attn_sink"] = {DType::kBF16, {4}, std::vector<uint8_t>(8)};
         },
         {"attn_sink has dtype BF16, expected F32"}},
        {[](auto& model) { model.items["norm.weight"].dtype = DType::kF16; },
         {"tensor norm.weight has dtype F16, expected BF16 or F32"}},
        {[&](auto& model) {
             model.items[linear + ".scale"].shape = {2, 1};
         },
         {"scale layers.2.attn.wq_a.scale is [2, 1] of F8_E8M0, expected [1, 2]"}},
        {[&](auto& model) { model.items[linear + ".scale"].dtype = DType::kU8; },
         {"is [1, 2] of U8, expected [1, 2] of F8_E8M0"}},
        {[&](auto& model) { model.items[linear + ".scale"].bytes[1] = 255; },
         {"scale layers.2.attn.wq_a.scale has the NaN byte 255 at place 1"}},
        {[](auto& model) { model.items["layers.1.engram.embed.scale"].bytes[433] = 255; },
         {"layers.1.engram.embed.scale has the NaN byte 255 at place 433"}},
        {[](auto& model) { model.items["mtp.2.ffn.experts.5.w2.scale"].bytes[0] = 255; },
         {"mtp.2.ffn.experts.5.w2.scale has the NaN byte"}},
    };
    const EditableModel good(kTinyQuant);
    ASSERT_TRUE(good.open()) << good.error();
    for (const auto& [change, parts] : cases) {
        EditableModel model = good;
        change(model);
        expect_error(model.error(), parts);
    }
}

TEST(Checkpoint, RefusesTheModelOfAnotherConfig) {
    ModelConfig config = *load_model_config(kTiny);
    config.layer_count = 9;
    config.compress_ratios.insert(config.compress_ratios.begin() + 8, 1);
    const auto more = Checkpoint::open(kTiny, config);
    ASSERT_FALSE(more);
    expect_error(more.error().text, {"tensor layers.8.attn_norm.weight is missing"});
    config = *load_model_config(kTiny);
    config.vision = {};
    expect_error(Checkpoint::open(kTiny, config).error().text, {"is not one of this model's"});
}

TEST(Checkpoint, CopiesOnlyPlainTensorsThatLieUnaligned) {
    const EditableModel model(kTiny);
    const TemporaryDirectory directory;
    std::vector<SafetensorsOutput> outputs;
    for (const auto& [name, item] : model.items) {
        outputs.push_back({name, item.dtype, item.shape, item.bytes.data()});
    }
    ASSERT_TRUE(write_safetensors(directory.file("model.safetensors"), outputs, {}));
    // Lengthen the header by one space: the data begins at an odd byte.
    std::string file = *read_file(directory.file("model.safetensors"), 1 << 24);
    uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    file.insert(8 + length, " ");
    ++length;
    std::memcpy(file.data(), &length, 8);
    directory.write("model.safetensors", file);

    const auto opened = Checkpoint::open(directory.path(), model.config);
    ASSERT_TRUE(opened) << opened.error().text;
    const Tensor first = opened->tensor("norm.weight");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data) % 2, 0U);
    EXPECT_EQ(first.data, opened->tensor("norm.weight").data);  // one copy, kept
    const auto& item = model.items.at("norm.weight");
    EXPECT_EQ(std::memcmp(first.data, item.bytes.data(), item.bytes.size()), 0);
    EXPECT_NE(static_cast<const uint8_t*>(first.data), opened->tensors().at("norm.weight").data);
    // A weight stays where it is.
    EXPECT_EQ(opened->weight("embed").data, opened->tensors().at("embed.weight").data);
    const Checkpoint aligned = open_good(kTiny);
    EXPECT_EQ(aligned.tensor("norm.weight").data, aligned.tensors().at("norm.weight").data);
}

// --- shards ----------------------------------------------------------------------

TEST(Shards, LoadWithoutAnIndexFromAllFiles) {
    const EditableModel model(kTinyQuant);
    const TemporaryDirectory directory;
    model.write(directory.file("b.safetensors"), [](const std::string& name) { return name.ends_with(".scale"); });
    model.write(directory.file("a.safetensors"), [](const std::string& name) { return !name.ends_with(".scale"); });
    directory.write("notes.txt", "not a shard");
    auto checkpoint = Checkpoint::open(directory.path(), model.config);
    ASSERT_TRUE(checkpoint) << checkpoint.error().text;
    EXPECT_EQ(checkpoint->tensors().size(), model.items.size());
    // The same tensor in two files is nobody's truth.
    model.write(directory.file("c.safetensors"), [](const std::string& name) { return name == "norm.weight"; });
    expect_error(Checkpoint::open(directory.path(), model.config).error().text,
                 {"tensor norm.weight occurs twice: in", "a.safetensors and in", "c.safetensors"});
}

struct ShardedModel {
    EditableModel model{kTinyQuant};
    TemporaryDirectory directory;
    nlohmann::ordered_json index;

    ShardedModel() {
        model.write(directory.file("one.safetensors"), [](const std::string& name) { return !name.starts_with("mtp."); });
        model.write(directory.file("two.safetensors"), [](const std::string& name) { return name.starts_with("mtp."); });
        for (const auto& [name, item] : model.items) {
            index["weight_map"][name] = name.starts_with("mtp.") ? "two.safetensors" : "one.safetensors";
        }
        index["metadata"]["total_size"] = 1;
    }
    std::string error() const {
        directory.write("model.safetensors.index.json", index.dump());
        const auto checkpoint = Checkpoint::open(directory.path(), model.config);
        return checkpoint ? "no error" : checkpoint.error().text;
    }
};

TEST(Shards, MustBeThereWholeAndAsTheIndexSays) {
    ShardedModel sharded;
    EXPECT_EQ(sharded.error(), "no error");
    // Other files of the directory do not matter where there is an index.
    sharded.directory.write("zzz.safetensors", "garbage");
    EXPECT_EQ(sharded.error(), "no error");

    auto good = sharded.index;
    sharded.index["weight_map"]["norm.weight"] = "two.safetensors";
    expect_error(sharded.error(), {"tensor norm.weight is not in two.safetensors, where the index puts it"});
    sharded.index = good;
    sharded.index["weight_map"].erase("norm.weight");
    expect_error(sharded.error(), {"tensor norm.weight of", "is not in the index"});
    sharded.index = good;
    sharded.index["weight_map"]["extra"] = "two.safetensors";
    expect_error(sharded.error(), {"tensor extra is not in two.safetensors"});
    sharded.index["weight_map"]["extra"] = "three.safetensors";
    expect_error(sharded.error(), {"shard three.safetensors named by", "is missing"});
    for (const std::string name : {"../one.safetensors", "/etc/passwd", "", "..", "a/b.safetensors"}) {
        sharded.index["weight_map"]["extra"] = name;
        expect_error(sharded.error(), {"expected the name of a file beside the index"});
    }
    sharded.index["weight_map"]["extra"] = 7;
    expect_error(sharded.error(), {"weight_map is not an object of file names"});
    sharded.index["weight_map"] = nlohmann::ordered_json::array({"one.safetensors"});
    expect_error(sharded.error(), {"weight_map is not an object of file names"});
    sharded.index.erase("weight_map");
    expect_error(sharded.error(), {"weight_map is missing"});
    sharded.index = good;

    std::filesystem::resize_file(sharded.directory.file("two.safetensors"),
                                 std::filesystem::file_size(sharded.directory.file("two.safetensors")) - 1);
    expect_error(sharded.error(), {"two.safetensors: file is truncated"});
    std::filesystem::remove(sharded.directory.file("two.safetensors"));
    expect_error(sharded.error(), {"shard two.safetensors named by", "is missing"});
}

TEST(Shards, RejectADirectoryWithoutWeightsAndAnIndexThatIsNone) {
    const ModelConfig config = *load_model_config(kTiny);
    const TemporaryDirectory directory;
    auto opened = Checkpoint::open(directory.path(), config);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::kNotFound);
    expect_error(opened.error().text, {directory.path(), "has no weights"});
    expect_error(Checkpoint::open(directory.file("nowhere"), config).error().text, {"cannot list", "nowhere"});
    for (const std::string text : {"", "[]", "{\"weight_map\": {\"a\": \"x\", \"a\": \"y\"}}", "{\"weight_map\":"}) {
        directory.write("model.safetensors.index.json", text);
        opened = Checkpoint::open(directory.path(), config);
        ASSERT_FALSE(opened);
        expect_error(opened.error().text, {"model.safetensors.index.json: "});
    }
    directory.write("model.safetensors.index.json", "{\"weight_map\": {}}");
    expect_error(Checkpoint::open(directory.path(), config).error().text, {"tensor embed.weight is missing"});
}

}  // namespace
}  // namespace di
