#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "text/answer_parser.h"
#include "text/unicode.h"

// What a parser made of an output, joined.
namespace di {

struct ParsedCall {
    std::string name;
    std::string arguments;
    bool has_ended = false;
    bool operator==(const ParsedCall&) const = default;
};

struct AnswerOutcome {
    std::string reasoning;
    std::string content;
    std::vector<ParsedCall> calls;
    std::optional<size_t> matched_stop;
    bool operator==(const AnswerOutcome&) const = default;
};

inline void PrintTo(const AnswerOutcome& outcome, std::ostream* out) {
    *out << "reasoning `" << outcome.reasoning << "` content `" << outcome.content << "`";
    for (const ParsedCall& call : outcome.calls) {
        *out << " call " << call.name << " `" << call.arguments << "`" << (call.has_ended ? "" : " open");
    }
}

// Joins events and checks what every single one promises.
inline AnswerOutcome joined(const std::vector<AnswerEvent>& events) {
    AnswerOutcome outcome;
    for (const AnswerEvent& event : events) {
        EXPECT_TRUE(is_valid_utf8(event.text)) << "a piece ends inside a character";
        EXPECT_EQ(event.text.empty(), event.kind == AnswerEvent::Kind::kCallEnd);
        const auto call_count = static_cast<int32_t>(outcome.calls.size());
        switch (event.kind) {
            case AnswerEvent::Kind::kReasoning: outcome.reasoning += event.text; break;
            case AnswerEvent::Kind::kContent: outcome.content += event.text; break;
            case AnswerEvent::Kind::kCallBegin:
                EXPECT_EQ(event.call_index, call_count);
                outcome.calls.push_back({.name = event.text, .arguments = {}});
                break;
            case AnswerEvent::Kind::kCallArguments:
            case AnswerEvent::Kind::kCallEnd:
                if (event.call_index + 1 != call_count || outcome.calls.back().has_ended) {
                    ADD_FAILURE() << "calls interleave, or go on behind their end";
                    return outcome;
                }
                outcome.calls.back().arguments += event.text;
                outcome.calls.back().has_ended = event.kind == AnswerEvent::Kind::kCallEnd;
                break;
        }
    }
    return outcome;
}

inline AnswerOutcome parse_pieces(const AnswerParserOptions& options, const std::vector<std::string_view>& pieces,
                                  bool is_cut) {
    AnswerParser parser(options);
    std::vector<AnswerEvent> events;
    for (const std::string_view piece : pieces) {
        parser.push_text(piece, events);
    }
    parser.finish(is_cut, events);
    AnswerOutcome outcome = joined(events);
    outcome.matched_stop = parser.matched_stop();
    EXPECT_EQ(parser.call_count(), static_cast<int32_t>(outcome.calls.size()));
    return outcome;
}

// The whole text, and every way to cut it in two, and byte by byte: all the same, or the test fails.
inline AnswerOutcome parse_every_way(const AnswerParserOptions& options, std::string_view text, bool is_cut = false) {
    const AnswerOutcome whole = parse_pieces(options, {text}, is_cut);
    std::vector<std::string_view> bytes;
    std::vector<std::string_view> characters;
    for (size_t i = 0; i < text.size(); ++i) {
        bytes.push_back(text.substr(i, 1));
        EXPECT_EQ(parse_pieces(options, {text.substr(0, i), text.substr(i)}, is_cut), whole) << "cut at byte " << i;
    }
    for (std::string_view rest = text; !rest.empty();) {
        const size_t length = utf8_step(rest).length;
        characters.push_back(rest.substr(0, length));
        rest.remove_prefix(length);
    }
    EXPECT_EQ(parse_pieces(options, bytes, is_cut), whole) << "byte by byte";
    EXPECT_EQ(parse_pieces(options, characters, is_cut), whole) << "character by character";
    return whole;
}

}  // namespace di
