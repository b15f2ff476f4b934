#pragma once

#include <memory>
#include <vector>

#include "backend/device_memory.h"
#include "model/model.h"
#include "model/routing_record.h"
#include "model/transformer/layout.h"
#include "model/transformer/parameters.h"

// The Llama-like families: Llama, Mistral, Qwen2, Qwen3, Qwen3-MoE. What differs between them is data of the config.
namespace di::transformer {

class Transformer final : public Model {
  public:
    [[nodiscard]] static Result<std::unique_ptr<Model>> create(const ModelConfig& config, const Checkpoint& checkpoint,
                                                               Backend& backend, const ModelOptions& options);
    Transformer(const Transformer&) = delete;
    Transformer& operator=(const Transformer&) = delete;

    [[nodiscard]] const CacheGeometry& geometry() const override { return geometry_; }
    [[nodiscard]] int64_t vocab_size() const override { return config_.vocab_size; }
    [[nodiscard]] int64_t workspace_bytes() const override { return space_.bytes; }
    [[nodiscard]] int32_t logit_rows_max() const override { return options_.logit_rows_max; }
    [[nodiscard]] int64_t embedding_size() const override { return config_.hidden_size; }
    Tensor forward(const Batch& batch) override;
    [[nodiscard]] RoutingCounts routing_counts() override { return routing_.counts(backend_, space_.router_experts); }

    // No draft head, no images.
    [[nodiscard]] int32_t draft_depth_max() const override { return 0; }
    void draft_begin(const DraftBatch& batch) override;
    DraftStep draft_step(int32_t depth, std::span<const int32_t> previous_ids) override;
    [[nodiscard]] bool has_vision() const override { return false; }
    [[nodiscard]] int64_t patch_values() const override { return 0; }
    void encode_image(const ImageInput& image, const Tensor& output) override;
    [[nodiscard]] int64_t image_token_count(int64_t, int64_t) const override { return 0; }

    void set_probe(Probe probe) override { probe_ = std::move(probe); }

  private:
    // The step on the device: who stands where, and where rows are stored.
    struct Rows {
        int64_t count = 0;
        Tensor sequence, positions;  // [rows] i32
        Tensor blocks, block_rows;   // [rows] i32: place of a row's key and value
        Tensor block_tables;         // [sequences, columns] i32
    };

    Transformer(const ModelConfig& config, const Checkpoint& checkpoint, Backend& backend, const ModelOptions& options);

    [[nodiscard]] Rows plan_rows(const Batch& batch);
    [[nodiscard]] Tensor upload(const std::vector<int32_t>& values);
    void layer(int32_t id, const Rows& rows);
    void attention(int32_t id, const Rows& rows);
    void turn(const Tensor& heads, const Tensor& norm, const Rows& rows);
    void feed_forward(int32_t id, int64_t rows);
    void experts(int32_t id, int64_t rows);
    [[nodiscard]] Tensor head(const Batch& batch);
    void probe(std::string_view name, int32_t layer, const Tensor& value) const;

    ModelConfig config_;
    ModelOptions options_;
    Backend& backend_;
    CacheGeometry geometry_;
    Parameters parameters_;
    DeviceMemory memory_;  // of space_
    Workspace space_;
    std::vector<float> frequency_values_;
    Tensor frequencies_;  // [head_dim / 2] f32
    Probe probe_;

    // The step under way.
    CacheMemory cache_;
    std::vector<int32_t> sequence_, positions_, blocks_, block_rows_;  // [rows]
    std::vector<int32_t> block_tables_;
    RoutingRecord routing_;  // in space_.router_experts
};

}  // namespace di::transformer
