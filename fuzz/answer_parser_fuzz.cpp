// An output of any bytes and markers: the parser's pieces are whole characters, its calls do not interleave, and how the
// output was cut changes nothing.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "text/answer_parser.h"
#include "text/chat_tokens.h"
#include "text/json_text.h"
#include "text/unicode.h"

namespace {

using di::AnswerEvent;
using di::AnswerMarker;

// What control bytes of the input stand for: random bytes would hardly ever spell a tag. Markers come first.
constexpr std::array<std::string_view, 8> kSpelled = {di::kThinkToken,
                                                      di::kThinkEndToken,
                                                      di::kToolMarkerToken,
                                                      " calls>\n",
                                                      " invoke name=\"w\">\n",
                                                      " parameter name=\"k\" string=\"true\">",
                                                      " parameter name=\"k\" string=\"false\">",
                                                      "\n```json\n"};
constexpr size_t kMarkerCount = 3;

struct Piece {
    bool is_marker = false;
    AnswerMarker marker = AnswerMarker::kThink;
    std::string text{};
};

struct Call {
    std::string name;
    std::string arguments{};
    bool has_ended = false;
    bool operator==(const Call&) const = default;
};

struct Outcome {
    std::string reasoning{};
    std::string content{};
    std::vector<Call> calls{};
    std::optional<size_t> matched_stop{};
    bool is_over = false;
    bool operator==(const Outcome&) const = default;
};

// Runs of text, with markers between them where they are tokens of their own.
std::vector<Piece> pieces_of(std::string_view bytes, bool finds_markers_in_text) {
    std::vector<Piece> pieces(1);
    for (const char byte : bytes) {
        const size_t index = static_cast<unsigned char>(byte) - size_t{1};
        if (index < kMarkerCount && !finds_markers_in_text) {
            pieces.push_back({.is_marker = true, .marker = static_cast<AnswerMarker>(index)});
            pieces.emplace_back();
            continue;
        }
        pieces.back().text += index < kSpelled.size() ? kSpelled.at(index) : std::string_view(&byte, 1);
    }
    return pieces;
}

di::AnswerParserOptions options_of(uint8_t first, uint8_t second) {
    di::AnswerParserOptions options;
    options.start = static_cast<di::AnswerStart>((first & 7U) % 5U);
    options.may_call_tools = (first & 8U) != 0 || options.start == di::AnswerStart::kCalls;
    options.is_json_object = (first & 16U) != 0;
    options.finds_markers_in_text = (first & 32U) != 0;
    options.includes_stop_text = (first & 64U) != 0;
    options.calls_max = first >> 7U;
    if ((second & 1U) != 0) {
        di::Tool tool;
        tool.name = "w";
        tool.parameters =
            di::parse_json(R"({"type": "object", "properties": {"k": {"type": "string"}, "input": {"type": "integer"}}})")
                .value();
        options.tools.push_back(std::move(tool));
    }
    if ((second & 2U) != 0) {
        options.stop = {"aab", "ab", "\xf0\x9f\x98\x80"};
    }
    return options;
}

// The next piece of `text`: all of it, or 1 to 8 bytes as `random` says.
std::string_view take(std::string_view& text, uint32_t* random) {
    size_t length = text.size();
    if (random != nullptr) {
        *random = *random * 1664525U + 1013904223U;
        length = std::min<size_t>(length, (*random >> 28U) % 8U + 1);
    }
    const std::string_view piece = text.substr(0, length);
    text.remove_prefix(length);
    return piece;
}

void add(Outcome& outcome, const AnswerEvent& event) {
    DI_CHECK(di::is_valid_utf8(event.text), "a piece ends inside a character");
    DI_CHECK(event.text.empty() == (event.kind == AnswerEvent::Kind::kCallEnd), "only the end of a call has no text");
    switch (event.kind) {
        case AnswerEvent::Kind::kReasoning: outcome.reasoning += event.text; return;
        case AnswerEvent::Kind::kContent: outcome.content += event.text; return;
        case AnswerEvent::Kind::kCallBegin:
            DI_CHECK(event.call_index == static_cast<int32_t>(outcome.calls.size()), "calls are numbered in order");
            outcome.calls.push_back({.name = event.text});
            return;
        case AnswerEvent::Kind::kCallArguments:
        case AnswerEvent::Kind::kCallEnd:
            DI_CHECK(event.call_index + 1 == static_cast<int32_t>(outcome.calls.size()), "calls do not interleave");
            DI_CHECK(!outcome.calls.back().has_ended, "nothing comes behind the end of a call");
            outcome.calls.back().arguments += event.text;
            outcome.calls.back().has_ended = event.kind == AnswerEvent::Kind::kCallEnd;
            return;
    }
}

// `random`: where text is cut; nullptr: nowhere.
Outcome parse(const di::AnswerParserOptions& options, const std::vector<Piece>& pieces, bool is_cut, uint32_t* random) {
    di::AnswerParser parser(options);
    std::vector<AnswerEvent> events;
    for (const Piece& piece : pieces) {
        if (piece.is_marker) {
            parser.push_marker(piece.marker, events);
            continue;
        }
        for (std::string_view rest = piece.text; !rest.empty();) {
            parser.push_text(take(rest, random), events);
        }
    }
    parser.finish(is_cut, events);
    Outcome outcome;
    for (const AnswerEvent& event : events) {
        add(outcome, event);
    }
    DI_CHECK(parser.call_count() == static_cast<int32_t>(outcome.calls.size()), "every call was announced");
    outcome.matched_stop = parser.matched_stop();
    outcome.is_over = parser.is_over();
    return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 3) {
        return 0;
    }
    const di::AnswerParserOptions options = options_of(data[0], data[1]);
    const bool is_cut = (data[1] & 4U) != 0;
    const std::vector<Piece> pieces =
        pieces_of({reinterpret_cast<const char*>(data) + 3, size - 3}, options.finds_markers_in_text);
    const Outcome whole = parse(options, pieces, is_cut, nullptr);
    uint32_t random = data[2];
    DI_CHECK(parse(options, pieces, is_cut, &random) == whole, "where an output is cut changes what it means");
    return 0;
}
