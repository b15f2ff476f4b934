#include "model/transformer/layout.h"

#include <limits>
#include <string_view>

#include "model/activations.h"
#include "model/block_parts.h"

namespace di::transformer {

CacheGeometry make_geometry(const ModelConfig& config, const ModelOptions& options) {
    CacheGeometry geometry;
    geometry.block_tokens = kPageTokens;
    geometry.backtrack_tokens = std::numeric_limits<int32_t>::max();
    const RowFormat format = options.kv_quant == KvQuant::kOff ? RowFormat::kF32 : RowFormat::kF16;
    const int64_t width = config.transformer->kv_head_count * config.head_dim;
    for (int32_t layer = 0; layer < config.layer_count; ++layer) {
        for (const std::string_view kind : {"k", "v"}) {
            add_row_part(geometry,
                         {.name = fmt::format("layers.{}.{}", layer, kind), .layer = layer, .dim = width, .format = format});
        }
    }
    geometry.block_bytes = round_up(geometry.block_bytes, kBlockAlignment);
    return geometry;
}

CacheView layer_view(const CacheGeometry& geometry, int32_t layer, bool is_value, uint8_t* blocks) {
    return block_view(geometry, geometry.blocks[static_cast<size_t>(2 * layer + (is_value ? 1 : 0))], blocks);
}

Workspace make_workspace(const ModelConfig& config, const ModelOptions& options, DType activation_dtype, void* memory) {
    ActivationLayout layout(activation_dtype, memory);
    Workspace space;
    const int64_t rows = options.rows_max;
    const int64_t d = config.hidden_size;
    const int64_t kv_heads = config.transformer->kv_head_count;
    const int64_t width = config.transformer->intermediate_size;
    space.hidden = layout.activations({rows, d});
    space.normed = layout.activations({rows, d});
    space.output = layout.activations({rows, d});
    space.query = layout.activations({rows, config.head_count, config.head_dim});
    space.context = layout.activations({rows, config.head_count, config.head_dim});
    space.key = layout.activations({rows, kv_heads, config.head_dim});
    space.value = layout.activations({rows, kv_heads, config.head_dim});
    space.gate_up = layout.activations({rows, 2 * width});
    space.activated = layout.activations({rows, width});
    if (config.routed_expert_count > 0) {
        space.router_experts = layout.take(DType::kI32, {config.layer_count, rows, config.experts_per_token});
        space.router_weights = layout.take(DType::kF32, {rows, config.experts_per_token});
    }
    space.head_input = layout.activations({options.logit_rows_max, d});
    space.logits = layout.take(DType::kF32, {options.logit_rows_max, config.vocab_size});
    space.bytes = layout.bytes();
    return space;
}

}  // namespace di::transformer
