#include "api/chat_request.h"

#include <gtest/gtest.h>

#include "api/limits.h"

namespace di {
namespace {

// A request about one user message, with more fields.
std::string with(std::string_view more, std::string_view text = "hi") {
    return fmt::format("{{\"messages\": [{{\"role\": \"user\", \"content\": \"{}\"}}]{}{}}}", text, more.empty() ? "" : ", ",
                       more);
}

Request accepted(std::string_view body) {
    auto request = parse_chat_request(body);
    EXPECT_TRUE(request.has_value()) << body << " " << (request ? "" : request.error().text);
    Request empty;
    empty.conversation.emplace();
    return request ? std::move(*request) : empty;
}

void expect_refused(std::string_view body, std::string_view parameter) {
    const auto request = parse_chat_request(body);
    ASSERT_FALSE(request.has_value()) << body;
    EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(parameter_of(request.error()), parameter) << request.error().text;
}

TEST(ChatRequest, BodiesThatAreNoRequestAreErrors) {
    for (const std::string_view body : {"", "[]", "5", "\"x\"", "{:", "null", "\xc4\xe3\xba\xc3",
                                        "{\"messages\": [{\"role\": \"user\", \"content\": \"\\ud800\"}]}"}) {
        expect_refused(body, "");
    }
    expect_refused("{}", "messages");
    expect_refused(R"({"messages": []})", "messages");
    expect_refused(R"({"messages": {}})", "messages");
    expect_refused(R"({"messages": ["x"]})", "messages[0]");
}

TEST(ChatRequest, UnknownFieldsAreIgnored) {
    EXPECT_EQ(accepted(with(R"("user": 5, "metadata": {}, "whatever": [1], "model": "m", "cache_salt": "s")")).cache_salt, "s");
}

TEST(ChatRequest, RolesAndContentsThatAreNotOursNameTheirPlace) {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {R"({"role": "robot", "content": "x"})", "messages[0].role"},
        {R"({"content": "x"})", "messages[0].role"},
        {R"({"role": "user"})", "messages[0].content"},
        {R"({"role": "user", "content": null})", "messages[0].content"},
        {R"({"role": "user", "content": 5})", "messages[0].content"},
        {R"({"role": "user", "content": ["x"]})", "messages[0].content[0]"},
        {R"({"role": "user", "content": [{"type": "text"}]})", "messages[0].content[0].text"},
        {R"({"role": "user", "content": [{"type": "input_audio"}]})", "messages[0].content[0].type"},
        {R"({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x", "detail": "huge"}}]})",
         "messages[0].content[0].image_url.detail"},
        {R"({"role": "user", "content": "x", "task": "tea"})", "messages[0].task"},
        {R"({"role": "assistant", "content": null})", "messages[0].content"},
        {R"({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]})", "messages[0].tool_calls[0].id"},
        {R"({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": 5}}]})",
         "messages[0].tool_calls[0].function.arguments"},
        {R"({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f"}}]})", "messages[0].tool_calls"},
        {R"({"role": "tool", "content": "x"})", "messages[0].tool_call_id"},
        {R"({"role": "tool", "content": "x", "tool_call_id": "a"})", "messages[0].tool_call_id"},
    };
    for (const auto& [message, parameter] : cases) {
        expect_refused(fmt::format("{{\"messages\": [{}]}}", message), parameter);
    }
}

