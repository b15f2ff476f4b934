#include "text/bpe.h"

#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace di {
namespace {

// Bytes are their own ids; merges number their results from 256.
Bpe make(std::vector<std::pair<int32_t, int32_t>> pairs) {
    std::array<int32_t, 256> byte_ids{};
    for (int i = 0; i < 256; ++i) {
        byte_ids[static_cast<size_t>(i)] = i;
    }
    std::vector<BpeMerge> merges;
    for (const auto& [left, right] : pairs) {
        merges.push_back({left, right, 256 + static_cast<int32_t>(merges.size())});
    }
    return {byte_ids, merges};
}

std::vector<int32_t> encode(const Bpe& bpe, std::string_view text) {
    std::vector<int32_t> ids;
    EXPECT_TRUE(bpe.encode(text, ids).has_value());
    return ids;
}

// The definition: join the leftmost pair of the best rank until there is none.
std::vector<int32_t> encode_plainly(const std::vector<std::pair<int32_t, int32_t>>& pairs, std::string_view text) {
    std::vector<int32_t> ids(text.begin(), text.end());
    for (;;) {
        size_t best_rank = pairs.size();
        size_t best_position = 0;
        for (size_t i = 0; i + 1 < ids.size(); ++i) {
            for (size_t rank = 0; rank < best_rank; ++rank) {
                if (pairs[rank] == std::pair(ids[i], ids[i + 1])) {
                    best_rank = rank;
                    best_position = i;
                }
            }
        }
        if (best_rank == pairs.size()) {
            return ids;
        }
        ids[best_position] = 256 + static_cast<int32_t>(best_rank);
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_position) + 1);
    }
}

TEST(Bpe, JoinsTheLowestRankFirstAndTheLeftmostOnTies) {
    EXPECT_EQ(encode(make({{'a', 'a'}}), "aaa"), (std::vector<int32_t>{256, 'a'}));
    EXPECT_EQ(encode(make({{'b', 'c'}, {'a', 'b'}}), "abc"), (std::vector<int32_t>{'a', 256}));
    EXPECT_EQ(encode(make({{'a', 'b'}, {256, 'c'}}), "abcab"), (std::vector<int32_t>{257, 256}));
    EXPECT_EQ(encode(make({}), "xy"), (std::vector<int32_t>{'x', 'y'}));
    EXPECT_EQ(encode(make({{'a', 'b'}}), ""), std::vector<int32_t>{});
}

TEST(Bpe, EqualsItsDefinitionOnRandomTables) {
    const unsigned seed = 20'261;
    std::mt19937 random(seed);
    for (int round = 0; round < 300; ++round) {
        std::vector<std::pair<int32_t, int32_t>> pairs;
        std::vector<int32_t> tokens{'a', 'b', 'c'};
        const size_t merge_count = random() % 12;
        while (pairs.size() < merge_count) {
            const std::pair pair(tokens[random() % tokens.size()], tokens[random() % tokens.size()]);
            if (std::find(pairs.begin(), pairs.end(), pair) == pairs.end()) {
                tokens.push_back(256 + static_cast<int32_t>(pairs.size()));
                pairs.push_back(pair);
            }
        }
        std::string text;
        const size_t length = random() % 90;
        while (text.size() < length) {
            text += static_cast<char>('a' + random() % 3);
        }
        const Bpe bpe = make(pairs);
        const auto expected = encode_plainly(pairs, text);
        ASSERT_EQ(encode(bpe, text), expected) << "seed " << seed << " round " << round << " text " << text;
        ASSERT_EQ(encode(bpe, text), expected) << "from the cache";
    }
}

TEST(Bpe, NamesAByteThatTheVocabularyLacks) {
    std::array<int32_t, 256> byte_ids{};
    byte_ids['\n'] = -1;
    const Bpe bpe(byte_ids, {});
    std::vector<int32_t> ids;
    const Status status = bpe.encode("a\n", ids);
    ASSERT_FALSE(status.has_value());
    EXPECT_NE(status.error().text.find("0x0a"), std::string::npos) << status.error().text;
}

TEST(Bpe, ForgetsCachedPiecesWithoutChangingResults) {
    const Bpe bpe = make({{'a', 'b'}, {256, 'c'}});
    for (int i = 0; i < 200'000; ++i) {
        std::vector<int32_t> ids;
        ASSERT_TRUE(bpe.encode("abc" + std::to_string(i), ids).has_value());
        ASSERT_EQ(ids.front(), 257);
        ASSERT_EQ(ids.size(), 1 + std::to_string(i).size());
    }
}

}  // namespace
}  // namespace di
