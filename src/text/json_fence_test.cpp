#include "text/json_fence.h"

#include <gtest/gtest.h>

namespace di {
namespace {

std::string inside(std::string_view text) {
    JsonFence whole;
    std::string expected = whole.push(text);
    expected += whole.finish();
    for (size_t cut = 0; cut <= text.size(); ++cut) {
        JsonFence fence;
        std::string out = fence.push(text.substr(0, cut));
        out += fence.push(text.substr(cut));
        EXPECT_EQ(out + fence.finish(), expected) << "cut at " << cut;
    }
    JsonFence fence;
    std::string out;
    for (const char c : text) {
        out += fence.push(std::string_view(&c, 1));
    }
    EXPECT_EQ(out + fence.finish(), expected);
    return expected;
}

TEST(JsonFence, LetsThroughWhatStandsBetweenFences) {
    EXPECT_EQ(inside("Here:\n```json\n{\"a\": 1}\n```\nDone {}"), "{\"a\": 1}");
    EXPECT_EQ(inside("```\n[1]\n```"), "[1]");
    EXPECT_EQ(inside("````\n5\n```"), "5");
}

TEST(JsonFence, ABracketBeforeAnyFenceOpensTheRest) {
    EXPECT_EQ(inside("Sure: {\"a\": \"\n```\n\"} ok"), "{\"a\": \"\n```\n\"} ok");
    EXPECT_EQ(inside("```python\n[1]\n```"), "[1]\n```");
}

TEST(JsonFence, WhatIsNoWholeFenceIsPartOfTheAnswer) {
    EXPECT_EQ(inside("```json\n{\n``\n`` }\n``"), "{\n``\n`` }\n``");
    EXPECT_EQ(inside("no JSON at all ``"), "");
    EXPECT_EQ(inside(""), "");
}

}  // namespace
}  // namespace di
