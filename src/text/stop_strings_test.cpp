#include "text/stop_strings.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "text/limits.h"

namespace di {
namespace {

struct Outcome {
    std::string text;
    int matched = -1;
    bool operator==(const Outcome&) const = default;
};

// Feeds `pieces` and returns all text that came out.
Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
    StopStrings search(stops);
    Outcome outcome;
    for (const std::string& piece : pieces) {
        outcome.text += search.push(piece);
    }
    outcome.text += search.finish();
    outcome.matched = search.matched_index();
    return outcome;
}

// By definition: the first end position at which any stop string ends, the first listed of those.
Outcome by_definition(const std::vector<std::string>& stops, const std::string& text) {
    for (size_t end = 1; end <= text.size(); ++end) {
        for (size_t i = 0; i < stops.size(); ++i) {
            if (text.substr(0, end).ends_with(stops[i])) {
                return {text.substr(0, end - stops[i].size()), static_cast<int>(i)};
            }
        }
    }
    return {text, -1};
}

TEST(StopStrings, GivesNoByteOfAStopStringThatSpansPieces) {
    StopStrings search(std::vector<std::string>{"DEFGHIJ"});
    EXPECT_EQ(search.push("ABCD"), "ABC");
    EXPECT_EQ(search.push("EF"), "");
    EXPECT_EQ(search.push("GHI"), "");
    EXPECT_FALSE(search.is_matched());
    EXPECT_EQ(search.push("JKL"), "");
    EXPECT_TRUE(search.is_matched());
    EXPECT_EQ(search.push("more"), "");
    EXPECT_EQ(search.finish(), "");
}

TEST(StopStrings, ReleasesAPrefixThatNeverCompletesExactlyOnce) {
    StopStrings search(std::vector<std::string>{"ab!"});
    EXPECT_EQ(search.push("xa"), "x");
    EXPECT_EQ(search.push("b"), "");
    EXPECT_EQ(search.push("ab"), "ab");
    EXPECT_EQ(search.push("c"), "abc");
    EXPECT_EQ(search.push("a"), "");
    EXPECT_EQ(search.finish(), "a");
    EXPECT_EQ(search.finish(), "");
}

TEST(StopStrings, PassesEverythingAtOnceWithoutStops) {
    StopStrings search({});
    EXPECT_EQ(search.push("any"), "any");
    EXPECT_EQ(search.finish(), "");
    EXPECT_FALSE(search.is_matched());
}

TEST(StopStrings, TheMatchThatEndsFirstWinsAndOfEqualEndsTheFirstListed) {
    EXPECT_EQ(run({"bcd", "bc"}, {"abcd"}), (Outcome{"a", 1}));
    EXPECT_EQ(run({"c", "abc"}, {"abc"}), (Outcome{"ab", 0}));
    EXPECT_EQ(run({"abc", "c"}, {"abc"}), (Outcome{"", 0}));
}

TEST(StopStrings, AgreesWithTheDefinitionForEveryCut) {
    const uint32_t seed = 20260101;
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto word = [&](size_t length_max) {
        std::string text(1 + random() % length_max, 'a');
        for (char& c : text) {
            c = static_cast<char>('a' + random() % 2);
        }
        return text;
    };
    for (int round = 0; round < 2000; ++round) {
        std::vector<std::string> stops(1 + random() % 3);
        for (std::string& stop : stops) {
            stop = word(6);
        }
        const std::string text = word(24);
        std::vector<std::string> pieces;
        for (size_t at = 0; at < text.size();) {
            const size_t length = 1 + random() % 5;
            pieces.push_back(text.substr(at, length));
            at += length;
        }
        ASSERT_EQ(run(stops, pieces), by_definition(stops, text)) << text << " round " << round;
    }
}

TEST(StopStrings, RefusesWhatIsOutsideTheLimits) {
    EXPECT_TRUE(validate_stop_strings({}).has_value());
    EXPECT_TRUE(validate_stop_strings(std::vector<std::string>{"a"}).has_value());
    const auto empty = validate_stop_strings(std::vector<std::string>{"a", ""});
    ASSERT_FALSE(empty.has_value());
    EXPECT_EQ(empty.error().text, "stop[1] is empty, expected at least one character");
    EXPECT_FALSE(validate_stop_strings(std::vector<std::string>(kStopStringsMax + 1, "a")).has_value());
    EXPECT_FALSE(validate_stop_strings(std::vector<std::string>{std::string(kStopStringBytesMax + 1, 'a')}).has_value());
}

}  // namespace
}  // namespace di
