#include "api/messages_request.h"

#include <gtest/gtest.h>

#include "api/json_reader.h"

namespace di {
namespace {

std::string with(std::string_view messages, std::string_view more = "") {
    return fmt::format("{{\"max_tokens\": 9, \"messages\": [{}]{}{}}}", messages, more.empty() ? "" : ", ", more);
}

Request accepted(std::string_view body) {
    auto request = parse_messages_request(body);
    EXPECT_TRUE(request.has_value()) << body << " " << (request ? "" : request.error().text);
    Request empty;
    empty.conversation.emplace();
    return request ? std::move(*request) : empty;
}

void expect_refused(std::string_view body, std::string_view parameter) {
    const auto request = parse_messages_request(body);
    ASSERT_FALSE(request.has_value()) << body;
    EXPECT_EQ(parameter_of(request.error()), parameter) << request.error().text;
}

constexpr std::string_view kUser = R"({"role": "user", "content": "q"})";
constexpr std::string_view kCall =
    R"({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]})";
constexpr std::string_view kResult =
    R"({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]})";

TEST(MessagesRequest, ResultsComeBeforeOtherTextOfTheirMessage) {
    const Request request =
        accepted(with(fmt::format(R"({}, {}, {{"role": "user", "content": [{{"type": "text", "text": "and"}},
        {{"type": "tool_result", "tool_use_id": "t"}}, {{"type": "text", "text": "more"}}]}})",
                                  kUser, kCall)));
    const std::vector<Message>& messages = request.conversation->messages;
    ASSERT_EQ(messages.size(), 4U);
    EXPECT_EQ(messages[1].tool_calls[0].arguments, "{\"a\": 1}");
    EXPECT_EQ(messages[2].role, MessageRole::kTool);
    EXPECT_EQ(messages[3].parts.size(), 2U);
}

TEST(MessagesRequest, ResultsMustStandInTheNextMessage) {
    accepted(with(fmt::format("{}, {}, {}", kUser, kCall, kResult)));
    expect_refused(with(fmt::format("{}, {}", kUser, kCall)), "messages");
    expect_refused(with(fmt::format("{}, {}, {}, {}", kUser, kCall, kUser, kResult)), "messages[2]");
    expect_refused(with(fmt::format("{}, {}, {}, {}", kUser, kCall, kResult, kResult)), "messages[3].content[0].tool_use_id");
    expect_refused(with(kResult), "messages[0].content[0].tool_use_id");
}

TEST(MessagesRequest, ALastAssistantMessageIsContinuedUnlessThinkingIsAskedFor) {
    const std::string messages = fmt::format(R"({}, {{"role": "assistant", "content": "Once"}})", kUser);
    const auto continued = [&](std::string_view more) {
        const Request request = accepted(with(messages, more));
        EXPECT_NE(request.conversation->messages.back().is_prefix, request.conversation->is_thinking);
        return request.conversation->messages.back().is_prefix;
    };
    const std::string_view tools = R"("tools": [{"name": "f", "input_schema": {"type": "object"}}])";
    EXPECT_TRUE(continued(""));
    EXPECT_TRUE(continued(R"("thinking": {"type": "disabled"})"));
    EXPECT_TRUE(continued(R"("output_config": {"effort": "max"})"));
    EXPECT_FALSE(continued(R"("thinking": {"type": "enabled", "budget_tokens": 1024})"));
    EXPECT_FALSE(continued(R"("thinking": {"type": "between_tools"})"));
    EXPECT_TRUE(continued(tools));
    expect_refused(with(messages, fmt::format("{}, \"tool_choice\": {{\"type\": \"any\"}}", tools)), "tool_choice");
}

TEST(MessagesRequest, BlocksBecomeText) {
    const Request request =
        accepted(with(R"({"role": "user", "content": [{"type": "document", "source": {"type": "url", "url": "x"}},
        {"type": "search_result", "title": "T", "source": "S", "content": [{"type": "text", "text": "a"}]},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "A"}, {"type": "redacted_thinking", "data": "x"},
        {"type": "thinking", "thinking": "B"}, {"type": "text", "text": "t"}]}, {"role": "user", "content": "z"})"));
    const std::vector<Message>& messages = request.conversation->messages;
    EXPECT_EQ(messages[0].parts[0].text, "[Unsupported document type: url]");
    EXPECT_EQ(messages[0].parts[1].text, "T\nS\na");
    EXPECT_EQ(messages[0].parts[2].image_url, "data:image/png;base64,AA");
    EXPECT_EQ(messages[1].reasoning, "A\n\nB");
    EXPECT_EQ(messages[1].parts.size(), 1U);
}

TEST(MessagesRequest, FaultsNameTheirPlace) {
    expect_refused("{}", "messages");
    expect_refused(with(R"({"role": "robot", "content": "x"})"), "messages[0].role");
    expect_refused(with(R"({"role": "user", "content": null})"), "messages[0].content");
    expect_refused(with(R"({"role": "user", "content": [{"type": "server_tool_use"}]})"), "messages[0].content[0].type");
    expect_refused(with(R"({"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "x"}}]})"),
                   "messages[0].content[0].source.type");
    expect_refused(
        with(fmt::format(
            R"({}, {{"role": "assistant", "content": [{{"type": "image", "source": {{"type": "url", "url": "x"}}}}]}},
        {})",
            kUser, kUser)),
        "messages[1].content[0]");
    expect_refused(with(kUser, R"("tools": [{"type": "bash_20250124", "name": "bash"}])"), "tools[0].type");
    expect_refused(with(kUser, R"("tools": [{"name": "f", "input_schema": {"type": "string"}}])"),
                   "tools[0].input_schema.type");
    expect_refused(with(kUser, R"("output_config": {"format": {"type": "json_object"}})"), "output_config.format.type");
    expect_refused(with(kUser, R"("tool_choice": {"type": "maybe"})"), "tool_choice.type");
    EXPECT_FALSE(
        accepted(with(kUser, R"("tools": [{"name": "f"}], "tool_choice": {"type": "auto", "disable_parallel_tool_use": true})"))
            .allows_parallel_calls);
}

TEST(MessagesRequest, AServerMayLeaveServerToolsOutInsteadOfRefusingThem) {
    const std::string body = with(kUser, R"("tools": [{"type": "web_search_20250305", "name": "web_search"},
        {"name": "f", "input_schema": {"type": "object"}}])");
    expect_refused(body, "tools[0].type");
    const auto request = parse_messages_request(body, {.drops_server_tools = true});
    ASSERT_TRUE(request.has_value()) << request.error().text;
    ASSERT_EQ(request->conversation->tools.size(), 1U);
    EXPECT_EQ(request->conversation->tools[0].name, "f");
    EXPECT_EQ(request->ignored_tools, (std::vector<std::string>{"\"web_search_20250305\""}));
}

TEST(MessagesRequest, AServerSaysWhetherThinkingIsOnWhereTheRequestDoesNot) {
    const MessagesRules off{.is_thinking_by_default = false};
    EXPECT_TRUE(parse_messages_request(with(kUser))->conversation->is_thinking);
    EXPECT_FALSE(parse_messages_request(with(kUser), off)->conversation->is_thinking);
    EXPECT_TRUE(parse_messages_request(with(kUser, R"("thinking": {"type": "adaptive"})"), off)->conversation->is_thinking);
}

}  // namespace
}  // namespace di
