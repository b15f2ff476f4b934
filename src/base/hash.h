#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace di {

// 128 bits that stand for some content. Not a secret and no defence against somebody who looks for collisions.
struct Hash128 {
    uint64_t low = 0;
    uint64_t high = 0;

    friend bool operator==(const Hash128&, const Hash128&) = default;
    friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

// XXH3-128: the same bits on every machine of one byte order, about 10 bytes a cycle.
[[nodiscard]] Hash128 hash_bytes(std::span<const std::byte> bytes);

}  // namespace di
