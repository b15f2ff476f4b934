#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "model/batch.h"
#include "model/geometry.h"
#include "weights/checkpoint.h"
#include "weights/gguf_file.h"
#include "weights/model_config.h"

namespace di {

// Colder would only turn a confidence into a yes or no, and 0 into no number.
inline constexpr float kConfidenceTemperatureMin = 1e-5F;

enum class KvQuant : uint8_t { kReference, kOff };
enum class ActQuant : uint8_t { kNone, kFp8 };
// What prompts do in the layers behind the YoCo split: all rows (the definition), all rows with the narrowed window, only
// the last `replay_keep` rows, or as many rows as make the last ones exact.
enum class Replay : uint8_t { kOff, kMask, kCompact, kExact };

struct ModelOptions {
    KvQuant kv_quant = KvQuant::kReference;
    ActQuant act_quant = ActQuant::kNone;
    Replay replay = Replay::kOff;
    int32_t replay_keep = 0;     // 0: window + backtrack; smaller is an error
    int32_t rows_max = 0;        // rows of a step
    int32_t logit_rows_max = 0;  // rows with logits of a step
    int32_t sequences_max = 0;
    int32_t context_max = 0;             // longest sequence in tokens
    std::vector<int32_t> token_classes;  // [vocab] Engram class of every id; empty without Engram
    // What logits of draft confidences are divided by, by depth; the last value goes for all deeper ones too, none means 1.
    // At most as many as the model drafts; values below kConfidenceTemperatureMin count as that.
    std::vector<float> confidence_temperatures{};
};

// Sees intermediate results by name ("attn.normed", layer) while a step runs. For tests and tools; the tensor is a
// device view that is good only during the call.
using Probe = std::function<void(std::string_view name, int32_t layer, const Tensor& value)>;

// Patches of one image: values [height * width, 3 * patch * patch], rows first.
struct ImageInput {
    Tensor patches;
    int64_t grid_height = 0;
    int64_t grid_width = 0;
};

class Model {
  public:
    virtual ~Model() = default;

    [[nodiscard]] virtual const CacheGeometry& geometry() const = 0;
    [[nodiscard]] virtual int64_t vocab_size() const = 0;
    // Logit rows that a step may ask for.
    [[nodiscard]] virtual int32_t logit_rows_max() const = 0;
    // Bytes of activations that this model keeps allocated.
    [[nodiscard]] virtual int64_t workspace_bytes() const = 0;

    // Rows of a prompt may be left out of some layers (a replay mode): there is no state that another prompt could start from, and
    // not every row has logits.
    [[nodiscard]] virtual bool replays() const { return false; }

    // Runs one step: caches are updated, logits of batch.logit_rows come back as f32 [logit rows, vocab],
    // good until the next call. The batch must obey the options' limits (our bug otherwise).
    virtual Tensor forward(const Batch& batch) = 0;

    // --- drafting (draft_depth_max() == 0: none) ---
    [[nodiscard]] virtual int32_t draft_depth_max() const = 0;
    // The parallel part of a round. Needs the context rows that forward() left in the rings.
    virtual void draft_begin(const DraftBatch& batch) = 0;
    struct DraftStep {
        Tensor logits;      // [sequences, vocab] f32
        Tensor confidence;  // [sequences] f32: estimated acceptance of the token drawn from these logits
    };
    // Row `depth` of every sequence, 0 first; previous_ids = the tokens drawn before (first: DraftRow::token_id).
    virtual DraftStep draft_step(int32_t depth, std::span<const int32_t> previous_ids) = 0;

    // --- routing (models without experts: nothing) ---
    // How many rows of the last forward() chose each expert; good until the next forward(). Waits for the device, and copies
    // a few bytes a row and layer: call it when the step's logits have been read.
    struct RoutingCounts {
        int32_t layer_count = 0;
        int32_t expert_count = 0;
        std::span<const int32_t> rows_of_layer;   // [layers] rows that the layer ran
        std::span<const int32_t> rows_of_expert;  // [layers, experts]
    };
    [[nodiscard]] virtual RoutingCounts routing_counts() { return {}; }

    // --- images (has_vision() == false: none) ---
    [[nodiscard]] virtual bool has_vision() const = 0;
    // Values of an embedding row (d) and of one patch (3 * patch * patch): what encode_image writes and reads.
    [[nodiscard]] virtual int64_t embedding_size() const = 0;
    [[nodiscard]] virtual int64_t patch_values() const = 0;
    // Embedding rows [token count, d] of the whole span, markers included, written to `output` (device, caller owns).
    virtual void encode_image(const ImageInput& image, const Tensor& output) = 0;
    // Tokens of the span of an image of this grid; 0 when the tower takes no such grid (too large).
    [[nodiscard]] virtual int64_t image_token_count(int64_t grid_height, int64_t grid_width) const = 0;

    virtual void set_probe(Probe probe) = 0;
};

// The model of `config` on `backend`; `checkpoint` and `backend` must outlive it. The table of families is models.cpp.
[[nodiscard]] Result<std::unique_ptr<Model>> create_model(const ModelConfig& config, const Checkpoint& checkpoint,
                                                          Backend& backend, const ModelOptions& options);

// Geometry and workspace without weights, for memory plans.
[[nodiscard]] Result<CacheGeometry> cache_geometry(const ModelConfig& config, const ModelOptions& options);
[[nodiscard]] Result<int64_t> workspace_bytes(const ModelConfig& config, const ModelOptions& options, DType activation_dtype);

}  // namespace di
