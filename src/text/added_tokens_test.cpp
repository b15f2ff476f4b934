#include "text/added_tokens.h"

#include <gtest/gtest.h>

namespace di {
namespace {

std::string shown(const AddedTokens& tokens, std::string_view text) {
    std::string result;
    for (const TextSegment& segment : tokens.split(text)) {
        result += segment.token_id < 0 ? "(" + std::string(segment.text) + ")" : "[" + std::to_string(segment.token_id) + "]";
    }
    return result;
}

TEST(AddedTokens, TakesTheLongestAtTheLeftmostPosition) {
    const AddedTokens tokens(
        {{1, "ab", false, false}, {2, "abcd", false, false}, {3, "bcde", false, false}, {4, "a", false, false}});
    EXPECT_EQ(shown(tokens, "xabcdex"), "(x)[2](ex)");
    EXPECT_EQ(shown(tokens, "abc"), "[1](c)");
    EXPECT_EQ(shown(tokens, "abcd"), "[2]");
    EXPECT_EQ(shown(tokens, "bcde"), "[3]");
    EXPECT_EQ(shown(tokens, "aab"), "[4][1]");
    EXPECT_EQ(shown(tokens, ""), "");
}

TEST(AddedTokens, MatchesExactlyAndCaseSensitively) {
    const AddedTokens tokens({{7, "<think>", false, false}, {8, "<｜User｜>", true, false}});
    EXPECT_EQ(shown(tokens, "<Think><think><｜user｜><｜User｜>"), "(<Think>)[7](<｜user｜>)[8]");
    EXPECT_EQ(shown(tokens, "<think"), "(<think)");
}

TEST(AddedTokens, LooksForNormalizedOnesOnlyInWhatTheFirstPassLeft) {
    // "bc" wins although "ab" starts earlier: its pass comes first.
    const AddedTokens tokens({{1, "ab", false, true}, {2, "bc", false, false}});
    EXPECT_EQ(shown(tokens, "abcab"), "(a)[2][1]");
}

TEST(AddedTokens, WithoutTokensTextIsOneSegment) { EXPECT_EQ(shown(AddedTokens({}), "<think>"), "(<think>)"); }

TEST(AddedTokens, TellsApartSpellingsThatDifferInHighBytes) {
    const AddedTokens tokens({{1, "\xEF\xBD\x9C", false, false}, {2, "\xC3\xA9", false, false}, {3, "é\u00FF", false, false}});
    EXPECT_EQ(shown(tokens, "｜éé\u00FF"), "[1][2][3]");
}

}  // namespace
}  // namespace di
