#include "model/transformer/layout.h"

#include <limits>

namespace di::transformer {

namespace {

constexpr int64_t kPartAlignment = 16;    // vector loads of float rows
constexpr int64_t kBlockAlignment = 128;  // transfers between tiers

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

void add_part(CacheGeometry& geometry, std::string_view kind, int32_t layer, int64_t dim, RowFormat format) {
    BlockPart part{.name = fmt::format("layers.{}.{}", layer, kind), .layer = layer, .dim = dim, .format = format};
    part.offset = round_up(geometry.block_bytes, kPartAlignment);
    part.data_stride = row_bytes(format, dim);
    part.scale_offset = part.offset;
    part.bytes = geometry.block_tokens * part.data_stride;
    geometry.block_bytes = part.offset + part.bytes;
    geometry.blocks.push_back(std::move(part));
}

class Layout {
  public:
    Layout(DType activation, void* memory) : activation_(activation), memory_(static_cast<char*>(memory)) {}

    Tensor activations(std::initializer_list<int64_t> dims) { return take(activation_, dims); }
    Tensor take(DType dtype, std::initializer_list<int64_t> dims) {
        Tensor tensor(nullptr, dtype, dims);
        tensor.data = memory_ == nullptr ? nullptr : memory_ + bytes_;
        bytes_ += round_up(tensor.size() * dtype_bits(dtype) / 8, 64);
        return tensor;
    }
    [[nodiscard]] int64_t bytes() const { return bytes_; }

  private:
    DType activation_;
    char* memory_;
    int64_t bytes_ = 0;
};

}  // namespace

CacheGeometry make_geometry(const ModelConfig& config, const ModelOptions& options) {
    CacheGeometry geometry;
    geometry.block_tokens = kPageTokens;
    geometry.backtrack_tokens = std::numeric_limits<int32_t>::max();
    const RowFormat format = options.kv_quant == KvQuant::kOff ? RowFormat::kF32 : RowFormat::kF16;
    const int64_t width = config.transformer->kv_head_count * config.head_dim;
    for (int32_t layer = 0; layer < config.layer_count; ++layer) {
        add_part(geometry, "k", layer, width, format);
        add_part(geometry, "v", layer, width, format);
    }
    geometry.block_bytes = round_up(geometry.block_bytes, kBlockAlignment);
    return geometry;
}

CacheView block_view(const CacheGeometry& geometry, int32_t layer, bool is_value, uint8_t* blocks) {
    const BlockPart& part = geometry.blocks[static_cast<size_t>(2 * layer + (is_value ? 1 : 0))];
    return {.base = blocks,
            .block_bytes = geometry.block_bytes,
            .data_offset = part.offset,
            .data_stride = part.data_stride,
            .scale_offset = part.scale_offset,
            .scale_stride = part.scale_stride,
            .rows_per_block = geometry.block_tokens,
            .dim = part.dim,
            .format = part.format};
}

Workspace make_workspace(const ModelConfig& config, const ModelOptions& options, DType activation_dtype, void* memory) {
    Layout layout(activation_dtype, memory);
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
