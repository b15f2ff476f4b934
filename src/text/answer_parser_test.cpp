#include "text/answer_parser.h"

#include <gtest/gtest.h>

#include "answer_outcome.h"
#include "deepseek_tokenizer.h"
#include "safetensors_fixture.h"
#include "text/chat_tokens.h"
#include "text/detokenizer.h"
#include "text/json_text.h"

namespace di {
namespace {

constexpr std::string_view kOpen = "<｜DSML｜ calls>\n";
constexpr std::string_view kClose = "</｜DSML｜ calls>";

const Tokenizer& tokenizer() {
    static const Tokenizer parsed = std::move(Tokenizer::parse(deepseek_v41_tokenizer_json()).value());
    return parsed;
}

std::vector<Tool> offered() {
    Tool weather;
    weather.name = "get_weather";
    weather.parameters = parse_json(R"({"type": "object", "properties": {"city": {"type": "string"},
        "days": {"type": "integer"}}, "required": ["city"]})")
                             .value();
    Tool noop;
    noop.name = "noop";
    return {weather, noop};
}

AnswerParserOptions with_tools(AnswerStart start) {
    return {.start = start, .may_call_tools = true, .finds_markers_in_text = true, .tools = offered()};
}

AnswerParserOptions without_tools(AnswerStart start) { return {.start = start, .finds_markers_in_text = true}; }

// An invoke with its parameters, in a block.
std::string call(std::string_view name, std::string_view parameters) {
    return fmt::format("{}<｜DSML｜ invoke name=\"{}\">\n{}\n</｜DSML｜ invoke>\n{}", kOpen, name, parameters, kClose);
}

std::string parameter(std::string_view key, std::string_view attributes, std::string_view value) {
    return fmt::format("<｜DSML｜ parameter name=\"{}\"{}>{}</｜DSML｜ parameter>", key, attributes, value);
}

constexpr std::string_view kIsString = " string=\"true\"";
constexpr std::string_view kIsJson = " string=\"false\"";

std::string arguments_of(std::string_view parameters, std::string_view name = "w") {
    const AnswerOutcome outcome = parse_every_way(with_tools(AnswerStart::kContent), call(name, parameters));
    EXPECT_EQ(outcome.content, "");
    EXPECT_EQ(outcome.calls.size(), 1U);
    return outcome.calls.empty() ? "" : outcome.calls.front().arguments;
}

// --- the vectors ---

struct Vector {
    std::string id;
    AnswerParserOptions options;
    std::optional<std::string> text;
    std::vector<int32_t> token_ids;
    bool is_cut = false;
    JsonValue expected;
    bool compares_json = false;  // arguments; else as text
};

AnswerStart start_of(std::string_view name) {
    if (name == "reasoning_new") {
        return AnswerStart::kReasoning;
    }
    if (name == "reasoning_continued") {
        return AnswerStart::kReasoningContinued;
    }
    if (name == "content_new") {
        return AnswerStart::kContent;
    }
    return name == "content_continued" ? AnswerStart::kContentContinued : AnswerStart::kCalls;
}

std::vector<Vector> vectors() {
    const JsonValue file = parse_json(read_fixture(DI_TEST_DATA "/chat/stream_parser.json")).value();
    std::vector<Vector> result;
    for (const JsonValue& item : file.find("cases")->as_array()) {
        const JsonValue& setup = *item.find("setup");
        Vector one;
        one.id = item.find("id")->as_string();
        one.options.start = start_of(setup.find("start")->as_string());
        one.options.may_call_tools = setup.find("parse_tool_calls")->as_boolean();
        one.options.is_json_object = setup.find("json_object")->as_boolean();
        one.options.tools = one.options.may_call_tools ? offered() : std::vector<Tool>{};
        for (const JsonValue& stop : setup.find("stop")->as_array()) {
            one.options.stop.push_back(stop.as_string());
        }
        if (item.find("text")->is_string()) {
            one.text = item.find("text")->as_string();
        }
        for (const JsonValue& id : item.find("token_ids")->as_array()) {
            one.token_ids.push_back(static_cast<int32_t>(id.as_int64().value()));
        }
        one.is_cut = item.find("engine_finish")->as_string() != "stop";
        one.expected = *item.find("expect");
        one.compares_json = item.find("deviation") != nullptr;
        result.push_back(std::move(one));
    }
    return result;
}

