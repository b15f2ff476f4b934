#include "server/tool_permissions.h"

#include <gtest/gtest.h>

namespace di {
namespace {

using Names = std::vector<std::string>;

TEST(Pattern, StarsStandForAnyCharacters) {
    const auto matches = [](std::string_view pattern, std::string_view text) { return matches_pattern(pattern, text); };
    EXPECT_TRUE(matches("*", ""));
    EXPECT_TRUE(matches("*", "anything"));
    EXPECT_TRUE(matches("get_*", "get_"));
    EXPECT_TRUE(matches("get_*", "get_weather"));
    EXPECT_TRUE(matches("*_file", "read_file"));
    EXPECT_TRUE(matches("a*b*c", "aXbYbZc"));
    EXPECT_TRUE(matches("", ""));
    EXPECT_FALSE(matches("", "a"));
    EXPECT_FALSE(matches("get_*", "forget_x"));
    EXPECT_FALSE(matches("get", "get_"));
    EXPECT_FALSE(matches("a*b*c", "aXbYd"));
    EXPECT_FALSE(matches("a.c", "abc")) << "only the star is special";
}

TEST(Pattern, ManyStarsAreNoWayToKeepTheServerBusy) {
    std::string pattern;
    for (int i = 0; i < 60; ++i) {
        pattern += "*a";
    }
    // A matcher that goes back for every star would never come back from this.
    EXPECT_FALSE(matches_pattern(pattern + "b", std::string(100'000, 'a')));
}

TEST(ToolPermissions, WithoutAFileAnythingMayBeOffered) {
    EXPECT_EQ(refused_tool({}, "a", std::nullopt, Names{"x", "y"}), std::nullopt);
}

TEST(ToolPermissions, KeyAndFileMustAgree) {
    const ToolPermissions permissions = ToolPermissions::parse(R"(
{"key": "*", "tools": ["get_weather"]}
{"key": "agent-*", "tools": ["fs_*", "search"]}
)",
                                                               "rules")
                                            .value();
    EXPECT_TRUE(permissions.allows("", "get_weather"));
    EXPECT_TRUE(permissions.allows("agent-1", "get_weather"));
    EXPECT_TRUE(permissions.allows("agent-1", "fs_read"));
    EXPECT_FALSE(permissions.allows("alice", "fs_read"));
    EXPECT_EQ(refused_tool(permissions, "agent-1", std::nullopt, Names{"search", "fs_read", "rm", "x"}), "rm");
    EXPECT_EQ(refused_tool(permissions, "agent-1", Names{"fs_*", "rm"}, Names{"fs_read", "search"}), "search");
    EXPECT_EQ(refused_tool(permissions, "agent-1", Names{"fs_*", "rm"}, Names{"rm"}), "rm");
    EXPECT_EQ(refused_tool(permissions, "agent-1", Names{}, Names{"search"}), "search") << "an empty list allows nothing";
    EXPECT_EQ(refused_tool(permissions, "agent-1", Names{}, Names{}), std::nullopt);
}

TEST(ToolPermissions, AnEmptyFileAllowsNothing) {
    EXPECT_FALSE(ToolPermissions::parse("", "rules").value().allows("a", "x"));
    EXPECT_FALSE(ToolPermissions::parse("[]", "rules").value().allows("a", "x"));
}

TEST(ToolPermissions, ErrorsNamePlaceAndField) {
    const auto error_of = [](std::string_view text) {
        const auto permissions = ToolPermissions::parse(text, "rules");
        return permissions ? std::string() : permissions.error().text;
    };
    EXPECT_TRUE(error_of("{\"tools\": [\"x\"]}").starts_with("rules: line 1: key: "));
    EXPECT_TRUE(error_of("\n{\"key\": \"a\"}").starts_with("rules: line 2: tools: "));
    EXPECT_TRUE(error_of("{\"key\": \"a\", \"tools\": \"x\"}").starts_with("rules: line 1: tools: "));
    EXPECT_TRUE(error_of("[{\"key\": \"a\", \"tools\": [5]}]").starts_with("rules: entry 1: tools[0]: "));
    EXPECT_TRUE(error_of("{\"key\": \"a\", \"tool\": []}").starts_with("rules: line 1: unknown field \"tool\""));
    EXPECT_NE(ToolPermissions::open("no-such-file").error().text.find("no-such-file"), std::string::npos);
}

}  // namespace
}  // namespace di
