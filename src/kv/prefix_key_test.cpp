#include "kv/prefix_key.h"

#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace di {
namespace {

constexpr int64_t kBlock = 4;

std::vector<int32_t> tokens_of(int32_t count) {
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    std::iota(tokens.begin(), tokens.end(), 100);
    return tokens;
}

std::vector<PrefixKey> keys_of(const std::vector<int32_t>& tokens, const std::vector<PrefixImage>& images = {},
                               std::string_view salt = "") {
    std::vector<PrefixKey> keys;
    extend_prefix_keys(prefix_root("model", salt), tokens, images, kBlock, keys);
    return keys;
}

TEST(PrefixKey, WholeBlocksHaveOne) {
    EXPECT_TRUE(keys_of(tokens_of(0)).empty());
    EXPECT_TRUE(keys_of(tokens_of(3)).empty());
    EXPECT_EQ(keys_of(tokens_of(4)).size(), 1U);
    EXPECT_EQ(keys_of(tokens_of(11)).size(), 2U);
}

TEST(PrefixKey, GrowsWithTheSequenceToTheSameKeys) {
    const std::vector<int32_t> tokens = tokens_of(23);
    const std::vector<PrefixImage> images{{.first_token = 6, .token_count = 3, .content = {1, 2}}};
    std::vector<PrefixKey> keys;
    for (size_t length = 0; length <= tokens.size(); ++length) {
        extend_prefix_keys(prefix_root("model", ""), std::span(tokens).first(length), images, kBlock, keys);
    }
    EXPECT_EQ(keys, keys_of(tokens, images));
}

TEST(PrefixKey, OneTokenChangesItsBlockAndAllBehind) {
    const std::vector<int32_t> tokens = tokens_of(16);
    const std::vector<PrefixKey> keys = keys_of(tokens);
    for (size_t changed = 0; changed < tokens.size(); ++changed) {
        std::vector<int32_t> other = tokens;
        other[changed] += 1;
        const std::vector<PrefixKey> other_keys = keys_of(other);
        for (size_t block = 0; block < keys.size(); ++block) {
            EXPECT_EQ(other_keys[block] == keys[block], block < changed / kBlock) << changed << " " << block;
        }
    }
}

TEST(PrefixKey, SameTokensAtAnotherPlaceAreAnotherBlock) {
    const std::vector<PrefixKey> keys = keys_of({1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
    EXPECT_EQ(std::set<PrefixKey>(keys.begin(), keys.end()).size(), 3U);
}

TEST(PrefixKey, RootSeparatesModelsAndTenants) {
    const std::set<PrefixKey> roots{prefix_root("model", ""),  prefix_root("model", "a"), prefix_root("model", "b"),
                                    prefix_root("modela", ""), prefix_root("", "modela"), prefix_root("", "")};
    EXPECT_EQ(roots.size(), 6U);
    EXPECT_NE(keys_of(tokens_of(8), {}, "a").back(), keys_of(tokens_of(8), {}, "b").back());
}

// The ids of an image's span are the same whatever it shows.
TEST(PrefixKey, ImagesOfOneSizeDifferByTheirContent) {
    const std::vector<int32_t> tokens = tokens_of(16);
    const auto with = [&](Hash128 content) {
        return keys_of(tokens, {{.first_token = 5, .token_count = 6, .content = content}});
    };
    const std::vector<PrefixKey> keys = with({.low = 0x1234, .high = 7});
    // Equal in the low 16 bits, in the low half, in the high half.
    for (const Hash128 other : {Hash128{0x51234, 7}, Hash128{0x1234, 8}, Hash128{0x8000000000001234ULL, 7}}) {
        const std::vector<PrefixKey> other_keys = with(other);
        EXPECT_EQ(other_keys[0], keys[0]) << "in front of the image";
        EXPECT_NE(other_keys[1], keys[1]);
        EXPECT_NE(other_keys[2], keys[2]);
        EXPECT_NE(other_keys[3], keys[3]) << "behind the image";
    }
    EXPECT_EQ(with({.low = 0x1234, .high = 7}), keys);
}

TEST(PrefixKey, ImagesCountWhereTheyOverlapABlock) {
    const std::vector<int32_t> tokens = tokens_of(16);
    const std::vector<PrefixKey> plain = keys_of(tokens);
    const std::vector<PrefixKey> behind = keys_of(tokens, {{.first_token = 8, .token_count = 2, .content = {1, 1}}});
    EXPECT_EQ(behind[1], plain[1]);
    EXPECT_NE(behind[2], plain[2]);
    const std::vector<PrefixKey> last_token = keys_of(tokens, {{.first_token = 7, .token_count = 1, .content = {1, 1}}});
    EXPECT_EQ(last_token[0], plain[0]);
    EXPECT_NE(last_token[1], plain[1]);
    // Another place, another length, two that changed places.
    EXPECT_NE(keys_of(tokens, {{.first_token = 1, .token_count = 1, .content = {1, 1}}})[0],
              keys_of(tokens, {{.first_token = 2, .token_count = 1, .content = {1, 1}}})[0]);
    EXPECT_NE(keys_of(tokens, {{.first_token = 1, .token_count = 1, .content = {1, 1}}})[0],
              keys_of(tokens, {{.first_token = 1, .token_count = 2, .content = {1, 1}}})[0]);
    EXPECT_NE(keys_of(tokens, {{.first_token = 0, .token_count = 1, .content = {1, 1}},
                               {.first_token = 1, .token_count = 1, .content = {2, 2}}})[0],
              keys_of(tokens, {{.first_token = 0, .token_count = 1, .content = {2, 2}},
                               {.first_token = 1, .token_count = 1, .content = {1, 1}}})[0]);
}

}  // namespace
}  // namespace di