std::string canonical(const std::string& arguments) {
    const Result<JsonValue> parsed = parse_json(arguments);
    return parsed ? json_text(*parsed) : "no JSON: " + arguments;
}

void expect_vector(const Vector& vector, const AnswerOutcome& outcome) {
    EXPECT_EQ(outcome.reasoning, vector.expected.find("reasoning")->as_string());
    EXPECT_EQ(outcome.content, vector.expected.find("content")->as_string());
    const JsonValue::Array& calls = vector.expected.find("tool_calls")->as_array();
    ASSERT_EQ(outcome.calls.size(), calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
        const std::string& arguments = calls[i].find("arguments")->as_string();
        EXPECT_EQ(outcome.calls[i].name, calls[i].find("name")->as_string());
        if (vector.compares_json) {
            EXPECT_EQ(canonical(outcome.calls[i].arguments), canonical(arguments));
        } else {
            EXPECT_EQ(outcome.calls[i].arguments, arguments);
        }
        EXPECT_EQ(outcome.calls[i].has_ended, !vector.is_cut || i + 1 < calls.size());
    }
    const std::string& finish = vector.expected.find("finish_reason")->as_string();
    EXPECT_EQ(!outcome.calls.empty() && !vector.is_cut, finish == "tool_calls");
}

AnswerOutcome parse_ids(AnswerParserOptions options, const std::vector<int32_t>& ids, bool is_cut) {
    options.finds_markers_in_text = false;
    AnswerParser parser(options);
    Detokenizer detokenizer(tokenizer(), true);
    std::vector<AnswerEvent> events;
    for (const int32_t id : ids) {
        std::optional<AnswerMarker> marker;
        for (const auto& [spelling, kind] :
             {std::pair(kThinkToken, AnswerMarker::kThink), std::pair(kThinkEndToken, AnswerMarker::kThinkEnd),
              std::pair(kToolMarkerToken, AnswerMarker::kToolMarker)}) {
            marker = tokenizer().find(spelling) == id ? kind : marker;
        }
        if (marker) {
            parser.push_text(detokenizer.finish(), events);
            parser.push_marker(*marker, events);
        } else {
            parser.push_text(detokenizer.push(id), events);
        }
    }
    parser.push_text(detokenizer.finish(), events);
    parser.finish(is_cut, events);
    AnswerOutcome outcome = joined(events);
    outcome.matched_stop = parser.matched_stop();
    return outcome;
}

TEST(AnswerParser, ReadsEveryVectorAsTextHoweverItIsCut) {
    size_t count = 0;
    for (Vector& vector : vectors()) {
        SCOPED_TRACE(vector.id);
        if (vector.text) {
            vector.options.finds_markers_in_text = true;
            expect_vector(vector, parse_every_way(vector.options, *vector.text, vector.is_cut));
            ++count;
        }
    }
    EXPECT_GE(count, 70U);
}

TEST(AnswerParser, ReadsEveryVectorByTokenIds) {
    const std::vector<Vector> all = vectors();
    EXPECT_EQ(all.size(), 80U);
    for (const Vector& vector : all) {
        SCOPED_TRACE(vector.id);
        expect_vector(vector, parse_ids(vector.options, vector.token_ids, vector.is_cut));
    }
}

// --- reasoning and answer ---

