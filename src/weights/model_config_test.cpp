#include "weights/model_config.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file_io.h"
#include "temporary_directory.h"
#include "weights/engram_primes.h"

namespace di {
namespace {

using json = nlohmann::ordered_json;

json fixture_json(const std::string& directory) { return json::parse(*read_file(directory + "/config.json", 1 << 20)); }

json tiny() { return fixture_json(DI_TEST_DATA "/v41-tiny-quant"); }
json flash() { return fixture_json(DI_TEST_DATA "/flash"); }

Result<ModelConfig> parse(const json& root) { return parse_model_config(root.dump()); }

// The error text of a config that must not load.
std::string error_of(const json& root) {
    const auto config = parse(root);
    return config ? "no error" : config.error().text;
}

TEST(ModelConfig, ReadsEveryKeyOfFlash) {
    const auto loaded = load_model_config(DI_TEST_DATA "/flash");
    ASSERT_TRUE(loaded) << loaded.error().text;
    const ModelConfig& config = *loaded;
    EXPECT_EQ(config.architecture, "DeepseekV41ForCausalLM");
    EXPECT_EQ(config.stored, StoredWeights::kFp8Fp4);
    EXPECT_EQ(config.image_token_id, 129264);
    EXPECT_TRUE(config.adds_bos);
    EXPECT_EQ(config.vocab_size, 129280);
    EXPECT_EQ(config.hidden_size, 5120);
    EXPECT_EQ(config.layer_count, 40);
    EXPECT_EQ(config.head_count, 64);
    EXPECT_EQ(config.head_dim, 512);
    EXPECT_EQ(config.rope_dim, 64);
    EXPECT_EQ(config.q_lora_rank, 1280);
    EXPECT_EQ(config.o_lora_rank, 1024);
    EXPECT_EQ(config.o_groups, 8);
    EXPECT_EQ(config.rms_norm_eps, 1e-20F);
    EXPECT_EQ(config.swiglu_limit, 10.0F);
    EXPECT_EQ(config.max_position_embeddings, 1048576);
    EXPECT_EQ(config.rope_theta, 10000.0);
    EXPECT_EQ(config.compress_rope_theta, 160000.0);
    EXPECT_EQ(config.rope_scaling.factor, 16.0);
    EXPECT_EQ(config.rope_scaling.original_max_position_embeddings, 65536);
    EXPECT_EQ(config.sliding_window, 128);
    EXPECT_EQ(config.compress_ratios.size(), 43U);
    EXPECT_EQ(config.index_k_source_layer_ids, config.kv_source_layer_ids);
    EXPECT_EQ(config.index_head_count, 32);
    EXPECT_EQ(config.index_topk, 512);
    EXPECT_EQ(config.candidate_source_layer_id, 20);
    EXPECT_EQ(config.candidate_topk_blocks, 2048);
    EXPECT_EQ(config.moe_intermediate_size, 2304);
    EXPECT_EQ(config.routed_expert_count, 384);
    EXPECT_EQ(config.experts_per_token, 6);
    EXPECT_EQ(config.routed_scaling_factor, 1.5F);
    EXPECT_EQ(config.hc_mult, 4);
    EXPECT_EQ(config.hc_sinkhorn_iters, 20);
    EXPECT_TRUE(config.use_fp4_sparse_kv);
    EXPECT_EQ(config.engram.table_rows, (std::vector<int64_t>{384006168, 384016682}));
    EXPECT_EQ(config.engram.rows_per_token(), 24);
    EXPECT_EQ(config.engram.compressed_vocab_size, 99092);
    EXPECT_EQ(config.draft.stage_count, 3);
    EXPECT_EQ(config.draft.target_layer_ids, (std::vector<int32_t>{37, 38, 39}));
    EXPECT_EQ(config.draft.noise_token_id, 128799);
    EXPECT_TRUE(config.draft.captures_attention_input);
    EXPECT_EQ(config.vision.layer_count, 32);
    EXPECT_EQ(config.vision.min_pixels, 295936);
    EXPECT_FALSE(config.vision.max_wh_ratio.has_value());
}

TEST(ModelConfig, LoadsTheModelsOfTheRepository) {
    for (const std::string directory : {DI_TEST_DATA "/v41-tiny", DI_TEST_DATA "/v41-tiny-quant", DI_MODELS "/v41-mini"}) {
        const auto config = load_model_config(directory);
        EXPECT_TRUE(config) << config.error().text;
    }
    EXPECT_EQ(load_model_config(DI_TEST_DATA "/v41-tiny")->stored, StoredWeights::kPlain);
    EXPECT_FALSE(load_model_config(DI_TEST_DATA "/v41-tiny")->adds_bos);  // tokenizer_compatibility native
    EXPECT_FALSE(load_model_config(DI_MODELS "/v41-mini")->vision.present());
}

TEST(ModelConfig, KnowsWhoOwnsWhatALayerReads) {
    const ModelConfig config = *load_model_config(DI_TEST_DATA "/flash");
    EXPECT_EQ(config.kv_source(1), -1);
    EXPECT_EQ(config.kv_source(2), 2);
    EXPECT_EQ(config.kv_source(13), 8);
    EXPECT_EQ(config.kv_source(39), 20);
    EXPECT_EQ(config.index_source(27), 24);
    EXPECT_EQ(config.index_k_source(27), 20);
    EXPECT_TRUE(config.is_kv_source(20));
    EXPECT_FALSE(config.is_kv_source(24));
    EXPECT_TRUE(config.is_index_source(24));
    EXPECT_FALSE(config.is_index_k_source(24));
    EXPECT_FALSE(config.is_kv_source(-1));
    EXPECT_EQ(config.split_layer(), 20);
    EXPECT_EQ(config.engram_index(14), 1);
    EXPECT_EQ(config.engram_index(2), -1);
}

TEST(ModelConfig, LoadsWithoutOptionalFeatures) {
    json root = tiny();
    root["vision_config"] = nullptr;
    root.erase("image_token_id");
    root.erase("quantization_config");
    json& text = root["text_config"];
    for (const std::string key : {"engram_layer_ids", "engram_num_embeddings", "engram_max_ngram_size", "dspark_block_size",
                                  "dspark_target_layer_ids", "dspark_markov_rank", "num_nextn_predict_layers",
                                  "candidate_source_layer_id", "candidate_topk_blocks", "candidate_block_size"}) {
        text.erase(key);
    }
    text["compress_ratios"] = {0, 0, 2, 2, 2, 1, 1, 1};
    const auto config = parse(root);
    ASSERT_TRUE(config) << config.error().text;
    EXPECT_FALSE(config->vision.present());
    EXPECT_FALSE(config->engram.present());
    EXPECT_FALSE(config->draft.present());
    EXPECT_FALSE(config->candidate_source_layer_id.has_value());
    EXPECT_EQ(config->stored, StoredWeights::kPlain);

    text["engram_layer_ids"] = json::array();
    text["num_nextn_predict_layers"] = 0;
    text["candidate_source_layer_id"] = -1;
    root["vision_config"] = {{"num_hidden_layers", 0}};
    EXPECT_TRUE(parse(root)) << error_of(root);
}

TEST(ModelConfig, LoadsAModelOfWindowLayersOnly) {
    json root = tiny();
    json& text = root["text_config"];
    text["compress_ratios"] = std::vector<int>(11, 0);
    for (const std::string key : {"kv_source_layer_ids", "index_source_layer_ids", "index_n_heads", "index_head_dim",
                                  "index_topk", "candidate_source_layer_id", "rope_scaling", "compress_rope_theta"}) {
        text.erase(key);
    }
    const auto config = parse(root);
    ASSERT_TRUE(config) << config.error().text;
    EXPECT_EQ(config->split_layer(), -1);
    EXPECT_EQ(config->kv_source(7), -1);
}

TEST(ModelConfig, AcceptsEveryRatioThatDividesAPage) {
    for (const int ratio : {2, 4, 8, 16, 32, 64, 128}) {
        json root = tiny();
        json& text = root["text_config"];
        text["compress_ratios"] = {0, 0, ratio, ratio, ratio, 1, 1, 1, 0, 0, 0};
        text["candidate_source_layer_id"] = nullptr;
        EXPECT_TRUE(parse(root)) << error_of(root);
    }
    json root = tiny();
    root["text_config"]["compress_ratios"] = {0, 0, 3, 3, 3, 1, 1, 1, 0, 0, 0};
    EXPECT_EQ(error_of(root), "text_config.compress_ratios[2] is 3, expected 0 or a divisor of 128");
}

TEST(ModelConfig, AcceptsBothSpellingsOfRenamedKeys) {
    json root = tiny();
    root["torch_dtype"] = root["dtype"];
    root.erase("dtype");
    root["text_config"]["rope_scaling"]["type"] = "yarn";
    root["text_config"]["rope_scaling"].erase("rope_type");
    EXPECT_TRUE(parse(root)) << error_of(root);
    root["torch_dtype"] = "float16";
    EXPECT_EQ(error_of(root), "torch_dtype is \"float16\", expected \"bfloat16\"");
    root.erase("torch_dtype");
    EXPECT_EQ(error_of(root), "dtype is missing, expected \"bfloat16\"");
}

struct BadValue {
    std::string pointer;
    json value;  // discarded: erase the key
    std::string expected_text;
};

void expect_rejected(const std::vector<BadValue>& cases) {
    for (const BadValue& item : cases) {
        json root = tiny();
        const json::json_pointer pointer(item.pointer);
        if (item.value.is_discarded()) {
            root[pointer.parent_pointer()].erase(pointer.back());
        } else {
            root[pointer] = item.value;
        }
        EXPECT_NE(error_of(root).find(item.expected_text), std::string::npos) << item.pointer << ": " << error_of(root);
    }
}

TEST(ModelConfig, NamesKeyValueAndExpectationOfABadValue) {
    const json gone(json::value_t::discarded);
    expect_rejected({
        {"/architectures",
         {"GemmaForCausalLM"},
         "architectures is [\"GemmaForCausalLM\"], expected [\"DeepseekV41ForCausalLM\"] or one of LlamaForCausalLM, "
         "MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM"},
        {"/model_type", "deepseek_v3", "model_type is \"deepseek_v3\", expected \"deepseek_v41\""},
        {"/dtype", "float32", "dtype is \"float32\""},
        {"/tokenizer_compatibility", "old", "tokenizer_compatibility is \"old\""},
        {"/text_config", gone, "text_config is missing, expected an object"},
        {"/text_config", 3, "text_config is 3, expected an object"},
        {"/bos_token_id", 384, "bos_token_id is 384, expected an integer from 0 to 383"},
        {"/eos_token_id", {1, 2}, "eos_token_id is [1,2]"},
        {"/image_token_id", gone, "image_token_id is missing"},
        {"/text_config/num_hidden_layers", 100000,
         "text_config.num_hidden_layers is 100000, expected an integer from 1 to 1024"},
        {"/text_config/hidden_size", -64, "text_config.hidden_size is -64"},
        {"/text_config/hidden_size", 64.5, "text_config.hidden_size is 64.5, expected an integer"},
        {"/text_config/hidden_size", "64", "text_config.hidden_size is \"64\", expected an integer"},
        {"/text_config/hidden_size", true, "text_config.hidden_size is true"},
        {"/text_config/hidden_size", 18446744073709551615ULL, "text_config.hidden_size is 18446744073709551615"},
        {"/text_config/hidden_size", gone, "text_config.hidden_size is missing"},
        {"/text_config/hidden_size", 72, "text_config.hidden_size is 72, expected a multiple of 32"},
        {"/text_config/head_dim", 48, "text_config.head_dim is 48, expected a multiple of 32"},
        {"/text_config/moe_intermediate_size", 33, "expected a multiple of 32"},
        {"/text_config/num_key_value_heads", 2, "text_config.num_key_value_heads is 2, expected 1"},
        {"/text_config/num_attention_heads", 5, "expected a multiple of o_groups = 2"},
        {"/text_config/qk_rope_head_dim", 15, "expected an even number of at most 32"},
        {"/text_config/qk_rope_head_dim", 64, "expected an even number of at most 32"},
        {"/text_config/hidden_act", "gelu", "text_config.hidden_act is \"gelu\", expected \"silu\""},
        {"/text_config/attention_bias", true, "text_config.attention_bias is true, expected false"},
        {"/text_config/attention_dropout", 0.1, "text_config.attention_dropout is 0.1"},
        {"/text_config/tie_word_embeddings", true, "tie_word_embeddings is true, expected false"},
        {"/text_config/scoring_func", "softmax", "text_config.scoring_func is \"softmax\""},
        {"/text_config/topk_method", "greedy", "text_config.topk_method is \"greedy\""},
        {"/text_config/norm_topk_prob", false, "text_config.norm_topk_prob is false"},
        {"/text_config/hc_shifted", false, "text_config.hc_shifted is false, expected true"},
        {"/text_config/swiglu_limit", 0, "text_config.swiglu_limit is 0"},
        {"/text_config/rms_norm_eps", "1e-6", "text_config.rms_norm_eps is \"1e-6\", expected a number"},
        {"/text_config/num_experts_per_tok", 9, "text_config.num_experts_per_tok is 9, expected an integer from 1 to 8"},
        {"/text_config/n_shared_experts", 0, "text_config.n_shared_experts is 0"},
        {"/text_config/rope_theta", 1, "text_config.rope_theta is 1"},
        {"/text_config/rope_scaling", gone, "text_config.rope_scaling is missing, expected an object"},
        {"/text_config/rope_scaling/rope_type", "linear",
         "text_config.rope_scaling.rope_type is \"linear\", expected \"yarn\""},
        {"/text_config/rope_scaling/beta_fast", 0.5, "text_config.rope_scaling.beta_fast is 0.5, expected at least beta_slow"},
        {"/text_config/use_fp4_sparse_kv", 1, "text_config.use_fp4_sparse_kv is 1, expected true or false"},
        {"/quantization_config/weight_block_size",
         {128, 128},
         "quantization_config.weight_block_size is [128,128], expected [32, 32]"},
        {"/quantization_config/quant_method", "gptq", "quantization_config.quant_method is \"gptq\""},
        {"/quantization_config/scale_fmt", gone, "quantization_config.scale_fmt is missing"},
        {"/quantization_config/expert_dtype", "fp8", "quantization_config.expert_dtype is \"fp8\""},
        {"/vision_config/hidden_size", 30,
         "vision_config.hidden_size is 30, expected a multiple of 4 * num_attention_heads = 8"},
        {"/vision_config/max_wh_ratio", 0.5, "vision_config.max_wh_ratio is 0.5"},
        {"/vision_config/patch_size", gone, "vision_config.patch_size is missing"},
    });
}

TEST(ModelConfig, RejectsKeysThatContradictOneAnother) {
    const json gone(json::value_t::discarded);
    expect_rejected({
        {"/text_config/compress_ratios", {0, 0, 2}, "text_config.compress_ratios has 3 entries, expected 11"},
        {"/text_config/compress_ratios",
         {0, 0, 2, 2, 2, 1, 1, 1, 0, 1, 0},
         "compress_ratios[9] is 1, expected 0 for a draft stage"},
        {"/text_config/compress_ratios", {0, 0, 2, 2, 2, 1, 1, 0, 0, 0, 0}, "is 0"},
        {"/text_config/compress_ratios", {0, 0, 2, 4, 2, 1, 1, 1, 0, 0, 0}, "layer 3 has compress_ratio 4, its source 2"},
        {"/text_config/compress_ratios",
         {0, 2, 2, 2, 2, 1, 1, 1, 0, 0, 0},
         "layer 1 has compress_ratio 2, but text_config.kv_source_layer_ids has no layer"},
        {"/text_config/kv_source_layer_ids", {2, 5, 4}, "has 4 after 5, expected strictly increasing"},
        {"/text_config/kv_source_layer_ids", {2, 3, 4, 5}, "contains layer 3, expected it in index_source_layer_ids too"},
        {"/text_config/index_k_source_layer_ids",
         {2, 5},
         "kv_source_layer_ids contains layer 4, expected it in index_k_source_layer_ids too"},
        {"/text_config/index_source_layer_ids", {0, 2, 4, 5, 7}, "contains layer 0, whose compress_ratio is 0"},
        {"/text_config/kv_source_layer_ids", {2, 4}, "layer 5 has compress_ratio 1, its source 4"},
        {"/text_config/candidate_source_layer_id", 7,
         "candidate_source_layer_id is 7, expected a layer of index_source_layer_ids and kv_source_layer_ids"},
        {"/text_config/candidate_source_layer_id", 2, "has compress_ratio 1, expected 2 as the candidate source"},
        {"/text_config/candidate_topk_blocks", 1,
         "candidate_topk_blocks * candidate_block_size is 8, expected at least index_topk = 16"},
        {"/text_config/candidate_block_size", 12, "candidate_block_size is 12, expected a divisor of"},
        {"/text_config/engram_layer_ids", {1, 6}, "engram_layer_ids contains 6, expected layers before 5"},
        {"/text_config/engram_layer_ids", {4, 1}, "not strictly increasing"},
        {"/text_config/engram_num_embeddings", {434}, "engram_num_embeddings has 1 entries, expected 2"},
        {"/text_config/engram_num_embeddings", {434, 605}, "engram_num_embeddings[1] is 605, expected at least 606"},
        {"/text_config/dspark_target_layer_ids", {4, 5, 6}, "lie on both sides of layer 5"},
        {"/text_config/dspark_target_layer_ids", {5, 5}, "names a layer twice"},
        {"/text_config/dspark_target_layer_ids", json::array(), "is empty"},
        {"/text_config/n_routed_experts", 16384 * 2, "n_routed_experts is 32768"},
    });
    json root = flash();
    root["text_config"]["n_routed_experts"] = 10000;
    EXPECT_NE(error_of(root).find("routed experts together"), std::string::npos) << error_of(root);
}

TEST(ModelConfig, RejectsTextThatIsNoConfig) {
    const std::vector<std::pair<std::string, std::string>> cases{
        {"", "not JSON"},
        {"{", "not JSON"},
        {"[]", "not a JSON object"},
        {"null", "not a JSON object"},
        {"{\"a\": NaN}", "not JSON"},
        {"{\"a\": 1e999}", "not JSON"},
        {"{\"a\": 1, \"a\": 2}", "key \"a\" occurs twice"},
        {"{\"x\": {\"b\": 1, \"c\": 2, \"b\": 3}}", "key \"b\" occurs twice"},
        {"{\"a\": \"\xff\xfe\"}", "not JSON"},
        {std::string(10000, '['), "nested more than 32 deep"},
        {"{\"a\":" + std::string(500'000, '[') + std::string(500'000, ']') + "}", "nested more than 32 deep"},
        {std::string((1 << 20) + 1, ' '), "expected at most 1048576"},
    };
    for (const auto& [text, expected] : cases) {
        const auto config = parse_model_config(text);
        ASSERT_FALSE(config);
        EXPECT_NE(config.error().text.find(expected), std::string::npos) << config.error().text;
        EXPECT_LT(config.error().text.size(), 500U);
        EXPECT_EQ(config.error().text.find('\n'), std::string::npos);
    }
}

TEST(ModelConfig, SurvivesEveryCutAndEveryReplacedValue) {
    const std::string text = tiny().dump();
    for (size_t length = 0; length < text.size(); length += 7) {
        EXPECT_FALSE(parse_model_config(std::string_view(text).substr(0, length)));
    }
    const std::vector<json> values{
        nullptr, -1, 0, 1, 2, 3, 1e300, 2147483648, 9223372036854775807, "x", json::array(), json::object(), {-1, 1000}, true};
    for (const std::string part : {"", "/text_config", "/vision_config", "/quantization_config", "/text_config/rope_scaling"}) {
        const json root = tiny();
        for (const auto& [key, old] : root[json::json_pointer(part)].items()) {
            for (const json& value : values) {
                json changed = root;
                changed[json::json_pointer(part)][key] = value;
                const auto config = parse(changed);
                EXPECT_TRUE(config || !config.error().text.empty());
            }
        }
    }
}

TEST(ModelConfig, NamesTheFileThatIsMissing) {
    const TemporaryDirectory directory;
    const auto missing = load_model_config(directory.path());
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
    EXPECT_NE(missing.error().text.find("config.json"), std::string::npos);
    directory.write("config.json", "{\"architectures\": 1}");
    EXPECT_NE(load_model_config(directory.path()).error().text.find("config.json: architectures is 1"), std::string::npos);
}

TEST(EngramPrimes, GiveTheTablesOfFlash) {
    const auto primes = primes_from(16'000'000, 48);
    EXPECT_EQ(primes[0], 16'000'057);
    EXPECT_EQ(primes[7], 16'000'183);
    EXPECT_EQ(primes[8], 16'000'189);
    EXPECT_EQ(primes[24], 16'000'477);
    EXPECT_EQ(primes[47], 16'000'889);
    int64_t first = 0;
    int64_t second = 0;
    for (size_t i = 0; i < 24; ++i) {
        first += primes[i];
        second += primes[24 + i];
    }
    EXPECT_EQ(first, 384006168);
    EXPECT_EQ(second, 384016682);
    EXPECT_EQ(primes_from(0, 6), (std::vector<int64_t>{2, 3, 5, 7, 11, 13}));
    // Strong pseudoprimes to small bases are no primes.
    EXPECT_EQ(primes_from(3215031751, 1).front() == 3215031751, false);
}

}  // namespace
}  // namespace di
