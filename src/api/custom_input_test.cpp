#include "api/custom_input.h"

#include <gtest/gtest.h>

#include "api/tool_fields.h"

namespace di {
namespace {

// Whole, and in two pieces at every place.
void expect_input(const std::string& arguments, const std::string& expected) {
    EXPECT_EQ(CustomInput::whole(arguments), expected) << arguments;
    for (size_t cut = 0; cut <= arguments.size(); ++cut) {
        CustomInput input;
        std::string text = input.push(arguments.substr(0, cut));
        text += input.push(arguments.substr(cut));
        text += input.finish();
        EXPECT_EQ(text, expected) << arguments << " cut at " << cut;
    }
}

TEST(CustomInput, IsTheTextOfTheOneArgument) {
    expect_input(R"({"input": "plain"})", "plain");
    expect_input(R"({ "input" :"a\n\"\\\u00e9\ud83d\ude00\/"})", "a\n\"\\\xc3\xa9\xf0\x9f\x98\x80/");
    expect_input(R"({"input": ""})", "");
    const std::string text = "*** Begin Patch\n\t\"x\" \\ {\"input\": \"y\"}\x01";
    expect_input(custom_tool_arguments(text), text);
}

TEST(CustomInput, IsGivenWhileItComes) {
    CustomInput input;
    EXPECT_EQ(input.push("{\"input\": \"ab"), "ab");
    EXPECT_EQ(input.push("c\\"), "c");
    EXPECT_EQ(input.push("nd"), "\nd");
    EXPECT_EQ(input.push("\"}"), "");
    EXPECT_EQ(input.finish(), "");
}

TEST(CustomInput, OtherArgumentsAreGivenAsTheyAre) {
    expect_input("{}", "");
    expect_input("", "");
    expect_input("not JSON", "not JSON");
    expect_input(R"({"input": 5})", R"({"input": 5})");
    expect_input(R"({"other": "x"})", R"({"other": "x"})");
    expect_input(R"({"other": 1, "input": "x"})", "x");
    expect_input(R"({"input": "x", "other": 1})", "x");
}

TEST(CustomInput, ACutTextKeepsWhatIsWhole) {
    expect_input(R"({"input": "ab\u00)", "ab");
    expect_input(R"({"input": "ab\ud83d)", "ab");
    expect_input(R"({"inp)", R"({"inp)");
}

TEST(CustomInput, HalfASurrogatePairIsOneReplacementCharacter) {
    expect_input(R"({"input": "a\ud83dbcdefg"})",
                 "a\xef\xbf\xbd"
                 "bcdefg");
    expect_input(R"({"input": "\ud83d\u0041"})",
                 "\xef\xbf\xbd"
                 "A");
}

}  // namespace
}  // namespace di
