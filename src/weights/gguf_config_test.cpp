#include "weights/gguf_config.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gguf_model.h"
#include "smollm2_model.h"
#include "temporary_directory.h"
#include "weights/checkpoint.h"
#include "weights/inventory.h"

namespace di {
namespace {

GgufModelShape quantised_shape() { return {.width = 128, .matrix_type = 3, .block_bytes = 20, .block_values = 32}; }

// Writes the file and loads config and tensors.
struct Loaded {
    TemporaryDirectory directory;
    Result<ModelConfig> config;
    std::optional<Result<Checkpoint>> checkpoint;

    explicit Loaded(const GgufBuilder& file) : config(load_model_config(directory.write("m.gguf", file.build()))) {
        if (config) {
            checkpoint = Checkpoint::open(directory.file("m.gguf"), *config);
        }
    }
    [[nodiscard]] std::string error() const {
        const std::string prefix = directory.file("m.gguf") + ": ";
        std::string text = "no error";
        if (!config) {
            text = config.error().text;
        } else if (!*checkpoint) {
            text = checkpoint->error().text;
        }
        return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
    }
};

std::string error_of(const GgufBuilder& file) { return Loaded(file).error(); }
bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(GgufConfig, ReadsALlama) {
    GgufModel model(quantised_shape());
    model.file.text("tokenizer.ggml.model", "llama").number<uint32_t>("tokenizer.ggml.bos_token_id", 1);
    model.file.number<uint32_t>("tokenizer.ggml.eos_token_id", 2);
    const Loaded loaded(model.file);
    ASSERT_EQ(loaded.error(), "no error");
    const ModelConfig& config = *loaded.config;
    EXPECT_EQ(config.architecture, "LlamaForCausalLM");
    EXPECT_EQ(config.layer_count, 2);
    EXPECT_EQ(config.hidden_size, 64);
    EXPECT_EQ(config.head_dim, 16);
    EXPECT_EQ(config.rope_dim, 16);
    EXPECT_EQ(config.vocab_size, 40);
    EXPECT_EQ(config.max_position_embeddings, 256);
    EXPECT_FLOAT_EQ(config.rms_norm_eps, 1e-5F);
    EXPECT_EQ(config.rope_theta, 1e5);
    EXPECT_EQ(config.bos_token_id, 1);
    EXPECT_EQ(config.end_token_ids(), (std::vector<int32_t>{2}));
    EXPECT_TRUE(config.adds_bos);  // sentence pieces do unless they say no
    ASSERT_TRUE(config.transformer);
    EXPECT_EQ(config.transformer->kv_head_count, 2);
    EXPECT_EQ(config.transformer->intermediate_size, 128);
    EXPECT_TRUE(config.transformer->rope.has_adjacent_pairs);
    EXPECT_TRUE(config.transformer->ties_embeddings);
    EXPECT_FALSE(config.transformer->has_qkv_bias || config.transformer->has_head_norms);

    const Checkpoint& checkpoint = **loaded.checkpoint;
    EXPECT_EQ(checkpoint.tensors().size(), 2U + 2 * 9);
    const Weight embedding = checkpoint.weight("embed_tokens");
    EXPECT_EQ(embedding.dtype, DType::kQ4_1);
    EXPECT_EQ(embedding.rows, 40);
    EXPECT_EQ(embedding.cols, 64);
    EXPECT_EQ(*static_cast<const uint8_t*>(embedding.data), 0);
    const Weight down = checkpoint.weight("layers.1.mlp.down_proj");
    EXPECT_EQ(down.rows, 64);
    EXPECT_EQ(down.cols, 128);
    EXPECT_EQ(*static_cast<const uint8_t*>(down.data), 2 + 9 + 8);  // the place in the file
    EXPECT_EQ(checkpoint.tensor("layers.0.input_layernorm.weight").dtype, DType::kF32);
}

TEST(GgufConfig, ReadsTheQwenFamilies) {
    GgufModelShape shape = quantised_shape();
    shape.family = "qwen2";
    shape.has_bias = true;
    shape.ties_embeddings = false;
    const Loaded qwen2(GgufModel(shape).file);
    ASSERT_EQ(qwen2.error(), "no error");
    EXPECT_TRUE(qwen2.config->transformer->has_qkv_bias);
    EXPECT_FALSE(qwen2.config->transformer->rope.has_adjacent_pairs);
    EXPECT_FALSE(qwen2.config->transformer->ties_embeddings);
    EXPECT_FALSE(qwen2.config->adds_bos);
    EXPECT_TRUE(qwen2.config->end_token_ids().empty());  // the file names none

    shape.family = "qwen3moe";
    shape.has_bias = false;
    shape.has_head_norms = true;
    shape.experts = 3;
    const Loaded moe(GgufModel(shape).file);
    ASSERT_EQ(moe.error(), "no error");
    EXPECT_EQ(moe.config->architecture, "Qwen3MoeForCausalLM");
    EXPECT_EQ(moe.config->routed_expert_count, 3);
    EXPECT_EQ(moe.config->experts_per_token, 2);
    EXPECT_TRUE(moe.config->transformer->has_head_norms && moe.config->transformer->normalises_expert_weights);
    const Weight first = (*moe.checkpoint)->weight("layers.0.mlp.experts.0.down_proj");
    const Weight last = (*moe.checkpoint)->weight("layers.0.mlp.experts.2.down_proj");
    EXPECT_EQ(first.rows, 64);
    EXPECT_EQ(first.cols, 128);
    EXPECT_EQ(static_cast<const uint8_t*>(last.data) - static_cast<const uint8_t*>(first.data), 2 * first.data_bytes());
}

TEST(GgufConfig, ReadsSmolLm2) {
    const auto config = load_model_config(smollm2_path());
    ASSERT_TRUE(config) << config.error().text;
    EXPECT_EQ(config->vocab_size, 49'152);
    EXPECT_EQ(config->layer_count, 30);
    EXPECT_EQ(config->head_count, 9);
    EXPECT_EQ(config->transformer->kv_head_count, 3);
    EXPECT_EQ(config->bos_token_id, 1);
    EXPECT_EQ(config->eos_token_id, 2);
    EXPECT_FALSE(config->adds_bos);
    const auto checkpoint = Checkpoint::open(smollm2_path(), *config);
    ASSERT_TRUE(checkpoint) << checkpoint.error().text;
    EXPECT_EQ(checkpoint->weight("embed_tokens").dtype, DType::kQ8_0);
    EXPECT_EQ(checkpoint->weight("layers.29.mlp.up_proj").dtype, DType::kQ4_1);
    EXPECT_EQ(checkpoint->total_bytes(), 98'362'432 - 1'785'664);
    EXPECT_EQ(summarise_inventory(*config).total.bytes, checkpoint->total_bytes());
}

TEST(GgufConfig, ReadsDivisorsOfFrequencies) {
    GgufModel model(quantised_shape());
    model.file.tensor("rope_freqs.weight", 0, {8}, std::string(32, '\x3f'));
    const Loaded loaded(model.file);
    ASSERT_EQ(loaded.error(), "no error");
    ASSERT_EQ(loaded.config->transformer->rope.divisors.size(), 8U);
    EXPECT_NEAR(loaded.config->transformer->rope.divisors[7], 0.747F, 1e-3F);
    GgufModel wrong(quantised_shape());
    wrong.file.tensor("rope_freqs.weight", 0, {4}, std::string(16, '\x3f'));
    EXPECT_EQ(error_of(wrong.file), "rope_freqs.weight is f32 with 4 values, expected 8 of f32");
    GgufModel zero(quantised_shape());
    zero.file.tensor("rope_freqs.weight", 0, {8}, std::string(32, '\0'));
    EXPECT_EQ(error_of(zero.file), "rope_freqs.weight holds 0, expected positive numbers");
}

TEST(GgufConfig, RefusesWhatItCannotDo) {
    EXPECT_EQ(error_of(GgufBuilder()), "general.architecture is missing, expected a string");
    EXPECT_EQ(error_of(GgufBuilder().text("general.architecture", "mamba")),
              "general.architecture is \"mamba\", expected llama, qwen2, qwen3 or qwen3moe");
    const auto with = [](const auto& change) {
        GgufModel model(quantised_shape());
        change(model.file);
        return error_of(model.file);
    };
    EXPECT_TRUE(contains(with([](GgufBuilder& f) { f.number<uint32_t>("llama.expert_count", 8); }), "llama.expert_count is 8"));
    EXPECT_TRUE(contains(with([](GgufBuilder& f) { f.text("llama.rope.scaling.type", "yarn"); }), "is \"yarn\", expected"));
    EXPECT_TRUE(contains(with([](GgufBuilder& f) { f.number<uint32_t>("llama.rope.dimension_count", 8); }), "expected 16"));
    EXPECT_TRUE(contains(with([](GgufBuilder& f) { f.number<uint32_t>("llama.attention.value_length", 8); }), "of the keys"));
    EXPECT_TRUE(contains(with([](GgufBuilder& f) { f.number<uint32_t>("llama.attention.sliding_window", 8); }), "is 8"));
    EXPECT_TRUE(contains(with([](GgufBuilder& f) { f.number<float>("llama.logit_scale", 2.0F); }), "it is not supported"));
    EXPECT_TRUE(contains(with([](GgufBuilder& f) { f.boolean("tokenizer.ggml.add_eos_token", true); }), "add_eos_token"));
    EXPECT_TRUE(contains(with([](GgufBuilder& f) { f.number<uint32_t>("tokenizer.ggml.eos_token_id", 40); }),
                         "eos_token_id is u32 40, expected an integer from 0 to 39"));
}

// F05: sizes that a loop or an allocation would believe.
TEST(GgufConfig, RefusesSizesOutOfRange) {
    GgufBuilder file;
    file.text("general.architecture", "llama").number<uint32_t>("llama.block_count", 100'000);
    EXPECT_EQ(error_of(file), "llama.block_count is u32 100000, expected an integer from 1 to 1024");
    GgufModelShape shape = quantised_shape();
    shape.kv_heads = 3;  // 4 heads are no multiple
    EXPECT_TRUE(contains(error_of(GgufModel(shape).file), "expected a multiple of"));
}

TEST(GgufTensors, AreExactlyThoseOfTheModel) {
    GgufModel more(quantised_shape());
    more.file.tensor("blk.0.attn_extra.weight", 0, {4}, std::string(16, '\0'));
    EXPECT_EQ(error_of(more.file), "tensor blk.0.attn_extra.weight is not one of this model's");
    GgufModel wide(quantised_shape());
    wide.file.number<uint32_t>("llama.attention.key_length", 32);
    EXPECT_EQ(error_of(wide.file), "tensor blk.0.attn_q.weight has shape [64, 64], expected [128, 64]");
    GgufModel half(quantised_shape());
    half.file.tensor("blk.0.attn_q.bias", 0, {64}, std::string(256, '\0'));
    EXPECT_EQ(error_of(half.file), "tensor blk.0.attn_k.bias is missing, expected [32] of BF16, F16 or F32");
    GgufModel typed(quantised_shape());
    typed.file.tensor("output.weight", 26, {64, 40}, std::string(10'240, '\0'));
    EXPECT_TRUE(contains(error_of(typed.file), "tensor output.weight is i32, expected BF16, F16, F32 or a block type"));
}

TEST(GgufTensors, HaveAsManyExpertsAsTheConfigSays) {
    GgufModelShape shape = quantised_shape();
    shape.family = "qwen3moe";
    shape.has_head_norms = true;
    shape.experts = 3;
    for (const uint32_t claimed : {2U, 4U}) {
        shape.claimed_experts = claimed;
        const std::string error = error_of(GgufModel(shape).file);
        EXPECT_TRUE(contains(error, "blk.0.ffn_gate_inp.weight has shape [3, 64], expected [" + std::to_string(claimed)))
            << error;
    }
    // The router right, the experts' tensors not.
    shape.router_rows = 4;
    shape.claimed_experts = 4;
    EXPECT_TRUE(contains(error_of(GgufModel(shape).file), "tensor blk.0.ffn_gate_exps.weight has shape [3, 128, 64]"));
    shape.router_rows = 2;
    shape.claimed_experts = 2;
    EXPECT_TRUE(contains(error_of(GgufModel(shape).file), "has 3 experts, expected 2"));
}

TEST(GgufTensors, AreNotReadForDeepseek) {
    ModelConfig config;
    config.architecture = "DeepseekV41ForCausalLM";
    const auto checkpoint = Checkpoint::open("m.gguf", config);
    ASSERT_FALSE(checkpoint);
    EXPECT_EQ(checkpoint.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace di
