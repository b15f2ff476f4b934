#include "text/json_text.h"

#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/limits.h"

namespace di {
namespace {

std::string rewritten(std::string_view text) {
    const auto value = parse_json(text);
    return value ? json_text(*value) : "error: " + value.error().text;
}

TEST(JsonText, WritesAsPythonDoes) {
    EXPECT_EQ(rewritten("{\"a\":[1,2],\"b\":{},\"c\":[],\"d\":null,\"e\":true}"),
              R"({"a": [1, 2], "b": {}, "c": [], "d": null, "e": true})");
    EXPECT_EQ(rewritten(" [ \"\\u00e9\\u2028\\/\\u007f\" ] "), "[\"é\u2028/\x7f\"]");
    EXPECT_EQ(rewritten(R"("\"\\\b\f\n\r\t\u0000\u001f")"), R"("\"\\\b\f\n\r\t\u0000\u001f")");
    EXPECT_EQ(rewritten(R"("\ud83d\ude00")"), "\"😀\"");
}

TEST(JsonText, KeepsTheDigitsOfIntegers) {
    for (const std::string text : {"0", "-3", "12345678901234567890", "-99999999999999999999999999"}) {
        EXPECT_EQ(rewritten(text), text);
    }
    const std::string huge(400, '7');  // beyond the range of a double
    EXPECT_EQ(rewritten(huge), huge);
    EXPECT_EQ(parse_json(huge)->as_double(), std::numeric_limits<double>::infinity());
    EXPECT_EQ(parse_json(huge)->as_int64(), std::nullopt);
}

TEST(JsonText, WritesRealsAsPythonRepr) {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {"1.50", "1.5"},
        {"1e10", "10000000000.0"},
        {"1e-5", "1e-05"},
        {"1e16", "1e+16"},
        {"1E15", "1000000000000000.0"},
        {"1.5e-7", "1.5e-07"},
        {"5e-324", "5e-324"},
        {"0.0001", "0.0001"},
        {"-0", "-0.0"},
        {"-0.0", "-0.0"},
        {"0.1", "0.1"},
        {"1e-400", "0.0"},
        {"-1e-400", "-0.0"},
        {"123.456", "123.456"},
        {"1e100", "1e+100"},
        {"0e999", "0.0"},
        {"0.00001e5", "1.0"},
        {"1.7976931348623157e308", "1.7976931348623157e+308"},
        {"12345678901234567e0", "1.2345678901234568e+16"},
        {"0.000000000000000000001e21", "1.0"},
    };
    for (const auto& [text, expected] : cases) {
        EXPECT_EQ(rewritten(text), expected) << text;
    }
}

TEST(JsonText, RefusesRealsBeyondTheRange) {
    for (const std::string text : {"1e309", "-1e309", "1.0e99999999999999999999", "0.1e310"}) {
        EXPECT_FALSE(parse_json(text).has_value()) << text;
    }
    EXPECT_EQ(rewritten("1e-99999999999999999999"), "0.0");
}

TEST(JsonText, RepeatedKeyKeepsFirstPlaceAndLastValue) {
    EXPECT_EQ(rewritten(R"({"a":1,"b":2,"a":3})"), R"({"a": 3, "b": 2})");
    std::string text = "{";
    for (int i = 0; i < 3000; ++i) {
        text += fmt::format("\"k{}\":{},", i % 1000, i);
    }
    text.back() = '}';
    const auto value = parse_json(text);
    ASSERT_TRUE(value.has_value());
    ASSERT_EQ(value->as_object().size(), 1000U);
    EXPECT_EQ(value->as_object()[7].key, "k7");
    EXPECT_EQ(value->as_object()[7].value.as_int64(), 2007);
}

TEST(JsonText, AcceptsAndRefusesWhatTheStandardSays) {
    // nlohmann's parser is the yardstick, but for numbers beyond its range.
    const std::string cases[] = {
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "[,1]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "nul",
        "nulll",
        "True",
        "NaN",
        "Infinity",
        "-Infinity",
        "-",
        "+1",
        "01",
        "-01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "1.e5",
        "0x10",
        "1 2",
        "[1]x",
        "\"a",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\ud800x\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"\\ud800\\ud800\"",
        "\"\x01\"",
        "\"\n\"",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xe4\xbd\"",
        "\"\xc3\"",
        "\"\xf0\x9f\x98\x80\"",
        "\"\xe2\x80\xa8\"",
        "\"\xee\x80\x80\"",
        "\"\\u0000\"",
        "[]",
        "{}",
        "[[[]]]",
        "1",
        "-0",
        "1e5",
        "\"\"",
        "// x\n1",
        "[1 2]",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "\t\r\n1 ",
        "\v1",
        "tru",
        "[true,false,null]",
        "\"\\ud83d\\ude00\"",
    };
    for (const std::string& text : cases) {
        EXPECT_EQ(parse_json(text).has_value(), nlohmann::json::accept(text)) << text;
    }
    EXPECT_FALSE(parse_json(std::string("1\0", 2)).has_value());
}

TEST(JsonText, EveryCutOfATextIsAnErrorAndNothingElse) {
    const std::string text = R"({"a": [1.5e3, "x\u00e9\ud83d\ude00é😀"], "b": {"c": null, "d": [true, false, -0]}})";
    for (size_t length = 0; length < text.size(); ++length) {
        EXPECT_FALSE(parse_json(text.substr(0, length)).has_value()) << length;
    }
    EXPECT_TRUE(parse_json(text).has_value());
}

TEST(JsonText, LimitsNestingAndCount) {
    const auto nested = [](int64_t depth) {
        return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
    };
    EXPECT_TRUE(parse_json(nested(kJsonDepthMax)).has_value());
    EXPECT_FALSE(parse_json(nested(kJsonDepthMax + 1)).has_value());
    EXPECT_FALSE(parse_json(std::string(1'000'000, '[')).has_value());
    std::string many = "[0";
    for (int64_t i = 0; i < kJsonValuesMax; ++i) {
        many += ",0";
    }
    EXPECT_FALSE(parse_json(many + "]").has_value());
}

TEST(JsonText, ErrorsAreOneShortLine) {
    for (const std::string& text :
         {std::string("{\"a\": \x01}"), std::string(1000, 'x'), "1e" + std::string(5000, '9'), std::string("\n\n")}) {
        const auto value = parse_json(text);
        ASSERT_FALSE(value.has_value());
        EXPECT_EQ(value.error().text.find('\n'), std::string::npos);
        EXPECT_LT(value.error().text.size(), 300U);
    }
    EXPECT_LT(short_quoted(std::string(100'000, 'a')).size(), 120U);
    std::string characters;
    for (int i = 0; i < 1000; ++i) {
        characters += "é";
    }
    EXPECT_TRUE(parse_json("[\"" + short_quoted(characters).substr(1, 60) + "\"]").has_value());
}

TEST(JsonText, MemberPathQuotesStrangeKeys) {
    EXPECT_EQ(member_path("", "a"), "a");
    EXPECT_EQ(member_path("a[1]", "b_2"), "a[1].b_2");
    EXPECT_EQ(member_path("a", "b\nc"), "a[\"b\\nc\"]");
}

}  // namespace
}  // namespace di
