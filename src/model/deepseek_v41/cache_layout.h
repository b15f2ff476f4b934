#pragma once

#include "backend/backend.h"
#include "model/geometry.h"
#include "model/model.h"

namespace di::v41 {

// The model's caches as a table: compressed KV and index keys in blocks; window rings and compressor partials in state slots.
[[nodiscard]] CacheGeometry make_geometry(const ModelConfig& config, const ModelOptions& options);

// Row format of window rings.
[[nodiscard]] RowFormat window_format(const ModelOptions& options);
// Row format of compressed KV.
[[nodiscard]] RowFormat compressed_format(const ModelConfig& config, const ModelOptions& options);
// Row format of index keys and queries.
[[nodiscard]] RowFormat index_format(const ModelOptions& options);

[[nodiscard]] CacheView state_view(const CacheGeometry& geometry, const StatePart& part, uint8_t* states);
// `rows` dense cache rows in scratch memory, seen as block 0.
[[nodiscard]] CacheView scratch_view(RowFormat format, int64_t dim, int64_t rows, void* memory);

}  // namespace di::v41
