#include "api/responses_request.h"

#include <gtest/gtest.h>

namespace di {
namespace {

Request accepted(std::string_view body) {
    auto request = parse_responses_request(body);
    EXPECT_TRUE(request.has_value()) << body << " " << (request ? "" : request.error().text);
    Request empty;
    empty.conversation.emplace();
    return request ? std::move(*request) : empty;
}

void expect_refused(std::string_view body, std::string_view parameter) {
    const auto request = parse_responses_request(body);
    ASSERT_FALSE(request.has_value()) << body;
    EXPECT_EQ(parameter_of(request.error()), parameter) << request.error().text;
}

TEST(ResponsesRequest, OutputItemsInARowAreOneTurn) {
    const Request request = accepted(R"({"input": [{"role": "user", "content": "q"},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "R1"}, {"type": "reasoning_text", "text": "R2"}]},
        {"type": "reasoning", "content": [{"text": "R3"}]},
        {"type": "message", "role": "assistant", "content": "a"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "namespace": "ns", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "x\"y"},
        {"type": "custom_tool_call_output", "call_id": "d", "output": "1"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "2"}]},
        {"type": "reasoning", "summary": []}, {"role": "user", "content": "next"}]})");
    const std::vector<Message>& messages = request.conversation->messages;
    ASSERT_EQ(messages.size(), 6U);
    EXPECT_EQ(messages[1].reasoning, "R1\nR2\nR3");
    ASSERT_EQ(messages[1].parts.size(), 2U);
    ASSERT_EQ(messages[1].tool_calls.size(), 2U);
    EXPECT_EQ(messages[1].tool_calls[0].name, "ns::f");
    EXPECT_EQ(messages[1].tool_calls[1].arguments, R"({"input": "x\"y"})");
    EXPECT_EQ(messages[2].role, MessageRole::kTool);
    EXPECT_EQ(messages[4].role, MessageRole::kAssistant);  // reasoning with nothing after it
    EXPECT_TRUE(messages[4].parts.empty());
}

TEST(ResponsesRequest, ReasoningAfterAMessageStartsTheNextTurn) {
    const Request request =
        accepted(R"({"input": [{"role": "assistant", "content": "a"}, {"type": "reasoning", "content": [{"text": "R"}]},
        {"role": "assistant", "content": "b"}, {"type": "web_search_call"}, {"role": "assistant", "content": "c"}]})");
    ASSERT_EQ(request.conversation->messages.size(), 2U);
    EXPECT_EQ(request.conversation->messages[1].reasoning, "R");
    EXPECT_EQ(request.conversation->messages[1].parts.size(), 2U);
    // A message after a call leaves the call without a result.
    expect_refused(R"({"input": [{"type": "function_call", "call_id": "c", "name": "f"}, {"role": "assistant", "content": "x"},
        {"type": "function_call_output", "call_id": "c", "output": "r"}]})",
                   "input[0].tool_calls");
}

TEST(ResponsesRequest, ToolsThatRunElsewhereAreLeftOutAndListed) {
    const Request request = accepted(R"({"input": "x", "tools": [{"type": "web_search"}, {"type": "mcp"},
        {"type": "custom", "name": "c", "description": "C"},
        {"type": "namespace", "name": "ns", "description": "N", "tools": [{"type": "function", "name": "f", "description": "F"},
                                                                          {"type": "function", "name": "g"}]}],
        "tool_choice": {"type": "function", "name": "f", "namespace": "ns"}})");
    EXPECT_EQ(request.ignored_tools.size(), 2U);
    ASSERT_EQ(request.conversation->tools.size(), 3U);
    EXPECT_EQ(request.conversation->tools[1].name, "ns::f");
    EXPECT_EQ(request.conversation->tools[1].description, "N\nF");
    EXPECT_EQ(request.conversation->tools[2].description, "N");
    ASSERT_EQ(offered_tools(*request.conversation).size(), 1U);
    EXPECT_TRUE(forces_tool_call(*request.conversation));
    EXPECT_EQ(accepted(R"({"input": "x", "tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}})")
                  .conversation->tool_choice.kind,
              ToolChoice::Kind::kAuto);
}

TEST(ResponsesRequest, StoreFields) {
    const Request chained = accepted(
        R"({"previous_response_id": "resp_1", "input": [{"type": "function_call_output", "call_id": "c", "output": "r"}]})");
    EXPECT_EQ(chained.previous_response_id, "resp_1");  // the call is in the stored part
    EXPECT_TRUE(chained.is_stored);
    EXPECT_TRUE(accepted(R"({"input": "x", "background": true})").is_background);
    EXPECT_TRUE(accepted(R"({"input": "x", "include": ["reasoning.encrypted_content"]})").includes_encrypted_reasoning);
    expect_refused(R"({"input": "x", "background": true, "store": false})", "background");
    expect_refused(R"({"input": "x", "truncation": "some"})", "truncation");
    expect_refused(R"({"input": "x", "conversation": "c"})", "conversation");
    expect_refused(R"({"input": "x", "prompt": {"id": "p"}})", "prompt");
}

TEST(ResponsesRequest, FaultsNameTheirPlace) {
    expect_refused("{}", "input");
    expect_refused(R"({"input": []})", "input");
    expect_refused(R"({"input": 5})", "input");
    expect_refused(R"({"input": [5]})", "input[0]");
    expect_refused(R"({"input": [{}]})", "input[0].type");
    expect_refused(R"({"input": [{"role": "robot", "content": "x"}]})", "input[0].role");
    expect_refused(R"({"input": [{"role": "user"}]})", "input[0].content");
    expect_refused(R"({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]})", "input[0].content[0].type");
    expect_refused(R"({"input": [{"type": "function_call", "name": "f"}]})", "input[0].call_id");
    expect_refused(R"({"input": "x", "reasoning": {"effort": "huge"}})", "reasoning.effort");
    expect_refused(R"({"input": "x", "text": {"format": {"type": "regex", "regex": "a"}}})", "text.format.type");
    EXPECT_EQ(accepted(R"({"instructions": "x"})").conversation->messages.at(0).role, MessageRole::kSystem);
}

}  // namespace
}  // namespace di