TEST(AnswerParser, LettersOfAMarkerAreTextWhereTokensAreKnown) {
    AnswerParserOptions options = with_tools(AnswerStart::kReasoning);
    options.finds_markers_in_text = false;
    const std::string text = "a</think>" + call("noop", "");
    const AnswerOutcome outcome = parse_every_way(options, text);
    EXPECT_EQ(outcome.reasoning, text);
    EXPECT_TRUE(outcome.calls.empty());
}

TEST(AnswerParser, DropsAThinkTokenThatRepeatsThePromptAndTheNewlinesBehindIt) {  // D6
    const AnswerOutcome reasoning = parse_every_way(without_tools(AnswerStart::kReasoning), "\n<think>\n\nr<think></think>a");
    EXPECT_EQ(reasoning.reasoning, "r<think>");
    EXPECT_EQ(reasoning.content, "a");
    const AnswerOutcome opened = parse_every_way(without_tools(AnswerStart::kContent), "\n<think>\nr\n</think>\n\n<think>a");
    EXPECT_EQ(opened.reasoning, "r");
    EXPECT_EQ(opened.content, "<think>a");
}

TEST(AnswerParser, AThinkTokenInAContinuationOrBehindTheReasoningIsText) {  // D6
    EXPECT_EQ(parse_every_way(without_tools(AnswerStart::kContentContinued), "<think>a").content, "<think>a");
    EXPECT_EQ(parse_every_way(without_tools(AnswerStart::kReasoningContinued), "<think>a").reasoning, "<think>a");
    EXPECT_EQ(parse_every_way(without_tools(AnswerStart::kContent), "</think>\n<think>a").content, "<think>a");
}

TEST(AnswerParser, BrokenBytesBecomeReplacementCharactersAndNeverPartsOfOne) {  // D9, B05
    EXPECT_EQ(parse_every_way(without_tools(AnswerStart::kContent), "ok \xF0\x9F\x98").content, "ok \xEF\xBF\xBD");
    EXPECT_EQ(parse_every_way(without_tools(AnswerStart::kReasoning), "a\xFF</think>\xE4\xBD").content, "\xEF\xBF\xBD");
    const std::string value = parameter("t", kIsString, "x\xF0\x9F\x98");
    EXPECT_EQ(arguments_of(value), "{\"t\": \"x\xEF\xBF\xBD\"}");
}

TEST(AnswerParser, SaysWhatTheNextTokenIsPartOf) {
    AnswerParser parser(with_tools(AnswerStart::kReasoning));
    std::vector<AnswerEvent> events;
    EXPECT_EQ(parser.region(), AnswerParser::Region::kReasoning);
    parser.push_text("r</think>", events);
    EXPECT_EQ(parser.region(), AnswerParser::Region::kContent);
    parser.push_text("a<｜DSML｜ calls", events);
    EXPECT_EQ(parser.region(), AnswerParser::Region::kContent);
    parser.push_text(">", events);
    EXPECT_EQ(parser.region(), AnswerParser::Region::kCalls);
}

TEST(AnswerParser, GivesOutTextAsSoonAsItIsDecided) {
    AnswerParser parser(with_tools(AnswerStart::kContent));
    std::vector<AnswerEvent> events;
    parser.push_text("abc", events);
    EXPECT_EQ(joined(events).content, "abc");
    parser.push_text("\n<", events);
    EXPECT_EQ(joined(events).content, "abc");
    parser.push_text("b", events);
    EXPECT_EQ(joined(events).content, "abc\n<b");
    const std::string whole = call("get_weather", "");
    parser.push_text(whole.substr(0, whole.find("\">") + 2), events);
    ASSERT_EQ(joined(events).calls.size(), 1U);
    parser.push_text(std::string("<｜DSML｜ parameter name=\"city\" string=\"true\">Par"), events);
    EXPECT_EQ(joined(events).calls.front().arguments, "{\"city\": \"Par");
}

// --- stop strings ---

