#include "text/pretokenizer.h"

#include <stdexcept>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace di {
namespace {

using Pieces = std::vector<std::string_view>;

Pretokenizer make(const std::vector<SplitPattern>& patterns) {
    auto created = Pretokenizer::create(patterns);
    if (!created) {
        throw std::runtime_error(created.error().text);
    }
    return std::move(*created);
}

Pretokenizer deepseek() {
    return make({{"\\p{N}{1,3}"},
                 {"[一-龥぀-ゟ゠-ヿ]+"},
                 {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
                  "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}});
}

TEST(Pretokenizer, IsolatesMatchesAndKeepsGaps) {
    const Pretokenizer digits = make({{"\\p{N}{1,3}"}});
    EXPECT_EQ(digits.split("ab12345c").value(), (Pieces{"ab", "123", "45", "c"}));
    EXPECT_EQ(digits.split("").value(), Pieces{});
    EXPECT_EQ(make({}).split("a b").value(), (Pieces{"a b"}));
}

TEST(Pretokenizer, GivesTheLastBlankToTheNextWord) {
    EXPECT_EQ(deepseek().split("   abc").value(), (Pieces{"  ", " abc"}));
    EXPECT_EQ(deepseek().split("abc   ").value(), (Pieces{"abc", "   "}));
}

TEST(Pretokenizer, LookaheadSeesOnlyItsOwnPiece) {
    EXPECT_EQ(deepseek().split("a  5").value(), (Pieces{"a", "  ", "5"}));
    EXPECT_EQ(deepseek().split("a  中").value(), (Pieces{"a", "  ", "中"}));
}

TEST(Pretokenizer, BlanksAreUnicodeWhiteSpaceExactly) {
    const Pretokenizer blanks = make({{"\\s+"}});
    EXPECT_EQ(blanks.split("a\u0085\u00A0\u2028\u3000b").value(), (Pieces{"a", "\u0085\u00A0\u2028\u3000", "b"}));
    EXPECT_EQ(blanks.split("a\u180Eb").value(), (Pieces{"a\u180Eb"}));
    EXPECT_EQ(make({{"[^\\S\n]+"}}).split("a \u3000\nb").value(), (Pieces{"a", " \u3000", "\nb"}));
}

TEST(Pretokenizer, LiteralPatternsAreNotExpressions) {
    EXPECT_EQ(make({{"a.b", false}}).split("axb a.b").value(), (Pieces{"axb ", "a.b"}));
}

TEST(Pretokenizer, EmptyMatchesCutWithoutLosingText) {
    EXPECT_EQ(make({{"(?=b)"}}).split("abéb").value(), (Pieces{"a", "bé", "b"}));
    EXPECT_EQ(make({{"x*"}}).split("éxx").value(), (Pieces{"é", "xx"}));
}

TEST(Pretokenizer, RefusesBadPatternsWithTheirText) {
    for (const char* pattern : {"(", "[a", "", "\\w+", "[a&&b]", "(*UTF)a", "\\p{Nonsense}", "a{2,1}"}) {
        const auto created = Pretokenizer::create({{pattern}});
        ASSERT_FALSE(created.has_value()) << pattern;
        EXPECT_NE(created.error().text.find(pattern), std::string::npos) << created.error().text;
    }
    EXPECT_FALSE(Pretokenizer::create({{"\xFF"}}).has_value());
    EXPECT_FALSE(Pretokenizer::create(std::vector<SplitPattern>(17, SplitPattern{"a"})).has_value());
    EXPECT_FALSE(Pretokenizer::create({{std::string(20'000, 'a')}}).has_value());
}

TEST(Pretokenizer, GivesUpOnCatastrophicPatternsInsteadOfHanging) {
    const auto split = make({{"(a+)+b|(?:(?:a|aa)+)+c"}}).split(std::string(5'000, 'a'));
    ASSERT_FALSE(split.has_value());
    EXPECT_EQ(split.error().code, ErrorCode::kInvalidArgument);
}

TEST(Pretokenizer, SplitsLongRunsOfEveryKind) {
    const Pretokenizer pretokenizer = deepseek();
    for (const std::string unit : {" ", "a", "-", "1", "\n", "中", "\u200B", "é", " \n", "a1", "'a", "\t\u3000"}) {
        std::string text;
        while (text.size() < 100'000) {
            text += unit;
        }
        const auto pieces = pretokenizer.split(text);
        ASSERT_TRUE(pieces.has_value()) << pieces.error().text;
        std::string joined;
        for (const std::string_view piece : *pieces) {
            ASSERT_FALSE(piece.empty());
            joined += piece;
        }
        EXPECT_EQ(joined, text);
    }
}

}  // namespace
}  // namespace di
