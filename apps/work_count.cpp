#include "apps/work_count.h"

#include <algorithm>

#include "tensor/quant.h"
#include "weights/inventory.h"

namespace di {
namespace {

// Parts that every token of text goes through in whole.
constexpr ModelPart kDenseParts[] = {ModelPart::kEngramMixing,     ModelPart::kAttention,  ModelPart::kIndexers,
                                     ModelPart::kSharedExperts,    ModelPart::kGates,      ModelPart::kNorms,
                                     ModelPart::kHyperConnections, ModelPart::kFeedForward};

struct Dense {
    double bytes = 0.0;
    double parameters = 0.0;
};

Dense dense_parts(const InventorySummary& inventory) {
    Dense dense;
    for (const ModelPart part : kDenseParts) {
        dense.bytes += static_cast<double>(inventory.of(part).bytes);
        dense.parameters += static_cast<double>(inventory.of(part).parameter_count);
    }
    return dense;
}

double expert_share(const ModelConfig& config) {
    return static_cast<double>(config.experts_per_token) / std::max(1, config.routed_expert_count);
}

double engram_row_bytes(const ModelConfig& config, const InventorySummary& inventory) {
    int64_t rows = 0;
    for (const int64_t count : config.engram.table_rows) {
        rows += count;
    }
    if (rows == 0) {
        return 0.0;
    }
    const double row = static_cast<double>(inventory.of(ModelPart::kEngramTables).bytes) / static_cast<double>(rows);
    return row * static_cast<double>(config.engram.rows_per_token()) * static_cast<double>(config.engram.layer_ids.size());
}

// Every cached row counted once, however many layers read it: a second reading may come from the processor's cache.
double cache_bytes(const ModelConfig& config, const CacheGeometry& geometry, int64_t context) {
    int64_t bytes = 0;
    for (const BlockPart& part : geometry.blocks) {
        const int64_t rows = context / std::max<int64_t>(1, part.ratio);
        const bool is_index = part.name.ends_with("index_k");
        const bool is_whole = is_index || config.transformer.has_value();  // every row is read, not a choice of them
        bytes += (is_whole ? rows : std::min(rows, config.index_topk)) * row_bytes(part.format, part.dim);
    }
    for (const StatePart& part : geometry.states) {
        // The draft's rings are not read without drafts, partial sums are a few rows.
        if (part.name.starts_with("layers.") && part.name.ends_with("window")) {
            bytes += std::min({part.tokens, context, config.sliding_window}) * part.row_bytes;
        }
    }
    return static_cast<double>(bytes);
}

}  // namespace

WorkCount decode_work(const ModelConfig& config, const CacheGeometry& geometry, int64_t context) {
    const InventorySummary inventory = summarise_inventory(config);
    const Dense dense = dense_parts(inventory);
    const PartSize& experts = inventory.of(ModelPart::kRoutedExperts);
    // A head that is the embedding is read as one.
    const bool is_tied = config.transformer && config.transformer->ties_embeddings;
    const PartSize& head = inventory.of(is_tied ? ModelPart::kEmbedding : ModelPart::kHead);
    WorkCount work;
    work.bytes = dense.bytes + static_cast<double>(head.bytes) + static_cast<double>(experts.bytes) * expert_share(config) +
                 engram_row_bytes(config, inventory) +
                 static_cast<double>(inventory.of(ModelPart::kEmbedding).bytes) / static_cast<double>(config.vocab_size) +
                 cache_bytes(config, geometry, context);
    work.flops = 2.0 * (dense.parameters + static_cast<double>(head.parameter_count) +
                        static_cast<double>(experts.parameter_count) * expert_share(config));
    return work;
}

WorkCount prefill_work(const ModelConfig& config, int64_t tokens, int64_t rows) {
    const InventorySummary inventory = summarise_inventory(config);
    const Dense dense = dense_parts(inventory);
    const PartSize& experts = inventory.of(ModelPart::kRoutedExperts);
    const auto count = static_cast<double>(tokens);
    const auto steps = static_cast<double>((tokens + rows - 1) / rows);
    // A step of few rows does not touch every expert.
    const double touched = std::min(1.0, expert_share(config) * static_cast<double>(std::min(tokens, rows)));
    WorkCount work;
    work.bytes = steps * (dense.bytes + static_cast<double>(experts.bytes) * touched);
    work.flops = 2.0 * count * (dense.parameters + static_cast<double>(experts.parameter_count) * expert_share(config));
    return work;
}

}  // namespace di