TEST(AnswerParser, NoByteOfAStopStringComesOut) {  // B01
    AnswerParserOptions options = without_tools(AnswerStart::kContent);
    options.stop = {"DEFGHIJ"};
    const AnswerOutcome outcome = parse_every_way(options, "abcDEFGHIJklm");
    EXPECT_EQ(outcome.content, "abc");
    EXPECT_EQ(outcome.matched_stop, 0U);
    options.includes_stop_text = true;
    EXPECT_EQ(parse_every_way(options, "abcDEFGHIJklm").content, "abcDEFGHIJ");
}

TEST(AnswerParser, BeginningsOfAStopStringComeOutOnce) {  // B02
    AnswerParserOptions options = with_tools(AnswerStart::kContent);
    options.stop = {"DEFGHIJ", "DEX"};
    const AnswerOutcome cut = parse_every_way(options, "DDEDEFDEFGHI", true);
    EXPECT_EQ(cut.content, "DDEDEFDEFGHI");
    EXPECT_EQ(cut.matched_stop, std::nullopt);
    const AnswerOutcome called = parse_every_way(options, "DEF\n" + call("noop", ""));
    EXPECT_EQ(called.content, "DEF");
    EXPECT_EQ(called.calls.size(), 1U);
}

TEST(AnswerParser, StopStringsSeeTheAnswerAsTheClientDoes) {
    AnswerParserOptions options = with_tools(AnswerStart::kReasoning);
    options.stop = {"\n\n"};
    EXPECT_EQ(parse_every_way(options, "a\n\nb</think>\n\nc\n\n" + call("noop", "")).calls.size(), 1U);
    EXPECT_EQ(parse_every_way(options, "a</think>c\n\nd").content, "c");
    EXPECT_EQ(parse_every_way(options, "a</think>c\n\n").content, "c");
}

TEST(AnswerParser, NothingComesBehindAStopString) {
    AnswerParserOptions options = with_tools(AnswerStart::kContent);
    options.stop = {"END"};
    AnswerParser parser(options);
    std::vector<AnswerEvent> events;
    parser.push_text("aEND" + call("noop", ""), events);
    EXPECT_TRUE(parser.is_over());
    parser.push_text("more", events);
    parser.finish(false, events);
    EXPECT_EQ(joined(events).content, "a");
    EXPECT_EQ(parser.call_count(), 0);
}

// --- calls ---

TEST(AnswerParser, AValueThatIsNoJsonBecomesAString) {  // D1
    EXPECT_EQ(arguments_of(parameter("o", kIsJson, "Par\"is")), R"({"o": "Par\"is"})");
    EXPECT_EQ(arguments_of(parameter("o", kIsJson, " False ")), R"({"o": false})");
    EXPECT_EQ(arguments_of(parameter("o", kIsJson, "1, 2")), R"({"o": "1, 2"})");
    EXPECT_EQ(arguments_of(parameter("o", kIsJson, "NaN")), R"({"o": "NaN"})");
    EXPECT_EQ(arguments_of(parameter("o", kIsJson, "\n[1.50, 1E3]\n")), R"({"o": [1.50, 1E3]})");
}

TEST(AnswerParser, AValueThatWasCutComesAsItIs) {  // D1
    const std::string text =
        std::string(kOpen) + "<｜DSML｜ invoke name=\"w\">\n<｜DSML｜ parameter name=\"o\" string=\"false\">\n Tru";
    for (const bool is_cut : {false, true}) {
        const AnswerOutcome outcome = parse_every_way(with_tools(AnswerStart::kContent), text, is_cut);
        ASSERT_EQ(outcome.calls.size(), 1U);
        EXPECT_EQ(outcome.calls.front(), (ParsedCall{.name = "w", .arguments = "{\"o\": \n Tru", .has_ended = !is_cut}));
    }
}

TEST(AnswerParser, TheSchemaDecidesWhereTheTagSaysNothing) {  // D2
    EXPECT_EQ(arguments_of(parameter("city", "", "12") + parameter("days", " string=\"yes\"", "12"), "get_weather"),
              R"({"city": "12", "days": 12})");
    EXPECT_EQ(arguments_of(parameter("x", "", "True") + parameter("y", "", "[1]")), R"({"x": "True", "y": [1]})");
}

