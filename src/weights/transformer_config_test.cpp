#include "weights/transformer_config.h"

#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "safetensors_fixture.h"
#include "temporary_directory.h"
#include "weights/checkpoint.h"
#include "weights/inventory.h"

namespace di {
namespace {

using json = nlohmann::json;

// Llama 3.2 1B, in the keys that matter.
json llama() {
    return {{"architectures", {"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"torch_dtype", "bfloat16"},
            {"hidden_act", "silu"},
            {"attention_bias", false},
            {"mlp_bias", false},
            {"bos_token_id", 128000},
            {"eos_token_id", {128001, 128008, 128009}},
            {"head_dim", 64},
            {"hidden_size", 2048},
            {"intermediate_size", 8192},
            {"max_position_embeddings", 131072},
            {"num_attention_heads", 32},
            {"num_hidden_layers", 16},
            {"num_key_value_heads", 8},
            {"rms_norm_eps", 1e-5},
            {"rope_theta", 500000.0},
            {"rope_scaling",
             {{"factor", 32.0},
              {"high_freq_factor", 4.0},
              {"low_freq_factor", 1.0},
              {"original_max_position_embeddings", 8192},
              {"rope_type", "llama3"}}},
            {"tie_word_embeddings", true},
            {"vocab_size", 128256}};
}

json with(json config, const json& changes) {
    config.update(changes);
    return config;
}

json mixture() {
    return with(llama(), {{"architectures", {"Qwen3MoeForCausalLM"}},
                          {"model_type", "qwen3_moe"},
                          {"eos_token_id", 9},
                          {"rope_scaling", nullptr},
                          {"num_experts", 12},
                          {"num_experts_per_tok", 3},
                          {"moe_intermediate_size", 96},
                          {"norm_topk_prob", true},
                          {"num_hidden_layers", 4},
                          {"decoder_sparse_step", 2},
                          {"mlp_only_layers", {3}},
                          {"tie_word_embeddings", false}});
}

Result<ModelConfig> parse(const json& config) { return parse_model_config(config.dump()); }

std::set<std::string> names(const ModelConfig& config) {
    std::set<std::string> found;
    for (const ExpectedTensor& tensor : expected_tensors(config)) {
        found.insert(tensor.name);
    }
    return found;
}

TEST(TransformerConfig, ReadsALlamaOfTheThirdKind) {
    const auto config = parse(llama());
    ASSERT_TRUE(config) << config.error().text;
    ASSERT_TRUE(config->transformer);
    EXPECT_EQ(config->architecture, "LlamaForCausalLM");
    EXPECT_EQ(config->head_dim, 64);
    EXPECT_EQ(config->transformer->kv_head_count, 8);
    EXPECT_EQ(config->eos_token_id, 128001);
    EXPECT_EQ(config->other_eos_token_ids, (std::vector<int32_t>{128008, 128009}));
    EXPECT_EQ(config->transformer->rope.kind, RopeKind::kLlama3);
    EXPECT_EQ(config->transformer->rope.factor, 32.0);
    EXPECT_EQ(config->transformer->rope.original_max_position_embeddings, 8192);
    EXPECT_FALSE(config->transformer->rope.has_adjacent_pairs);
    EXPECT_FALSE(config->has_experts(0));
    EXPECT_FALSE(names(*config).contains("lm_head.weight"));
    EXPECT_EQ(summarise_inventory(*config).total.parameter_count, 1'235'814'400);  // as its authors count
}

TEST(TransformerConfig, TellsTheFamiliesApart) {
    const auto qwen2 = parse(with(llama(), {{"architectures", {"Qwen2ForCausalLM"}},
                                            {"model_type", "qwen2"},
                                            {"attention_bias", nullptr},
                                            {"sliding_window", 32768},
                                            {"use_sliding_window", false}}));
    ASSERT_TRUE(qwen2) << qwen2.error().text;
    EXPECT_TRUE(names(*qwen2).contains("layers.3.self_attn.q_proj.bias"));
    EXPECT_FALSE(names(*qwen2).contains("layers.3.self_attn.o_proj.bias"));
    const auto qwen3 = parse(with(llama(), {{"architectures", {"Qwen3ForCausalLM"}}, {"model_type", "qwen3"}}));
    ASSERT_TRUE(qwen3) << qwen3.error().text;
    EXPECT_TRUE(names(*qwen3).contains("layers.15.self_attn.k_norm.weight"));
    EXPECT_FALSE(names(*qwen3).contains("layers.3.self_attn.q_proj.bias"));
    const auto mistral = parse(
        with(llama(), {{"architectures", {"MistralForCausalLM"}}, {"model_type", "mistral"}, {"sliding_window", nullptr}}));
    ASSERT_TRUE(mistral) << mistral.error().text;
    const auto biased = parse(with(llama(), {{"attention_bias", true}}));
    ASSERT_TRUE(biased) << biased.error().text;
    EXPECT_TRUE(names(*biased).contains("layers.0.self_attn.o_proj.bias"));
}

TEST(TransformerConfig, KnowsWhichLayersHaveExperts) {
    const auto config = parse(mixture());
    ASSERT_TRUE(config) << config.error().text;
    EXPECT_FALSE(config->has_experts(0));
    EXPECT_TRUE(config->has_experts(1));
    EXPECT_FALSE(config->has_experts(2));
    EXPECT_FALSE(config->has_experts(3));
    EXPECT_TRUE(config->transformer->normalises_expert_weights);
    const std::set<std::string> found = names(*config);
    EXPECT_TRUE(found.contains("layers.1.mlp.experts.11.down_proj.weight"));
    EXPECT_TRUE(found.contains("layers.3.mlp.down_proj.weight"));
    EXPECT_FALSE(found.contains("layers.1.mlp.down_proj.weight"));
    EXPECT_TRUE(found.contains("lm_head.weight"));
}

TEST(TransformerConfig, ReadsRopeOfEitherLayout) {
    const auto config =
        parse(with(llama(), {{"rope_scaling", nullptr},
                             {"rope_theta", nullptr},
                             {"rope_parameters", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 7e4}}}}));
    ASSERT_TRUE(config) << config.error().text;
    EXPECT_EQ(config->rope_theta, 7e4);
    EXPECT_EQ(config->transformer->rope.kind, RopeKind::kLinear);
    EXPECT_EQ(parse(with(llama(), {{"rope_scaling", nullptr}, {"rope_theta", nullptr}}))->rope_theta, 10000.0);
}

TEST(TransformerConfig, NamesKeyValueAndExpectationOfWhatItCannotDo) {
    const std::pair<json, std::string> cases[] = {
        {{{"model_type", "gemma"}}, "model_type is \"gemma\", expected \"llama\""},
        {{{"hidden_act", "gelu"}}, "hidden_act is \"gelu\", expected \"silu\""},
        {{{"mlp_bias", true}}, "mlp_bias is true, expected false"},
        {{{"torch_dtype", "float8"}}, "torch_dtype is \"float8\", expected \"bfloat16\", \"float16\" or \"float32\""},
        {{{"quantization_config", {{"quant_method", "gptq"}}}},
         "quantization_config is {\"quant_method\":\"gptq\"}, expected none"},
        {{{"num_key_value_heads", 5}}, "num_attention_heads is 32, expected a multiple of num_key_value_heads = 5"},
        {{{"head_dim", 63}}, "head_dim is 63, expected an even number"},
        {{{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}}}, "rope_scaling.rope_type is \"yarn\", expected"},
        {{{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 0.5}}}},
         "rope_scaling.factor is 0.5, expected a number from 1"},
        {{{"eos_token_id", nullptr}}, "eos_token_id is missing, expected an integer from 0 to 128255, or a list"},
        {{{"eos_token_id", {1, 128256}}}, "eos_token_id is [1,128256], expected a list"},
        {{{"vocab_size", 0}}, "vocab_size is 0, expected an integer from 1"},
        {{{"architectures", {"MistralForCausalLM"}}, {"model_type", "mistral"}, {"sliding_window", 4096}},
         "sliding_window is 4096, expected none, or at least max_position_embeddings = 131072"},
    };
    for (const auto& [changes, message] : cases) {
        const auto config = parse(with(llama(), changes));
        ASSERT_FALSE(config) << changes;
        EXPECT_NE(config.error().text.find(message), std::string::npos) << config.error().text;
    }
    const auto experts = parse(with(mixture(), {{"num_experts_per_tok", 13}}));
    ASSERT_FALSE(experts);
    EXPECT_NE(experts.error().text.find("num_experts_per_tok is 13, expected an integer from 1 to 12"), std::string::npos);
}

