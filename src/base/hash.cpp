#include "base/hash.h"

#include <xxhash.h>

namespace di {

Hash128 hash_bytes(std::span<const std::byte> bytes) {
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    return {.low = hash.low64, .high = hash.high64};
}

}  // namespace di