TEST(ChatRequest, MoreInputIsAcceptedThanTheReferenceDoes) {
    const Request request = accepted(R"({"messages": [{"role": "developer", "content": []},
        {"role": "assistant", "content": null, "reasoning": "R", "tool_calls": [
            {"id": "a", "function": {"name": "f", "arguments": {"x": [1, 2.50]}}}]},
        {"role": "tool", "tool_call_id": "a", "content": ""},
        {"role": "assistant", "content": null, "refusal": "no", "reasoning_content": "A", "reasoning": "B"},
        {"role": "user", "content": [{"type": "file", "file": {"file_data": "x"}}, {"type": "refusal", "refusal": "r"}]}]})");
    const std::vector<Message>& messages = request.conversation->messages;
    ASSERT_EQ(messages.size(), 5U);
    EXPECT_EQ(messages[0].role, MessageRole::kSystem);
    EXPECT_EQ(messages[1].reasoning, "R");
    EXPECT_EQ(messages[1].tool_calls[0].arguments, R"({"x": [1, 2.5]})");
    EXPECT_EQ(messages[3].reasoning, "A");
    EXPECT_EQ(messages[3].parts[0].text, "no");
    EXPECT_EQ(messages[4].parts[0].text, "[Unsupported Document]");
}

struct ThinkingCase {
    std::string_view fields;
    int32_t effort;  // 0 = thinking off
};

TEST(ChatRequest, ThinkingAndEffortFollowTheTable) {
    const ThinkingCase cases[] = {
        {"", 75},
        {R"("reasoning_effort": "none")", 0},
        {R"("reasoning_effort": "low")", 50},
        {R"("reasoning_effort": "ultra")", 100},
        {R"("reasoning_effort": 1)", 1},
        {R"("reasoning_effort": 0.5)", 50},
        {R"("reasoning_effort": 0.001)", 1},
        {R"("thinking": {"type": "disabled"}, "reasoning_effort": "max")", 0},
        {R"("thinking": {"type": "enabled"}, "reasoning_effort": "none")", 75},
        {R"("thinking": {"type": "adaptive"}, "reasoning_effort": "max")", 100},
        {R"("chat_template_kwargs": {"thinking": false})", 0},
        {R"("chat_template_kwargs": {"enable_thinking": true, "reasoning_effort": "low"})", 50},
        {R"("chat_template_kwargs": {"enable_thinking": false}, "thinking": {"type": "enabled"})", 75},
        {R"("chat_template_kwargs": {"reasoning_effort": "low"}, "reasoning_effort": "max")", 100},
    };
    for (const ThinkingCase& one : cases) {
        const Request request = accepted(with(one.fields));
        EXPECT_EQ(request.conversation->is_thinking ? request.conversation->effort : 0, one.effort) << one.fields;
    }
    for (const std::string_view value : {"\"huge\"", "0", "101", "-1", "1.0", "0.995", "0.0", "true", "[]"}) {
        expect_refused(with(fmt::format("\"reasoning_effort\": {}", value)), "reasoning_effort");
    }
    expect_refused(with(R"("thinking": {"type": "weird"})"), "thinking.type");
    expect_refused(with(R"("thinking": {})"), "thinking.type");
    expect_refused(with(R"("thinking": true)"), "thinking");
    EXPECT_EQ(accepted(with(R"("thinking": {"type": "enabled", "budget_tokens": 9})")).sampling.reasoning_tokens_max, 9);
}

constexpr std::string_view kTools =
    R"("tools": [{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g", "strict": true,
       "parameters": {"type": "object", "properties": {}}}}])";