TEST(AnswerParser, ABodyThatIsAnObjectIsTheArguments) {  // D3
    EXPECT_EQ(arguments_of(R"({"a": "</think> <b>"})"), R"({"a": "</think> <b>"})");
    EXPECT_EQ(arguments_of(R"({"a": 1} or so)"), "{}");
    EXPECT_EQ(arguments_of("[1]"), "{}");
    EXPECT_EQ(arguments_of(R"({"a": 1})" + parameter("b", kIsJson, "2")), R"({"b": 2})");
}

TEST(AnswerParser, AMarkerThatOpensNoKnownTagIsText) {  // D4
    for (const std::string text : {"The <｜DSML｜> marker", "<｜DSML｜ cal", "<｜DSML｜ invoke x", "</｜DSML｜ calls>",
                                   "｜DSML｜", "a<｜DSML｜<｜DSML｜ parameter name=\"x", "<</｜DSML｜"}) {
        SCOPED_TRACE(text);
        EXPECT_EQ(parse_every_way(with_tools(AnswerStart::kContent), text).content, text);
        EXPECT_EQ(parse_every_way(with_tools(AnswerStart::kReasoning), text).reasoning, text);
    }
    const AnswerOutcome outcome = parse_every_way(with_tools(AnswerStart::kContent), "<｜DSML｜ in" + call("noop", ""));
    EXPECT_EQ(outcome.content, "<｜DSML｜ in");
    EXPECT_EQ(outcome.calls.size(), 1U);
}

TEST(AnswerParser, ACallWithoutANameIsDroppedAndTheOthersAreNot) {  // D5
    const std::string text = std::string(kOpen) + "<｜DSML｜ invoke name=\"\">\n" + parameter("a", kIsJson, "1") +
                             "\n</｜DSML｜ invoke>\n<｜DSML｜ invoke name=\"noop\">\n\n</｜DSML｜ invoke>\n" +
                             std::string(kClose);
    const AnswerOutcome outcome = parse_every_way(with_tools(AnswerStart::kContent), text);
    ASSERT_EQ(outcome.calls.size(), 1U);
    EXPECT_EQ(outcome.calls.front(), (ParsedCall{.name = "noop", .arguments = "{}", .has_ended = true}));
}

TEST(AnswerParser, JsonModeDropsWhatStandsAroundAndAddsNothing) {  // D7
    AnswerParserOptions options = without_tools(AnswerStart::kReasoning);
    options.is_json_object = true;
    options.stop = {"2"};
    const AnswerOutcome outcome = parse_every_way(options, "{r}</think>ok 2 ```json\n{\"a\": [1, 2]}\n``` done");
    EXPECT_EQ(outcome.content, "{\"a\": [1, ");
    EXPECT_EQ(outcome.matched_stop, 0U);
}

TEST(AnswerParser, ASecondBlockAddsCalls) {  // D8
    const std::string text = call("noop", "") + "\nand\n" + call("w", parameter("a", kIsJson, "1"));
    const AnswerOutcome outcome = parse_every_way(with_tools(AnswerStart::kContent), text + "done");
    ASSERT_EQ(outcome.calls.size(), 2U);
    EXPECT_EQ(outcome.calls[1].arguments, "{\"a\": 1}");
    EXPECT_EQ(outcome.content, "");
}

TEST(AnswerParser, IntegersKeepTheirDigits) {  // D10
    EXPECT_EQ(arguments_of(parameter("i", kIsJson, "123456789012345678901234567890")),
              R"({"i": 123456789012345678901234567890})");
}

