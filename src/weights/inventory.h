#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/weight.h"
#include "weights/model_config.h"

// Which tensors a checkpoint of a given config has: names, shapes, accepted formats, sizes. Everything here is derived from
// the config alone, without files.
namespace di {

// In which formats a tensor may be stored.
enum class Storage : uint8_t {
    kVector,       // BF16 or F32: norms, biases of the vision tower
    kBF16,         // BF16 only
    kF32,          // F32 only: hyper-connections, sinks, router biases
    kMatrix,       // BF16 or F32: linears that are never quantised, embedding, head
    kLinear,       // F8_E4M3 with a scale per 32x32 block, or BF16 or F32 without scale
    kExpert,       // packed FP4 (I8 or U8, half the columns) with a scale per row and 32 columns, or as kLinear
    kTable,        // F8_E4M3 with a scale per row and 32 columns, or BF16 or F32 without scale
    kPlainVector,  // F32, BF16 or F16: norms and biases of the Llama-like families
    kPlainMatrix,  // F32, BF16, F16 or a block type of GGUF: their embedding, linears, experts, head
};

// The parts of checkpoint.md section 4 of the format, disjoint.
enum class ModelPart : uint8_t {
    kRoutedExperts,
    kEngramTables,
    kEngramMixing,
    kAttention,
    kIndexers,  // indexers and compressors
    kSharedExperts,
    kFeedForward,  // of layers without experts
    kGates,        // routers with their biases
    kHyperConnections,
    kNorms,
    kEmbedding,
    kHead,
    kDraftExperts,  // routed experts of the DSpark stages
    kDraft,         // the rest of the stages and their heads
    kVision,
    kAligner,  // with the three image markers
};
inline constexpr int kModelPartCount = 16;

// "routed experts", "attention", ...
[[nodiscard]] std::string_view model_part_name(ModelPart part);

// How random weights of this tensor are drawn so that signals stay alive through the layers.
enum class Initial : uint8_t {
    kLinear,   // N(0, 1 / sqrt(columns))
    kUnit,     // N(0, 1)
    kNearOne,  // 1 + 0.1 N
    kTenth,    // 0.1 N
    kHalf,     // 0.5 N
    kThird,    // 0.3 N: Markov tables
    kScale,    // uniform in [0.5, 1.5)
};

// One tensor (without its scale) that the config asks for.
struct ExpectedTensor {
    std::string name;  // "layers.0.attn.wq_a.weight"
    int rank = 0;      // 1 or 2
    int64_t rows = 0;  // logical: FP4 columns are not halved; rank 1: the length
    int64_t cols = 1;
    Storage storage = Storage::kVector;
    ModelPart part = ModelPart::kNorms;
    Initial initial = Initial::kLinear;

    [[nodiscard]] std::vector<int64_t> shape() const {
        return rank == 1 ? std::vector<int64_t>{rows} : std::vector<int64_t>{rows, cols};
    }
};

// How one tensor lies in a file.
struct StoredForm {
    DType dtype = DType::kBF16;  // of the file: packed FP4 is kI8
    std::vector<int64_t> shape;
    ScaleLayout scale_layout = ScaleLayout::kNone;
    std::vector<int64_t> scale_shape;  // empty: no scale

    [[nodiscard]] int64_t bytes() const;
    [[nodiscard]] int64_t scale_bytes() const;
};

// All tensors of a model, layer by layer.
[[nodiscard]] std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

// A tensor that files of this model may have and nothing reads: a head beside tied embeddings, tables of rope frequencies.
[[nodiscard]] bool is_ignored_tensor(const ModelConfig& config, std::string_view name);

// "layers.0.attn.wq_a.weight" -> "layers.0.attn.wq_a.scale".
[[nodiscard]] std::string scale_name_of(std::string_view weight_name);

// The form in which the release stores the tensor: quantised or plain.
[[nodiscard]] StoredForm official_form(const ExpectedTensor& tensor, StoredWeights stored);
// The accepted form with this dtype; none if the tensor may not be stored so.
[[nodiscard]] std::optional<StoredForm> form_for_dtype(const ExpectedTensor& tensor, DType dtype);
// "F8_E4M3, BF16 or F32", for messages.
[[nodiscard]] std::string_view accepted_dtypes(Storage storage);

struct PartSize {
    int64_t tensor_count = 0;     // with scales
    int64_t bytes = 0;            // with scales
    int64_t parameter_count = 0;  // without scales
};

struct InventorySummary {
    std::array<PartSize, kModelPartCount> parts{};  // by ModelPart
    PartSize total;

    [[nodiscard]] const PartSize& of(ModelPart part) const { return parts[static_cast<size_t>(part)]; }
    // What a text engine without drafts keeps in memory when routed experts and tables stay on the disk.
    [[nodiscard]] int64_t resident_text_bytes() const {
        return total.bytes - of(ModelPart::kRoutedExperts).bytes - of(ModelPart::kEngramTables).bytes -
               of(ModelPart::kDraftExperts).bytes - of(ModelPart::kDraft).bytes - of(ModelPart::kVision).bytes -
               of(ModelPart::kAligner).bytes;
    }
};

// Sizes of a model in the official form of `config.stored`, or of the types of its file where the config has them.
[[nodiscard]] InventorySummary summarise_inventory(const ModelConfig& config);

}  // namespace di