TEST(ChatRequest, ToolChoices) {
    const auto offered = [](std::string_view choice) {
        const Request request = accepted(with(fmt::format("{}, {}", kTools, choice)));
        std::string names;
        for (const Tool* tool : offered_tools(*request.conversation)) {
            names += tool->name;
        }
        return names + (forces_tool_call(*request.conversation) ? "!" : "");
    };
    EXPECT_EQ(offered(R"("tool_choice": null)"), "fg");
    EXPECT_EQ(offered(R"("tool_choice": "none")"), "");
    EXPECT_EQ(offered(R"("tool_choice": "required")"), "fg!");
    EXPECT_EQ(offered(R"("tool_choice": {"type": "function", "function": {"name": "g"}})"), "g!");
    EXPECT_EQ(offered(R"("function_call": {"name": "f"})"), "f!");
    EXPECT_EQ(offered(R"("function_call": "none")"), "");
    EXPECT_EQ(offered(R"("tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                        {"type": "function", "function": {"name": "f"}}]}})"),
              "f!");
    EXPECT_EQ(accepted(with(R"("tool_choice": "required")")).conversation->tool_choice.kind, ToolChoice::Kind::kAuto);
    EXPECT_FALSE(accepted(with(R"("parallel_tool_calls": false)")).allows_parallel_calls);
    EXPECT_EQ(accepted(with(R"("functions": [{"name": "old"}])")).conversation->tools.at(0).name, "old");
    expect_refused(with(fmt::format("{}, \"tool_choice\": \"always\"", kTools)), "tool_choice");
    expect_refused(with(fmt::format("{}, \"tool_choice\": 5", kTools)), "tool_choice");
    expect_refused(with(fmt::format("{}, {}", kTools, R"("tool_choice": {"type": "function", "function": {"name": "h"}})")),
                   "tool_choice");
    expect_refused(
        with(fmt::format("{}, {}", kTools, R"("tool_choice": {"type": "allowed_tools", "allowed_tools": {"tools": []}})")),
        "tool_choice.allowed_tools.tools");
}

