#include "model/deepseek_v41/cache_layout.h"

#include <algorithm>

#include "model/block_parts.h"

namespace di::v41 {

namespace {

// All data sections of the page first, then all scales.
void add_index_part(CacheGeometry& geometry, int32_t layer, int64_t ratio, int64_t dim, RowFormat format) {
    BlockPart part{
        .name = fmt::format("layers.{}.index_k", layer), .layer = layer, .ratio = ratio, .dim = dim, .format = format};
    const int64_t rows = geometry.block_tokens / ratio;
    part.offset = round_up(geometry.block_bytes, kPartAlignment);
    part.data_stride = row_data_bytes(format, dim);
    part.scale_offset = part.offset + rows * part.data_stride;
    part.scale_stride = row_scale_bytes(format, dim);
    part.bytes = rows * row_bytes(format, dim);
    geometry.block_bytes = part.offset + part.bytes;
    geometry.blocks.push_back(part);
}

void add_state_part(CacheGeometry& geometry, StatePart part) {
    part.offset = round_up(geometry.state_bytes, kPartAlignment);
    part.row_bytes = row_bytes(part.format, part.dim);
    geometry.state_bytes = part.offset + part.tokens * part.row_bytes;
    geometry.states.push_back(std::move(part));
}

}  // namespace

RowFormat window_format(const ModelOptions& options) {
    return options.kv_quant == KvQuant::kOff ? RowFormat::kF32 : RowFormat::kFp8;
}

RowFormat compressed_format(const ModelConfig& config, const ModelOptions& options) {
    if (options.kv_quant == KvQuant::kOff) {
        return RowFormat::kF32;
    }
    return config.use_fp4_sparse_kv ? RowFormat::kNvfp4 : RowFormat::kFp8;
}

RowFormat index_format(const ModelOptions& options) {
    return options.kv_quant == KvQuant::kOff ? RowFormat::kF32 : RowFormat::kMxfp4;
}

CacheGeometry make_geometry(const ModelConfig& config, const ModelOptions& options) {
    CacheGeometry geometry;
    geometry.block_tokens = kPageTokens;
    geometry.backtrack_tokens = config.draft.present() ? config.draft.block_size + 1 : 1;
    geometry.history_tokens = config.engram.present() ? config.engram.max_ngram_size - 1 : 0;
    for (const int32_t layer : config.kv_source_layer_ids) {
        add_row_part(geometry, {.name = fmt::format("layers.{}.kv", layer),
                                .layer = layer,
                                .ratio = config.ratio(layer),
                                .dim = config.head_dim,
                                .format = compressed_format(config, options)});
    }
    for (const int32_t layer : config.index_k_source_layer_ids) {
        add_index_part(geometry, layer, config.ratio(layer), config.index_head_dim, index_format(options));
    }
    geometry.block_bytes = round_up(geometry.block_bytes, kBlockAlignment);

    const int32_t split = config.split_layer();
    const int64_t ring = config.sliding_window + geometry.backtrack_tokens;
    for (int32_t layer = 0; layer < config.layer_count; ++layer) {
        add_state_part(geometry, {.name = fmt::format("layers.{}.window", layer),
                                  .layer = layer,
                                  .tokens = ring,
                                  .dim = config.head_dim,
                                  .format = window_format(options),
                                  .is_stored = split < 0 || layer < split});
    }
    for (const int32_t layer : config.kv_source_layer_ids) {
        if (config.ratio(layer) > 1) {
            const int64_t tokens = config.ratio(layer) + geometry.backtrack_tokens - 1;
            add_state_part(geometry, {.name = fmt::format("layers.{}.partial", layer),
                                      .layer = layer,
                                      .tokens = tokens,
                                      .dim = 2 * config.head_dim,
                                      .format = RowFormat::kF32});
        }
    }
    for (int32_t stage = 0; stage < config.draft.stage_count; ++stage) {
        add_state_part(geometry, {.name = fmt::format("mtp.{}.window", stage),
                                  .layer = config.layer_count + stage,
                                  .tokens = ring,
                                  .dim = config.head_dim,
                                  .format = window_format(options),
                                  .is_stored = false});
    }
    geometry.state_bytes = round_up(geometry.state_bytes, kPartAlignment);
    return geometry;
}

CacheView state_view(const CacheGeometry& geometry, const StatePart& part, uint8_t* states) {
    return {.base = states,
            .block_bytes = geometry.state_bytes,
            .data_offset = part.offset,
            .data_stride = part.row_bytes,
            .scale_offset = part.offset + row_data_bytes(part.format, part.dim),
            .scale_stride = part.row_bytes,
            .rows_per_block = part.tokens,
            .dim = part.dim,
            .format = part.format};
}

CacheView scratch_view(RowFormat format, int64_t dim, int64_t rows, void* memory) {
    const int64_t stride = row_bytes(format, dim);
    return {.base = static_cast<uint8_t*>(memory),
            .block_bytes = rows * stride,
            .data_offset = 0,
            .data_stride = stride,
            .scale_offset = row_data_bytes(format, dim),
            .scale_stride = stride,
            .rows_per_block = rows,
            .dim = dim,
            .format = format};
}

}  // namespace di::v41
