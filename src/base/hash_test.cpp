#include "base/hash.h"

#include <set>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace di {
namespace {

Hash128 hash_text(std::string_view text) { return hash_bytes(std::as_bytes(std::span(text))); }

TEST(Hash, IsXxh3Of128Bits) {
    // Test vector of the XXH3 specification: empty input, seed 0.
    EXPECT_EQ(hash_text(""), (Hash128{.low = 0x6001c324468d497fULL, .high = 0x99aa06d3014798d8ULL}));
}

TEST(Hash, DiffersWithEveryByteAndLength) {
    std::vector<std::byte> bytes(600);
    std::set<Hash128> seen{hash_bytes(bytes)};
    for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = std::byte{1};
        seen.insert(hash_bytes(bytes));
        bytes[i] = std::byte{0};
        seen.insert(hash_bytes(std::span(bytes).first(i)));
    }
    EXPECT_EQ(seen.size(), 1 + 2 * bytes.size());
}

}  // namespace
}  // namespace di