// Whatever stands where a number should be: an error or a config, never the end of the process.
TEST(TransformerConfig, SurvivesEveryReplacedValue) {
    const json values[] = {nullptr,         true, -1, 0, 1, 1e300, "text", json::array(), json::array({1, "x"}), json::object(),
                           int64_t{1} << 62};
    for (const json& base : {llama(), mixture()}) {
        for (const auto& [key, unused] : base.items()) {
            for (const json& value : values) {
                json changed = base;
                changed[key] = value;
                const auto config = parse(changed);
                EXPECT_TRUE(config || !config.error().text.empty()) << key;
            }
        }
    }
}

TEST(TransformerConfig, AcceptsTheFormsThatFilesHave) {
    const ExpectedTensor matrix{
        .name = "x.weight", .rank = 2, .rows = 4, .cols = 64, .storage = Storage::kPlainMatrix, .part = ModelPart::kAttention};
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kQ4_1, DType::kQ8_0}) {
        EXPECT_TRUE(form_for_dtype(matrix, dtype)) << dtype_name(dtype);
    }
    EXPECT_FALSE(form_for_dtype(matrix, DType::kQ4_K));  // blocks of 256 do not fill a row of 64
    EXPECT_FALSE(form_for_dtype(matrix, DType::kF8E4M3));
    ExpectedTensor vector = matrix;
    vector.storage = Storage::kPlainVector;
    EXPECT_FALSE(form_for_dtype(vector, DType::kQ8_0));
}

