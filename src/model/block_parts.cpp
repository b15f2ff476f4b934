#include "model/block_parts.h"

#include <utility>

namespace di {

void add_row_part(CacheGeometry& geometry, BlockPart part) {
    part.offset = round_up(geometry.block_bytes, kPartAlignment);
    part.data_stride = row_bytes(part.format, part.dim);
    part.scale_offset = part.offset + row_data_bytes(part.format, part.dim);
    part.scale_stride = part.data_stride;
    part.bytes = geometry.block_tokens / part.ratio * part.data_stride;
    geometry.block_bytes = part.offset + part.bytes;
    geometry.blocks.push_back(std::move(part));
}

CacheView block_view(const CacheGeometry& geometry, const BlockPart& part, uint8_t* blocks) {
    return {.base = blocks,
            .block_bytes = geometry.block_bytes,
            .data_offset = part.offset,
            .data_stride = part.data_stride,
            .scale_offset = part.scale_offset,
            .scale_stride = part.scale_stride,
            .rows_per_block = geometry.block_tokens / part.ratio,
            .dim = part.dim,
            .format = part.format};
}

}  // namespace di
