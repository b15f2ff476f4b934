#include "model/weight_plan.h"

#include "weights/inventory.h"

namespace di {

namespace {

bool is_on_demand(ModelPart part) {
    switch (part) {
        case ModelPart::kRoutedExperts:
        case ModelPart::kEngramTables:
        case ModelPart::kDraftExperts:
        case ModelPart::kDraft:
        case ModelPart::kVision:
        case ModelPart::kAligner: return true;
        case ModelPart::kEngramMixing:
        case ModelPart::kAttention:
        case ModelPart::kIndexers:
        case ModelPart::kSharedExperts:
        case ModelPart::kFeedForward:
        case ModelPart::kGates:
        case ModelPart::kHyperConnections:
        case ModelPart::kNorms:
        case ModelPart::kEmbedding:
        case ModelPart::kHead: return false;
    }
    return false;
}

}  // namespace

WeightBytes weight_bytes(const ModelConfig& config) {
    const InventorySummary summary = summarise_inventory(config);
    WeightBytes bytes;
    for (int part = 0; part < kModelPartCount; ++part) {
        const auto kind = static_cast<ModelPart>(part);
        (is_on_demand(kind) ? bytes.on_demand : bytes.resident) += summary.of(kind).bytes;
    }
    return bytes;
}

}  // namespace di