TEST(AnswerParser, ValuesThatLookLikeMarkupArriveWhole) {  // B25
    for (const std::string value : {"ls 2>&1", "a </ b", "<｜DS", "say \\\"hi\\\"", "</｜DSM", "<", "</", "</parameter>",
                                    "<｜DSML｜ invoke name=\"x\">", "<｜DSML｜", "x</think>y<think>"}) {
        SCOPED_TRACE(value);
        EXPECT_EQ(arguments_of(parameter("t", kIsString, value)), "{\"t\": " + json_text(JsonValue::string(value)) + "}");
    }
}

TEST(AnswerParser, ArgumentsAreTypedAndAWrapperIsRemovedOnlyWhereItIsNoField) {  // B26
    EXPECT_EQ(arguments_of(parameter("a", kIsJson, "1") + parameter("b", kIsJson, "true") + parameter("c", kIsJson, "null")),
              R"({"a": 1, "b": true, "c": null})");
    const std::string object = R"({"city": "Paris", "days": 03})";
    EXPECT_EQ(arguments_of(parameter("arguments", kIsJson, R"({"city": "Paris",  "days": 3})"), "get_weather"),
              R"({"city": "Paris",  "days": 3})");
    EXPECT_EQ(arguments_of(parameter("input", kIsString, R"( {"city": "Paris"} )"), "get_weather"), R"({"city": "Paris"})");
    EXPECT_EQ(arguments_of(parameter("input", kIsJson, R"("{\"city\": \"P\"}")"), "get_weather"), R"({"city": "P"})");
    EXPECT_EQ(arguments_of(R"({"arguments": {"city": "P"}})", "get_weather"), R"({"city": "P"})");
    // Not all keys declared; no object; more than one argument; nothing known of the tool.
    EXPECT_EQ(arguments_of(parameter("input", kIsJson, R"({"town": "Paris"})"), "get_weather"),
              R"({"input": {"town": "Paris"}})");
    EXPECT_EQ(arguments_of(parameter("input", kIsString, "Paris"), "get_weather"), R"({"input": "Paris"})");
    EXPECT_EQ(arguments_of(parameter("input", kIsString, object), "get_weather"),
              "{\"input\": " + json_text(JsonValue::string(object)) + "}");
    EXPECT_EQ(arguments_of(parameter("input", kIsJson, R"({"city": "P"})") + parameter("days", kIsJson, "1"), "get_weather"),
              R"({"input": {"city": "P"}, "days": 1})");
    EXPECT_EQ(arguments_of(parameter("input", kIsJson, R"({"a": 1})"), "w"), R"({"input": {"a": 1}})");
    EXPECT_EQ(arguments_of(parameter("input", kIsJson, "{}"), "noop"), R"({"input": {}})");
}

TEST(AnswerParser, ATooLThatDeclaresTheWrappersNameKeepsIt) {  // B26
    AnswerParserOptions options = with_tools(AnswerStart::kContent);
    options.tools[0].parameters =
        parse_json(R"({"type": "object", "properties": {"input": {"type": "object"}, "city": {}}})").value();
    const std::string text = call("get_weather", parameter("input", kIsJson, R"({"city": "P"})"));
    EXPECT_EQ(parse_every_way(options, text).calls.front().arguments, R"({"input": {"city": "P"}})");
}

TEST(AnswerParser, AHeldWrapperIsGivenOutWhenTheOutputEnds) {
    const std::string open = std::string(kOpen) + "<｜DSML｜ invoke name=\"get_weather\">\n";
    for (const auto& [value, expected] :
         {std::pair("<｜DSML｜ parameter name=\"input\" string=\"true\">{\"ci", R"({"input": "{\"ci)"),
          std::pair("<｜DSML｜ parameter name=\"input\" string=\"false\">{\"ci", R"({"input": {"ci)"),
          std::pair("<｜DSML｜ parameter name=\"input\" string=\"false\">{}</｜DSML｜ param", R"({"input": {})"),
          std::pair("<｜DSML｜ parameter name=\"inp", R"({"inp)"), std::pair("{\"city\": ", R"({"city": )")}) {
        SCOPED_TRACE(value);
        const AnswerOutcome outcome = parse_every_way(with_tools(AnswerStart::kContent), open + value, true);
        ASSERT_EQ(outcome.calls.size(), 1U);
        EXPECT_EQ(outcome.calls.front().arguments, expected);
    }
}

TEST(AnswerParser, AnInvokeThatFollowsAnUnclosedOneBeginsAnotherCall) {
    const std::string text =
        std::string(kOpen) + "<｜DSML｜ invoke name=\"a\">\n" + parameter("x", kIsJson, "1") +
        "\n<｜DSML｜ invoke name=\"b\">\n<｜DSML｜ parameter name=\"y\" string=\"false\">2</｜DSML｜ invoke>\n" +
        "<｜DSML｜ invoke name=\"c\">\n<｜DSML｜ parameter name=\"z\" string=\"false\">3</｜DSML｜ calls>";
    const AnswerOutcome outcome = parse_every_way(with_tools(AnswerStart::kContent), text);
    ASSERT_EQ(outcome.calls.size(), 3U);
    EXPECT_EQ(outcome.calls[0].arguments, "{\"x\": 1}");
    EXPECT_EQ(outcome.calls[1].arguments, "{\"y\": 2}");
    EXPECT_EQ(outcome.calls[2].arguments, "{\"z\": 3}");
}

TEST(AnswerParser, IsOverBehindTheLastAllowedCall) {
    AnswerParserOptions options = with_tools(AnswerStart::kContent);
    options.calls_max = 1;
    AnswerParser parser(options);
    std::vector<AnswerEvent> events;
    std::string text = call("noop", "");
    text.resize(text.find("</｜DSML｜ invoke"));
    parser.push_text(text, events);
    EXPECT_FALSE(parser.is_over());
    parser.push_text("</｜DSML｜", events);
    EXPECT_TRUE(parser.is_over());
    parser.push_text(" invoke>\n<｜DSML｜ invoke name=\"noop\">\n</｜DSML｜ invoke>", events);
    parser.finish(false, events);
    EXPECT_EQ(joined(events).calls.size(), 1U);
}

TEST(AnswerParser, DeeplyNestedValuesStayWithinWhatCanBeReadBack) {
    const std::string deep = std::string(127, '[') + std::string(127, ']');
    EXPECT_EQ(arguments_of(parameter("a", kIsJson, deep)), "{\"a\": " + deep + "}");
    const std::string deeper = std::string(128, '[') + std::string(128, ']');
    EXPECT_EQ(arguments_of(parameter("a", kIsJson, deeper)), "{\"a\": \"" + deeper + "\"}");
}

TEST(AnswerParser, FourMebibytesTakeLinearWork) {  // B07: quadratic work would take hours
    const std::string line(size_t{4} << 20, '<');
    for (const std::string_view attributes : {kIsString, kIsJson, std::string_view()}) {
        const std::string text = call("w", parameter("t", attributes, line));
        AnswerParser parser(with_tools(AnswerStart::kContent));
        std::vector<AnswerEvent> events;
        for (size_t at = 0; at < text.size(); at += 3) {
            parser.push_text(std::string_view(text).substr(at, 3), events);
        }
        parser.finish(false, events);
        EXPECT_EQ(joined(events).calls.at(0).arguments.size(), line.size() + std::string_view(R"({"t": ""})").size());
    }
    for (const std::string& text : {std::string(size_t{4} << 20, '\n') + "x", "{" + std::string(size_t{4} << 20, '`')}) {
        AnswerParserOptions options = with_tools(AnswerStart::kContentContinued);
        options.is_json_object = text.front() == '{';
        options.stop = {std::string(1000, '`') + "x"};
        const AnswerOutcome outcome = parse_pieces(options, {text}, false);
        EXPECT_EQ(outcome.content, text);
    }
}

}  // namespace
}  // namespace di
