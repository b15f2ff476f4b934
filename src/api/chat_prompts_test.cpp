// The recorded prompts of tests/data/chat: request in, prompt text, ranges, images and ids out.
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "api/chat_request.h"
#include "api/messages_request.h"
#include "api/responses_request.h"
#include "deepseek_tokenizer.h"
#include "text/chat_encoding.h"

namespace di {
namespace {

JsonValue chat_fixture(const std::string& name) {
    std::ifstream file(std::string(DI_TEST_DATA) + "/chat/" + name);
    std::stringstream text;
    text << file.rdbuf();
    auto value = parse_json(text.str());
    EXPECT_TRUE(value.has_value()) << name << ": " << (value ? "" : value.error().text);
    return value ? *value : JsonValue::object();
}

const JsonValue::Array& cases_of(const JsonValue& fixture) {
    static const JsonValue::Array kNone;
    const JsonValue* cases = fixture.find("cases");
    EXPECT_NE(cases, nullptr);
    return cases == nullptr ? kNone : cases->as_array();
}

Result<Request> parse_request(const JsonValue& body, std::string_view endpoint) {
    if (endpoint == "/v1/responses") {
        return parse_responses_request(body);
    }
    if (endpoint == "/v1/messages") {
        return parse_messages_request(body);
    }
    return parse_chat_request(body);
}

// Byte offset of each code point, and of the end.
std::vector<int64_t> code_point_offsets(std::string_view text) {
    std::vector<int64_t> offsets;
    for (size_t i = 0; i < text.size(); ++i) {
        if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {
            offsets.push_back(static_cast<int64_t>(i));
        }
    }
    offsets.push_back(static_cast<int64_t>(text.size()));
    return offsets;
}

std::string_view start_name(AnswerStart start) {
    switch (start) {
        case AnswerStart::kReasoning: return "reasoning_new";
        case AnswerStart::kReasoningContinued: return "reasoning_continued";
        case AnswerStart::kContent: return "content_new";
        case AnswerStart::kContentContinued: return "content_continued";
        case AnswerStart::kCalls: return "calls";
    }
    return "";
}

const ContentPart& part_of(const Conversation& conversation, const ImageReference& image) {
    return conversation.messages.at(static_cast<size_t>(image.message_index)).parts.at(static_cast<size_t>(image.part_index));
}

void expect_images(const JsonValue& recorded, const Conversation& conversation, const EncodedPrompt& prompt) {
    ASSERT_EQ(recorded.as_array().size(), prompt.images.size());
    for (size_t i = 0; i < prompt.images.size(); ++i) {
        const ContentPart& part = part_of(conversation, prompt.images[i]);
        EXPECT_EQ(part.image_url, recorded.as_array()[i].find("url")->as_string());
        const bool is_low = recorded.as_array()[i].find("detail")->as_string() == "low";
        EXPECT_EQ(part.image_detail, is_low ? ImageDetail::kLow : ImageDetail::kHigh);
        const SpecialRange range = prompt.special_ranges.at(static_cast<size_t>(prompt.images[i].range_index));
        EXPECT_EQ(prompt.text.substr(static_cast<size_t>(range.begin), static_cast<size_t>(range.end - range.begin)),
                  "<｜deepseek_image｜>");
    }
}

struct EncodedCase {
    std::string id;
    Request request;
    EncodedPrompt prompt;
    const JsonValue* recorded;
};

std::vector<EncodedCase> encode_cases(const JsonValue& fixture, ChatDialect dialect) {
    std::vector<EncodedCase> result;
    for (const JsonValue& recorded : cases_of(fixture)) {
        const JsonValue* endpoint = recorded.find("endpoint");
        const std::string& id = recorded.find("id")->as_string();
        auto request = parse_request(*recorded.find("request"), endpoint == nullptr ? "" : endpoint->as_string());
        EXPECT_TRUE(request.has_value()) << id << ": " << (request ? "" : request.error().text);
        if (!request) {
            continue;
        }
        auto prompt = encode_prompt(*request->conversation, dialect);
        EXPECT_TRUE(prompt.has_value()) << id << ": " << (prompt ? "" : prompt.error().text);
        if (prompt) {
            result.push_back({id, std::move(*request), std::move(*prompt), &recorded});
        }
    }
    return result;
}

// Loading takes a second; the tests share it.
const Tokenizer& deepseek_tokenizer() {
    static const Result<Tokenizer> tokenizer = Tokenizer::parse(deepseek_v41_tokenizer_json());
    if (!tokenizer) {
        throw std::runtime_error(tokenizer.error().text);
    }
    return *tokenizer;
}

const Tokenizer& mini_tokenizer() {
    static const Result<Tokenizer> tokenizer = Tokenizer::open(std::string(DI_MODELS) + "/v41-mini");
    if (!tokenizer) {
        throw std::runtime_error(tokenizer.error().text);
    }
    return *tokenizer;
}

TEST(ChatPrompts, TextRangesAndImagesOfTheV41VectorsAreExact) {
    const JsonValue fixture = chat_fixture("encoding_v41.json");
    const auto cases = encode_cases(fixture, ChatDialect::kV41);
    EXPECT_EQ(cases.size(), 60U);
    for (const EncodedCase& one : cases) {
        SCOPED_TRACE(one.id);
        EXPECT_EQ(one.prompt.text, one.recorded->find("prompt")->as_string());
        const std::vector<int64_t> offsets = code_point_offsets(one.prompt.text);
        std::vector<SpecialRange> ranges;
        for (const JsonValue& range : one.recorded->find("special_ranges")->as_array()) {
            ranges.push_back({.begin = offsets.at(static_cast<size_t>(*range.as_array()[0].as_int64())),
                              .end = offsets.at(static_cast<size_t>(*range.as_array()[1].as_int64()))});
        }
        EXPECT_EQ(one.prompt.special_ranges, ranges);
        expect_images(*one.recorded->find("images"), *one.request.conversation, one.prompt);
    }
}

TEST(ChatPrompts, AnswerStartOfTheV41VectorsIsExact) {
    const JsonValue fixture = chat_fixture("encoding_v41.json");
    for (const EncodedCase& one : encode_cases(fixture, ChatDialect::kV41)) {
        SCOPED_TRACE(one.id);
        const JsonValue& parse = *one.recorded->find("parse");
        EXPECT_EQ(one.prompt.may_call_tools, parse.find("tool_calls")->as_boolean());
        const bool starts_in_calls = parse.find("starts_in_tool_calls")->as_boolean();
        EXPECT_EQ(one.prompt.answer_start == AnswerStart::kCalls, starts_in_calls);
        EXPECT_EQ(one.request.conversation->response_format.kind == ResponseFormat::Kind::kJsonObject,
                  parse.find("json_object")->as_boolean());
        if (one.id == "prefix_off") {
            // Our rule: a continuation keeps its newlines also with thinking off; the reference drops them.
            EXPECT_EQ(one.prompt.answer_start, AnswerStart::kContentContinued);
        } else if (!starts_in_calls) {
            EXPECT_EQ(start_name(one.prompt.answer_start), parse.find("start")->as_string());
        }
    }
}

TEST(ChatPrompts, IdsOfTheV41VectorsAreExact) {
    const JsonValue fixture = chat_fixture("encoding_v41.json");
    for (const EncodedCase& one : encode_cases(fixture, ChatDialect::kV41)) {
        SCOPED_TRACE(one.id);
        std::vector<int32_t> expected;
        for (const JsonValue& id : one.recorded->find("prompt_ids")->as_array()) {
            expected.push_back(static_cast<int32_t>(*id.as_int64()));
        }
        const auto ids = tokenise_prompt(one.prompt, deepseek_tokenizer());
        ASSERT_TRUE(ids.has_value()) << ids.error().text;
        EXPECT_EQ(*ids, expected);
    }
}

TEST(ChatPrompts, TextOfTheV4VectorsIsExact) {
    const JsonValue fixture = chat_fixture("encoding_v4.json");
    const auto cases = encode_cases(fixture, ChatDialect::kV4);
    EXPECT_EQ(cases.size(), 17U);
    for (const EncodedCase& one : cases) {
        SCOPED_TRACE(one.id);
        EXPECT_EQ(one.prompt.text, one.recorded->find("prompt")->as_string());
    }
}

// Where a rule of ours differs from the recorded prompt, what ours is.
std::string expected_protocol_prompt(const std::string& id, std::string recorded) {
    const auto replace = [&](std::string_view from, std::string_view to) {
        const size_t at = recorded.rfind(from);
        EXPECT_NE(at, std::string::npos) << id;
        recorded.replace(at, from.size(), to);
    };
    if (id == "messages:output_format") {  // the format is enforced, so the model is told
        replace("<｜User｜>",
                "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
                "{\"type\": \"object\"}<｜User｜>");
    }
    if (id == "messages:strict") {  // strict counts in all protocols
        replace("{\"a\": {\"type\": \"string\"}}}}",
                "{\"a\": {\"type\": \"string\"}}, \"additionalProperties\": false, \"required\": [\"a\"]}}");
    }
    if (id == "messages:tool any") {  // "any" forces a call
        recorded += "\n\n<｜DSML｜ calls>\n";
    }
    return recorded;
}

TEST(ChatPrompts, ProtocolVectorsAreExactButForOurRules) {
    const JsonValue fixture = chat_fixture("encoding_protocols_v41.json");
    const auto cases = encode_cases(fixture, ChatDialect::kV41);
    EXPECT_EQ(cases.size(), 70U);
    for (const EncodedCase& one : cases) {
        SCOPED_TRACE(one.id);
        const Conversation& conversation = *one.request.conversation;
        EXPECT_EQ(one.prompt.text, expected_protocol_prompt(one.id, one.recorded->find("prompt")->as_string()));
        expect_images(*one.recorded->find("images"), conversation, one.prompt);
        EXPECT_EQ(conversation.is_thinking, one.recorded->find("thinking")->as_boolean());
        const JsonValue& length = *one.recorded->find("max_tokens");
        EXPECT_EQ(one.request.sampling.output_tokens_max, length.is_null() ? std::nullopt : length.as_int64());
        const bool starts_in_calls = one.recorded->find("starts_in_tool_calls")->as_boolean() || one.id == "messages:tool any";
        EXPECT_EQ(one.prompt.answer_start == AnswerStart::kCalls, starts_in_calls);
        if (one.id != "responses:stop") {  // an extra field there, which the reference leaves out
            std::vector<std::string> stop;
            for (const JsonValue& text : one.recorded->find("stop")->as_array()) {
                stop.push_back(text.as_string());
            }
            EXPECT_EQ(one.request.sampling.stop, stop);
        }
    }
}

TEST(ChatPrompts, RequestsThatTheReferenceRefusesAreErrorsUnlessOurRulesAllowThem) {
    const JsonValue fixture = chat_fixture("request_errors.json");
    std::vector<std::string> accepted;
    for (const JsonValue& id : fixture.find("accept_in_ours")->as_array()) {
        accepted.push_back(id.as_string());
    }
    size_t accepted_count = 0;
    for (const JsonValue& recorded : cases_of(fixture)) {
        const std::string& id = recorded.find("id")->as_string();
        SCOPED_TRACE(id);
        const auto request = parse_request(*recorded.find("request"), recorded.find("endpoint")->as_string());
        if (std::find(accepted.begin(), accepted.end(), id) != accepted.end()) {
            ++accepted_count;
            ASSERT_TRUE(request.has_value()) << request.error().text;
            EXPECT_TRUE(encode_prompt(*request->conversation, ChatDialect::kV41).has_value());
            continue;
        }
        ASSERT_FALSE(request.has_value());
        EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument);
        EXPECT_NE(parameter_of(request.error()), "") << request.error().text;
        EXPECT_EQ(request.error().text.find('\n'), std::string::npos);
    }
    EXPECT_EQ(accepted_count, accepted.size());
}

TEST(ChatPrompts, AllVectorsPassThroughTheEmbeddedTokenizerAndBack) {
    const JsonValue fixture = chat_fixture("encoding_v41.json");
    ASSERT_TRUE(check_chat_tokens(mini_tokenizer(), ChatDialect::kV41).has_value());
    for (const EncodedCase& one : encode_cases(fixture, ChatDialect::kV41)) {
        SCOPED_TRACE(one.id);
        const auto ids = tokenise_prompt(one.prompt, mini_tokenizer());
        ASSERT_TRUE(ids.has_value()) << ids.error().text;
        EXPECT_EQ(mini_tokenizer().decode(*ids), one.prompt.text);
    }
}

TEST(ChatPrompts, TextOfClientsNeverBecomesAControlToken) {
    static constexpr std::string_view kSpellings =
        "<｜begin▁of▁sentence｜><｜end▁of▁sentence｜><｜System｜><｜User｜><｜Assistant｜><think></think>｜DSML｜"
        "<｜latest_reminder｜><｜deepseek_image｜><｜action｜><｜title｜>";
    // Every place that clients fill: texts, names, keys, arguments, results, schemas.
    const std::string body = R"({"messages": [{"role": "system", "content": "@"}, {"role": "latest_reminder", "content": "@"},
        {"role": "user", "content": [{"type": "text", "text": "@"}]},
        {"role": "assistant", "content": "@", "reasoning_content": "@", "tool_calls": [
          {"id": "@", "function": {"name": "@", "arguments": {"@": "@", "n": ["@"]}}}]},
        {"role": "tool", "tool_call_id": "@", "content": "@"}],
        "tools": [{"type": "function", "function": {"name": "f", "description": "@", "parameters":
          {"type": "object", "properties": {"@": {"type": "string", "description": "@"}}}}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"title": "@"}}}})";
    const auto counted = [&](std::string_view filling) {
        std::string text = body;
        for (size_t at = text.find('@'); at != std::string::npos; at = text.find('@', at + filling.size())) {
            text.replace(at, 1, filling);
        }
        const auto request = parse_chat_request(text);
        EXPECT_TRUE(request.has_value()) << request.error().text;
        const auto prompt = encode_prompt(*request->conversation, ChatDialect::kV41);
        EXPECT_TRUE(prompt.has_value()) << prompt.error().text;
        const auto ids = tokenise_prompt(*prompt, mini_tokenizer());
        EXPECT_TRUE(ids.has_value()) << ids.error().text;
        EXPECT_EQ(mini_tokenizer().decode(*ids), prompt->text);
        std::vector<int32_t> control;
        for (const int32_t id : *ids) {
            if (mini_tokenizer().is_added(id)) {
                control.push_back(id);
            }
        }
        return control;
    };
    EXPECT_EQ(counted(kSpellings), counted("harmless"));
}

}  // namespace
}  // namespace di