TEST(TransformerConfig, IgnoresWhatNothingReads) {
    const ModelConfig tied = *parse(llama());
    EXPECT_TRUE(is_ignored_tensor(tied, "lm_head.weight"));
    EXPECT_TRUE(is_ignored_tensor(tied, "layers.0.self_attn.rotary_emb.inv_freq"));
    EXPECT_FALSE(is_ignored_tensor(tied, "layers.0.self_attn.q_proj.bias"));
    EXPECT_FALSE(is_ignored_tensor(*parse(mixture()), "lm_head.weight"));
}

TEST(TransformerConfig, MakesDummyWeights) {
    json small = with(mixture(), {{"hidden_size", 64},
                                  {"intermediate_size", 96},
                                  {"vocab_size", 100},
                                  {"bos_token_id", 1},
                                  {"num_attention_heads", 4},
                                  {"num_key_value_heads", 2},
                                  {"head_dim", 16}});
    for (const std::string dtype : {"bfloat16", "float16", "float32"}) {
        small["torch_dtype"] = dtype;
        const auto config = parse(small);
        ASSERT_TRUE(config) << config.error().text;
        const auto checkpoint = Checkpoint::dummy(*config, 1);
        ASSERT_TRUE(checkpoint) << checkpoint.error().text;
        EXPECT_EQ(checkpoint->weight("lm_head").dtype, dtype == "float32" ? DType::kF32 : DType::kBF16);
        EXPECT_EQ(checkpoint->total_bytes(), summarise_inventory(*config).total.bytes);
    }
}

}  // namespace
}  // namespace di
