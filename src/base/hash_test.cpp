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

TEST(Hash, Sha256IsThatOfTheStandard) {
    EXPECT_EQ(sha256(""), parse_digest("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
    EXPECT_EQ(sha256("abc"), parse_digest("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"));
}

TEST(Hash, ADigestIsSixtyFourHexadecimalDigits) {
    const std::string digits(64, 'a');
    EXPECT_TRUE(parse_digest(digits).has_value());
    EXPECT_FALSE(parse_digest("").has_value());
    EXPECT_FALSE(parse_digest(digits.substr(1)).has_value());
    EXPECT_FALSE(parse_digest(digits + "a").has_value());
    EXPECT_FALSE(parse_digest(digits.substr(1) + "g").has_value());
    EXPECT_FALSE(parse_digest(digits.substr(1) + " ").has_value());
}

TEST(Hash, DigestsAreComparedInAllTheirBytes) {
    const Digest256 digest = sha256("x");
    EXPECT_TRUE(equal_in_constant_time(digest, digest));
    for (size_t i = 0; i < digest.size(); ++i) {
        Digest256 other = digest;
        other[i] ^= 1;
        EXPECT_FALSE(equal_in_constant_time(digest, other));
    }
}

}  // namespace
}  // namespace di
