#include <string>

#include <gtest/gtest.h>

#include "engine/limits.h"
#include "engine/load.h"
#include "engine/model_options.h"

namespace di {
namespace {

constexpr int64_t kGibibyte = int64_t{1} << 30;

ModelConfig load(const std::string& name) {
    auto config = load_model_config(std::string(DI_TEST_DATA "/") + name);
    EXPECT_TRUE(config) << config.error().text;
    return config.value_or(ModelConfig{});
}

void expect_consistent(const MemoryPlan& plan, const ModelConfig& config, const EngineOptions& options) {
    const ModelOptions model_options = make_model_options(options, plan.limits, {});
    const auto geometry = cache_geometry(config, model_options);
    ASSERT_TRUE(geometry);
    EXPECT_EQ(plan.kv_block_bytes, geometry->block_bytes);
    EXPECT_EQ(plan.state_slot_bytes, geometry->state_bytes);
    EXPECT_EQ(plan.state_slot_count, plan.limits.max_num_seqs + plan.limits.snapshot_slots);
    EXPECT_EQ(plan.workspace_bytes, *workspace_bytes(config, model_options, DType::kF32));
    EXPECT_EQ(plan.limits.kv_memory_bytes, plan.kv_block_bytes * plan.kv_block_count);
    // The longest request fits.
    EXPECT_GE(plan.kv_block_count * geometry->block_tokens, plan.limits.max_model_len);
    EXPECT_EQ(plan.total_bytes(), plan.weights_resident_bytes + plan.weights_on_demand_bytes + plan.workspace_bytes +
                                      plan.image_bytes + plan.kv_block_bytes * plan.kv_block_count +
                                      plan.state_slot_bytes * plan.state_slot_count);
}

TEST(MemoryPlan, DefaultsGiveEverySequenceTheWholeContextWhereThereIsRoom) {
    const ModelConfig config = load("v41-tiny");
    const auto plan = plan_memory(config, {}, 8 * kGibibyte);
    ASSERT_TRUE(plan) << plan.error().text;
    EXPECT_EQ(plan->limits.max_model_len, 4096);
    EXPECT_EQ(plan->limits.max_num_seqs, 16);
    EXPECT_EQ(plan->limits.max_num_batched_tokens, 512);
    EXPECT_EQ(plan->kv_block_count, 16 * 4096 / 128);
    expect_consistent(*plan, config, {});
}

TEST(MemoryPlan, FlashHasTheSizesOfTheFormat) {
    const ModelConfig config = load("flash");
    const auto plan = plan_memory(config, {}, 1024 * kGibibyte);
    ASSERT_TRUE(plan) << plan.error().text;
    EXPECT_EQ(plan->weights_resident_bytes + plan->weights_on_demand_bytes, int64_t{510286023000});
    EXPECT_EQ(plan->bytes_per_token, 890);
    EXPECT_EQ(plan->limits.max_model_len, config.max_position_embeddings);
    expect_consistent(*plan, config, {});
}

TEST(MemoryPlan, ContextIsLoweredToWhatFitsAndNoFurther) {
    const ModelConfig config = load("flash");
    EngineOptions plain;
    plain.snapshot_memory_bytes = 0;
    // What one whole context needs, less a part of its cache (0.87 GiB).
    const auto whole = plan_memory(config, plain, 1024 * kGibibyte);
    ASSERT_TRUE(whole) << whole.error().text;
    const int64_t cache_of_others = whole->kv_block_bytes * whole->kv_block_count / 16 * 15;
    const int64_t needed = whole->total_bytes() - whole->weights_on_demand_bytes - cache_of_others;
    const auto memory = static_cast<int64_t>(static_cast<double>(needed - 3 * kGibibyte / 10) / kMemoryShare);
    const auto plan = plan_memory(config, plain, memory);
    ASSERT_TRUE(plan) << plan.error().text;
    EXPECT_LT(plan->limits.max_model_len, config.max_position_embeddings);
    EXPECT_EQ(plan->limits.max_model_len % kPageTokens, 0);
    expect_consistent(*plan, config, plain);
    const auto usable = static_cast<int64_t>(static_cast<double>(memory) * kMemoryShare);
    EXPECT_LE(plan->total_bytes() - plan->weights_on_demand_bytes, usable);
    EngineOptions asked = plain;
    asked.max_model_len = plan->limits.max_model_len;
    EXPECT_TRUE(plan_memory(config, asked, memory));
    asked.max_model_len += static_cast<int32_t>(kPageTokens);
    const auto more = plan_memory(config, asked, memory);
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, ErrorCode::kOutOfMemory);
}

TEST(MemoryPlan, SnapshotsTakeAShareAndNeverTheContextItself) {
    const ModelConfig config = load("v41-tiny");
    const auto roomy = plan_memory(config, {}, 8 * kGibibyte);
    ASSERT_TRUE(roomy) << roomy.error().text;
    EXPECT_EQ(roomy->limits.snapshot_slots, roomy->kv_block_count);  // one a block
    EngineOptions options;
    options.snapshot_memory_bytes = 3 * roomy->state_slot_bytes + 5;
    const auto asked = plan_memory(config, options, 8 * kGibibyte);
    ASSERT_TRUE(asked);
    EXPECT_EQ(asked->limits.snapshot_slots, 3);
    expect_consistent(*asked, config, options);
    options.behaviour.prefix_cache = false;
    EXPECT_EQ(plan_memory(config, options, 8 * kGibibyte)->limits.snapshot_slots, 0);
    options = {};
    options.replay = Replay::kMask;
    EXPECT_EQ(plan_memory(config, options, 8 * kGibibyte)->limits.snapshot_slots, 0);
    options = {};
    options.snapshot_memory_bytes = -2;
    EXPECT_NE(plan_memory(config, options, 8 * kGibibyte).error().text.find("snapshot_memory_bytes is -2"), std::string::npos);
}

TEST(MemoryPlan, TooLittleMemoryIsSaidInNumbers) {
    const ModelConfig config = load("flash");
    const auto plan = plan_memory(config, {}, 4 * kGibibyte);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::kOutOfMemory);
    EXPECT_NE(plan.error().text.find("resident weights 9.1"), std::string::npos) << plan.error().text;
    EXPECT_NE(plan.error().text.find("3.60 GiB may be used"), std::string::npos) << plan.error().text;
}