TEST(ChatRequest, ToolsThatCannotBeDeclaredAreErrors) {
    const auto tool = [](std::string_view function) {
        return with(fmt::format("\"tools\": [{{\"type\": \"function\", \"function\": {}}}]", function));
    };
    expect_refused(tool("{}"), "tools[0].function.name");
    expect_refused(tool(R"({"name": ""})"), "tools[0].function.name");
    expect_refused(tool(R"({"name": "a b"})"), "tools[0].function.name");
    expect_refused(tool("{\"name\": \"" + std::string(kToolNameBytesMax + 1, 'a') + "\"}"), "tools[0].function.name");
    expect_refused(tool(R"({"name": "a", "parameters": []})"), "tools[0].function.parameters");
    expect_refused(tool(R"({"name": "a", "parameters": {"properties": {}}})"), "tools[0].function.parameters.type");
    expect_refused(tool(R"({"name": "a", "parameters": {"type": "object", "$ref": "#/x"}})"),
                   "tools[0].function.parameters.$ref");
    expect_refused(tool("{\"name\": \"a\", \"parameters\": {\"type\": \"object\", \"title\": \"" +
                        std::string(kToolSchemaBytesMax, 'a') + "\"}}"),
                   "tools");
    expect_refused(with(R"("tools": [{"type": "custom", "custom": {"name": "x"}}])"), "tools[0].custom.name");
    EXPECT_EQ(accepted(with(R"("tools": [{"type": "custom", "custom": {"name": "apply_patch"}}])")).conversation->tools.size(),
              1U);
}

TEST(ChatRequest, EverySpellingOfAFormatIsRead) {
    const std::pair<std::string_view, ResponseFormat::Kind> cases[] = {
        {R"("response_format": {"type": "text"})", ResponseFormat::Kind::kText},
        {R"("response_format": {"type": "json_object"})", ResponseFormat::Kind::kJsonObject},
        {R"("response_format": {"type": "json_schema", "json_schema": {"schema": {}}})", ResponseFormat::Kind::kJsonSchema},
        {R"("response_format": {"type": "regex", "regex": "a"})", ResponseFormat::Kind::kRegex},
        {R"("response_format": {"type": "grammar", "grammar": "a"})", ResponseFormat::Kind::kGrammar},
        {R"("response_format": {"type": "structural_tag", "format": {}})", ResponseFormat::Kind::kStructuralTag},
        {R"("structured_outputs": {"json": {"type": "object"}})", ResponseFormat::Kind::kJsonSchema},
        {R"("structured_outputs": {"choice": ["a", "b"]})", ResponseFormat::Kind::kChoice},
        {R"("structured_outputs": {"json_object": true, "regex": null})", ResponseFormat::Kind::kJsonObject},
        {R"("guided_json": "{\"type\": \"object\"}")", ResponseFormat::Kind::kJsonSchema},
        {R"("guided_regex": "a")", ResponseFormat::Kind::kRegex},
        {R"("ebnf": "root ::= \"a\"")", ResponseFormat::Kind::kGrammar},
        {R"("json_schema": {"type": "object"})", ResponseFormat::Kind::kJsonSchema},
    };
    for (const auto& [fields, kind] : cases) {
        EXPECT_EQ(accepted(with(fields, "as json")).conversation->response_format.kind, kind) << fields;
    }
    expect_refused(with(R"("regex": "a", "ebnf": "b")"), "ebnf");
    expect_refused(with(R"("response_format": {"type": "regex", "regex": "a"}, "guided_regex": "b")"), "guided_regex");
    expect_refused(with(R"("response_format": {"type": "json_object"})"), "response_format");
    expect_refused(with(R"("response_format": {"type": "json_schema"})"), "response_format.json_schema");
    expect_refused(with(R"("response_format": {"type": "json_schema", "json_schema": {}})"),
                   "response_format.json_schema.schema");
    expect_refused(with(R"("guided_json": "{")"), "guided_json");
    expect_refused(with(R"("guided_json": {"type": "text"})"), "guided_json.type");
    expect_refused(with(R"("guided_choice": [])"), "guided_choice");
}

TEST(ChatRequest, ContinuationsAreOnlyForTheLastAssistantMessage) {
    const std::string_view messages =
        R"("messages": [{"role": "user", "content": "as json"}, {"role": "assistant", "content": "x"}])";
    const auto continued = [&](std::string_view more) { return fmt::format("{{{}, {}}}", messages, more); };
    EXPECT_TRUE(accepted(continued(R"("continue_final_message": true)")).conversation->messages[1].is_prefix);
    EXPECT_TRUE(accepted(continued(R"("continue_final_message": true, "add_generation_prompt": false)"))
                    .conversation->messages[1]
                    .is_prefix);
    expect_refused(continued(R"("continue_final_message": true, "add_generation_prompt": true)"), "add_generation_prompt");
    expect_refused(continued(R"("add_generation_prompt": false)"), "add_generation_prompt");
    expect_refused(continued(fmt::format("\"continue_final_message\": true, {}", kTools)), "messages[1].prefix");
    expect_refused(continued(R"("continue_final_message": true, "response_format": {"type": "json_object"})"),
                   "messages[1].prefix");
    accepted(continued(R"("continue_final_message": true, "json_schema": {"type": "object"})"));
    expect_refused(with(R"("continue_final_message": true)"), "continue_final_message");
    expect_refused(R"({"messages": [{"role": "assistant", "content": "x", "prefix": true}, {"role": "user", "content": "y"}]})",
                   "messages[0].prefix");
    expect_refused(R"({"messages": [{"role": "user", "content": "x", "prefix": true}]})", "messages[0].prefix");
}

TEST(ChatRequest, SoundIsRefused) {
    expect_refused(with(R"("modalities": ["text", "audio"])"), "modalities[1]");
    expect_refused(with(R"("audio": {"voice": "x"})"), "audio");
    accepted(with(R"("modalities": ["text"])"));
}

TEST(ChatRequest, MessagesAndImagesAreLimited) {
    std::string messages;
    for (size_t i = 0; i <= kMessagesMax; ++i) {
        messages += R"({"role": "user", "content": "x"},)";
    }
    messages.pop_back();
    expect_refused(fmt::format("{{\"messages\": [{}]}}", messages), "messages");
    std::string images;
    for (size_t i = 0; i <= kRequestImagesMax; ++i) {
        images += R"({"type": "image_url", "image_url": {"url": "x"}},)";
    }
    images.pop_back();
    expect_refused(fmt::format("{{\"messages\": [{{\"role\": \"user\", \"content\": [{}]}}]}}", images),
                   fmt::format("messages[0].content[{}]", kRequestImagesMax));
}

}  // namespace
}  // namespace di
