#include "text/unicode.h"

#include <gtest/gtest.h>

namespace di {
namespace {

TEST(Unicode, ReplacesEachMaximalIllFormedPartOnce) {
    // Table 3-8 of the Unicode standard and Python's bytes.decode("utf-8", "replace").
    EXPECT_EQ(decode_lossy("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"), "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
    EXPECT_EQ(decode_lossy("\xC0\xAF"), "\uFFFD\uFFFD");
    EXPECT_EQ(decode_lossy("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
    EXPECT_EQ(decode_lossy("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
    EXPECT_EQ(decode_lossy("\xF0\x9F\xA7"), "\uFFFD");
    EXPECT_EQ(decode_lossy("\xE0\x80\x80"), "\uFFFD\uFFFD\uFFFD");
}

TEST(Unicode, FindsTheFirstIllFormedByte) {
    EXPECT_TRUE(is_valid_utf8(""));
    EXPECT_TRUE(is_valid_utf8(std::string_view("a\0b", 3)));
    EXPECT_TRUE(is_valid_utf8("\U0010FFFF \uD7FF \uE000 é"));
    EXPECT_EQ(first_invalid_utf8("ab\xFFgh"), 2u);
    EXPECT_EQ(first_invalid_utf8("ab\xE4\xB8"), 2u);
    EXPECT_EQ(first_invalid_utf8("\xED\xBF\xBF"), 0u);
}

TEST(Unicode, EveryScalarValueSurvivesARoundTrip) {
    for (char32_t c = 0; c <= 0x10FFFF; ++c) {
        if (c >= 0xD800 && c <= 0xDFFF) {
            continue;
        }
        std::string text;
        append_utf8(text, c);
        const Utf8Step step = utf8_step(text);
        ASSERT_EQ(step.kind, Utf8Step::Kind::kCharacter) << static_cast<uint32_t>(c);
        ASSERT_EQ(step.code_point, c);
        ASSERT_EQ(step.length, text.size());
    }
}

TEST(Unicode, KnowsAnIncompleteTailFromABrokenOne) {
    EXPECT_EQ(utf8_step("\xF0\x9F").kind, Utf8Step::Kind::kIncomplete);
    EXPECT_EQ(utf8_step("\xF0\x9F").length, 2u);
    EXPECT_EQ(utf8_step("\xF0\x8F").kind, Utf8Step::Kind::kInvalid);
    EXPECT_EQ(utf8_step("\xF0\x8F").length, 1u);
    EXPECT_EQ(utf8_step("\x80").kind, Utf8Step::Kind::kInvalid);
}

TEST(Unicode, NormalisesAndRefusesIllFormedText) {
    EXPECT_EQ(normalize_nfkc("ﬁ①Ａ").value(), "fi1A");
    EXPECT_EQ(normalize_nfd("é").value(), "e\u0301");
    EXPECT_EQ(normalize_nfkc("e\u0301").value(), "é");
    EXPECT_EQ(normalize_nfd(std::string_view("\0a", 2)).value(), std::string("\0a", 2));
    EXPECT_FALSE(normalize_nfkc("\xFF").has_value());
}

TEST(Unicode, ClassifiesMarksBlanksAndCase) {
    EXPECT_TRUE(is_mark(0x0301));  // Mn
    EXPECT_TRUE(is_mark(0x0903));  // Mc
    EXPECT_TRUE(is_mark(0x20DD));  // Me
    EXPECT_FALSE(is_mark(U'a'));
    EXPECT_TRUE(is_white_space(0x3000));
    EXPECT_TRUE(is_white_space(0x85));
    EXPECT_FALSE(is_white_space(0x180E));
    EXPECT_FALSE(is_white_space(0x200B));
    EXPECT_EQ(lower_case(U'Ä'), U'ä');
    EXPECT_EQ(lower_case(U'中'), U'中');
}

}  // namespace
}  // namespace di
