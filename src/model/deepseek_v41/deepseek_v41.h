#pragma once

#include <memory>
#include <vector>

#include "backend/device_memory.h"
#include "model/deepseek_v41/engram_hash.h"
#include "model/deepseek_v41/parameters.h"
#include "model/deepseek_v41/step_plan.h"
#include "model/deepseek_v41/workspace.h"
#include "model/model.h"
#include "model/routing_record.h"

// DeepSeek-V4.1: text.cpp holds the layers, attention.cpp the sparse compressed attention, draft.cpp the DSpark
// stages, vision.cpp the image tower. One line of code a step of the paper; sizes come from the config alone.
namespace di::v41 {

class DeepseekV41 final : public Model {
  public:
    [[nodiscard]] static Result<std::unique_ptr<Model>> create(const ModelConfig& config, const Checkpoint& checkpoint,
                                                               Backend& backend, const ModelOptions& options);
    DeepseekV41(const DeepseekV41&) = delete;
    DeepseekV41& operator=(const DeepseekV41&) = delete;

    [[nodiscard]] const CacheGeometry& geometry() const override { return geometry_; }
    [[nodiscard]] int64_t vocab_size() const override { return config_.vocab_size; }
    [[nodiscard]] int64_t workspace_bytes() const override { return space_.bytes; }
    [[nodiscard]] int32_t logit_rows_max() const override { return options_.logit_rows_max; }
    [[nodiscard]] bool replays() const override { return options_.replay != Replay::kOff; }
    [[nodiscard]] int64_t embedding_size() const override { return config_.hidden_size; }
    [[nodiscard]] int64_t patch_values() const override { return 3 * config_.vision.patch_size * config_.vision.patch_size; }
    Tensor forward(const Batch& batch) override;

    [[nodiscard]] int32_t draft_depth_max() const override { return config_.draft.block_size; }
    void draft_begin(const DraftBatch& batch) override;
    DraftStep draft_step(int32_t depth, std::span<const int32_t> previous_ids) override;

    [[nodiscard]] RoutingCounts routing_counts() override { return routing_.counts(backend_, space_.router_experts); }

    [[nodiscard]] bool has_vision() const override { return config_.vision.present(); }
    void encode_image(const ImageInput& image, const Tensor& output) override;
    [[nodiscard]] int64_t image_token_count(int64_t grid_height, int64_t grid_width) const override;

    void set_probe(Probe probe) override { probe_ = std::move(probe); }

  private:
    // A run of layers over one set of rows: what stays the same from layer to layer, on the device.
    struct Rows {
        const RowSet* set = nullptr;
        Tensor streams;    // [rows, s, d]
        Tensor pre;        // [rows, s] f32: collapse weights, from the sub-block before
        Tensor positions;  // [rows] i32, and so on as in RowSet
        Tensor sequence;
        Tensor window_first;
        Tensor window_last;
        Tensor is_image;
        Tensor local_position;
        Tensor local_row;
        Tensor ring_source;
        Tensor ring_slot;
        Tensor ring_row;

        [[nodiscard]] int64_t count() const { return set->rows(); }
    };
    struct LayerView {
        const LayerParameters& parameters;
        int32_t id;  // layer number; config.layer_count + i for draft stage i
        const Tensor& frequencies;
        CacheView ring;
        int64_t experts_per_token;
    };

    DeepseekV41(const ModelConfig& config, const Checkpoint& checkpoint, Backend& backend, const ModelOptions& options);

    // text.cpp
    void embed(const Batch& batch, const Rows& rows);
    void engram(int32_t layer, const Batch& batch, const Rows& rows);
    void layer(int32_t layer, const Batch& batch, Rows& rows);
    void block(const LayerView& view, Rows& rows, const Tensor& normed);
    void feed_forward(const LayerView& view, const Rows& rows);
    [[nodiscard]] Tensor place_routing(const LayerView& view, int64_t rows);
    [[nodiscard]] Tensor collapse(const LayerView& view, const Rows& rows, const Tensor& pre, const Tensor& norm,
                                  std::string_view name);
    void mixes(const LayerView& view, const HyperParameters& hyper, const Rows& rows, const Tensor& pre, std::string_view name);
    [[nodiscard]] Tensor drop_rows(Rows& rows, const Tensor& normed);
    [[nodiscard]] Tensor head(const Rows& rows);
    [[nodiscard]] LayerView layer_view(int32_t layer) const;
    [[nodiscard]] Rows upload_rows(const RowSet& set, const Tensor& streams, const Tensor& pre);
    [[nodiscard]] Tensor upload(const std::vector<int32_t>& values);
    [[nodiscard]] bool quantises_input(const Weight& weight) const;
    void linear(const Tensor& input, const Weight& weight, const Tensor& output);
    void rms_norm(const Tensor& values, const Tensor& weight);
    void probe(std::string_view name, int32_t layer, const Tensor& value) const;

    // attention.cpp
    void attention(const LayerView& view, const Rows& rows, const Tensor& normed);
    void window_keys(const LayerView& view, const Rows& rows, const Tensor& input);
    void store_window(const LayerView& view, const Rows& rows);
    void compress(const LayerView& view, const Tensor& normed);
    void index_keys(const LayerView& view, const GroupSet& groups);
    void select(const LayerView& view, const Rows& rows, const Tensor& normed);
    [[nodiscard]] CacheView block_part(int32_t layer, std::string_view kind) const;
    [[nodiscard]] CacheView state_part(int32_t layer, std::string_view kind) const;

    // draft.cpp
    void draft_context(const Rows& rows);
    [[nodiscard]] LayerView stage_view(int32_t stage) const;
    [[nodiscard]] float confidence_temperature(int32_t depth) const;

    ModelConfig config_;
    ModelOptions options_;
    Backend& backend_;
    CacheGeometry geometry_;
    Parameters parameters_;
    std::vector<EngramHash> engram_hashes_;
    DeviceMemory memory_;  // of space_
    Workspace space_;
    std::vector<float> base_values_, yarn_values_;
    Tensor base_frequencies_, yarn_frequencies_;  // [rope / 2] f32
    Probe probe_;

    // The step under way.
    StepPlan plan_;
    RowSet draft_rows_;
    CacheMemory cache_;
    RoutingRecord routing_;                     // in space_.router_experts
    std::vector<int64_t> engram_ids_;           // [rows, rows per token]
    std::vector<int32_t> zeros_, row_numbers_;  // [rows_max] 0, 0, ... and 0, 1, ...
    std::vector<int32_t> visible_;              // [rows]
    std::vector<int32_t> stream_rows_;          // [image rows * s]
    std::vector<int32_t> draft_ids_;            // [draft rows]
    std::vector<int64_t> previous_ids_;
    int32_t draft_depth_ = 0;
    int32_t draft_sequences_ = 0;
};

}  // namespace di::v41