TEST(MemoryPlan, CacheMemoryThatWasAskedForIsKept) {
    const ModelConfig config = load("v41-tiny");
    const int64_t block_bytes = plan_memory(config, {}, 8 * kGibibyte)->kv_block_bytes;
    EngineOptions options;
    options.kv_memory_bytes = 5 * block_bytes + block_bytes / 2;
    const auto lowered = plan_memory(config, options, 8 * kGibibyte);
    ASSERT_TRUE(lowered) << lowered.error().text;
    EXPECT_EQ(lowered->kv_block_count, 5);
    EXPECT_EQ(lowered->limits.max_model_len, 5 * 128);
    expect_consistent(*lowered, config, options);

    options.max_model_len = 641;
    const auto refused = plan_memory(config, options, 8 * kGibibyte);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
    EXPECT_NE(refused.error().text.find("kv_memory_bytes is " + std::to_string(options.kv_memory_bytes)), std::string::npos);

    options.max_model_len = 0;
    options.kv_memory_bytes = block_bytes - 1;
    EXPECT_FALSE(plan_memory(config, options, 8 * kGibibyte));
    options.kv_memory_bytes = 100 * kGibibyte;
    const auto too_much = plan_memory(config, options, 8 * kGibibyte);
    ASSERT_FALSE(too_much);
    EXPECT_EQ(too_much.error().code, ErrorCode::kOutOfMemory);
}

TEST(MemoryPlan, ResidentWeightsMayBeLimited) {
    const ModelConfig config = load("flash");
    EngineOptions options;
    options.weights_memory_bytes = 10 * kGibibyte;
    EXPECT_TRUE(plan_memory(config, options, 1024 * kGibibyte));
    options.weights_memory_bytes = 9 * kGibibyte;
    const auto plan = plan_memory(config, options, 1024 * kGibibyte);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::kOutOfMemory);
    EXPECT_NE(plan.error().text.find("weights_memory_bytes 9663676416"), std::string::npos) << plan.error().text;
}

TEST(MemoryPlan, BadOptionsAreNamed) {
    const ModelConfig config = load("v41-tiny");
    const auto error = [&](const EngineOptions& options) {
        const auto plan = plan_memory(config, options, 8 * kGibibyte);
        return plan ? std::string("none") : plan.error().text;
    };
    EXPECT_NE(error({.model_directory = {}, .max_model_len = 4097}).find("max_model_len is 4097, expected 1 .. 4096"),
              std::string::npos);
    EXPECT_NE(error({.model_directory = {}, .max_model_len = -1}).find("max_model_len is -1"), std::string::npos);
    EXPECT_NE(error({.model_directory = {}, .max_num_seqs = -2}).find("max_num_seqs is -2"), std::string::npos);
    EXPECT_NE(error({.model_directory = {}, .max_num_batched_tokens = 1 << 21}).find("max_num_batched_tokens is 2097152"),
              std::string::npos);
    EXPECT_NE(error({.model_directory = {}, .kv_memory_bytes = -5}).find("kv_memory_bytes is -5"), std::string::npos);
    EXPECT_NE(error({.model_directory = {}, .weights_memory_bytes = -5}).find("weights_memory_bytes is -5"), std::string::npos);
    EXPECT_EQ(error({.model_directory = {}, .max_num_batched_tokens = 1}), "none");
}

}  // namespace
}  // namespace di
