#include "base/json_string.h"

#include <gtest/gtest.h>

namespace di {
namespace {

std::string json_of(std::string_view text) {
    std::string out;
    append_json_string(out, text);
    return out;
}

TEST(JsonString, IsOneLineThatReadsBack) {
    EXPECT_EQ(json_of(""), "\"\"");
    EXPECT_EQ(json_of("a \"b\" \\ c"), R"("a \"b\" \\ c")");
    EXPECT_EQ(json_of(std::string_view("x\n\t\0\x7f", 5)), R"("x\u000a\u0009\u0000\u007f")");
    EXPECT_EQ(json_of("\u00e9 \u20ac \U0001F600"), "\"\u00e9 \u20ac \U0001F600\"");
}

TEST(JsonString, BytesThatAreNoTextAreReplaced) {
    const std::string r = "\xEF\xBF\xBD";
    EXPECT_EQ(json_of("a\xff"), "\"a" + r + "\"");
    EXPECT_EQ(json_of("\xc3"), "\"" + r + "\"");
    EXPECT_EQ(json_of("\xc3x"), "\"" + r + "x\"");
    EXPECT_EQ(json_of("\xe2\x82"), "\"" + r + r + "\"");
    EXPECT_EQ(json_of("\xc0\x80"), "\"" + r + r + "\"");                  // overlong
    EXPECT_EQ(json_of("\xed\xa0\x80"), "\"" + r + r + r + "\"");          // a surrogate
    EXPECT_EQ(json_of("\xf4\x90\x80\x80"), "\"" + r + r + r + r + "\"");  // above U+10FFFF
    EXPECT_EQ(json_of("\xf0\x8f\xbf\xbf"), "\"" + r + r + r + r + "\"");  // overlong
}

}  // namespace
}  // namespace di
