#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

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

// SHA-256: stands for a secret, or for content that somebody may want to forge.
using Digest256 = std::array<uint8_t, 32>;
[[nodiscard]] Digest256 sha256(std::string_view bytes);
// 64 hexadecimal digits of either case; nothing else is one.
[[nodiscard]] std::optional<Digest256> parse_digest(std::string_view text);
// Takes the same time whether and where they differ.
[[nodiscard]] bool equal_in_constant_time(const Digest256& a, const Digest256& b);

}  // namespace di
