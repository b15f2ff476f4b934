#pragma once

#include "backend/backend.h"
#include "model/geometry.h"

// What the families' cache tables have in common.
namespace di {

inline constexpr int64_t kPartAlignment = 16;    // vector loads of float rows
inline constexpr int64_t kBlockAlignment = 128;  // transfers between tiers

[[nodiscard]] constexpr int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// Places `part` (name, layer, ratio, dim, format) behind those that are there: rows one behind the other, each with its
// data and then its scales.
void add_row_part(CacheGeometry& geometry, BlockPart part);

// The rows of a part in the cache's blocks.
[[nodiscard]] CacheView block_view(const CacheGeometry& geometry, const BlockPart& part, uint8_t* blocks);

}  // namespace di
