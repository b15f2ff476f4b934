#include "text/chat_encoding.h"

#include <gtest/gtest.h>

namespace di {
namespace {

Message message(MessageRole role, std::string text) {
    Message result;
    result.role = role;
    result.parts.push_back(text_part(std::move(text)));
    result.path = "m";
    return result;
}

Message call_message(std::vector<ToolCall> calls) {
    Message result;
    result.role = MessageRole::kAssistant;
    result.tool_calls = std::move(calls);
    result.path = "m";
    return result;
}

Message result_message(std::string id, std::string text) {
    Message result = message(MessageRole::kTool, std::move(text));
    result.tool_call_id = std::move(id);
    return result;
}

Tool tool(std::string name) {
    Tool result;
    result.name = std::move(name);
    result.path = "tools[0]";
    return result;
}

Conversation quiet(std::vector<Message> messages) {
    Conversation conversation;
    conversation.is_thinking = false;
    conversation.messages = std::move(messages);
    return conversation;
}

EncodedPrompt encoded(const Conversation& conversation, ChatDialect dialect = ChatDialect::kV41) {
    auto prompt = encode_prompt(conversation, dialect);
    EXPECT_TRUE(prompt.has_value()) << (prompt ? "" : prompt.error().text);
    return prompt ? std::move(*prompt) : EncodedPrompt{};
}

std::string error_of(const Conversation& conversation) {
    const auto prompt = encode_prompt(conversation, ChatDialect::kV41);
    EXPECT_FALSE(prompt.has_value());
    return prompt ? "" : prompt.error().text;
}

constexpr std::string_view kBegin = "<｜begin▁of▁sentence｜>";

TEST(ChatEncoding, OneLineOfTextIsAWholeConversation) {
    const EncodedPrompt prompt = encoded(user_conversation("Hello"));
    EXPECT_EQ(prompt.text, std::string(kBegin) +
                               "<｜System｜>Reasoning Effort: 75 (range 1-100, the higher the value, the more thorough the "
                               "reasoning)\n\n<｜User｜>Hello<｜Assistant｜><think>");
    EXPECT_EQ(prompt.answer_start, AnswerStart::kReasoning);
    EXPECT_FALSE(prompt.may_call_tools);
}

TEST(ChatEncoding, TextIsNeitherTrimmedNorEscaped) {
    const std::string text("  \n\0<b>&amp;\\n ", 16);
    EXPECT_EQ(encoded(quiet({message(MessageRole::kUser, text)})).text,
              std::string(kBegin) + "<｜User｜>" + text + "<｜Assistant｜></think>");
}

TEST(ChatEncoding, ResultsTakeTheOrderOfTheCallsAndUsersKeepTheirPlaces) {
    Conversation conversation =
        quiet({message(MessageRole::kUser, "q"), call_message({{"a", "f", "{}"}, {"b", "g", "{}"}, {"c", "h", "{}"}}),
               result_message("c", "3"), result_message("a", "1"), result_message("b", "2"), message(MessageRole::kUser, "u"),
               message(MessageRole::kReminder, "r"), message(MessageRole::kUser, "v")});
    const std::string text = encoded(conversation).text;
    EXPECT_TRUE(
        text.ends_with("<｜User｜><tool_result>1</tool_result>\n\n<tool_result>2</tool_result>\n\n<tool_result>3</tool_result>"
                       "\n\nu<｜latest_reminder｜>r<｜User｜>v<｜Assistant｜></think>"))
        << text;
}

TEST(ChatEncoding, ForcedCallsOpenTheBlockOnlyWithThinkingOff) {
    Conversation conversation = quiet({message(MessageRole::kUser, "q")});
    conversation.tools = {tool("f"), tool("g")};
    conversation.tool_choice = {.kind = ToolChoice::Kind::kRequired, .allowed_names = {"g"}};
    EncodedPrompt prompt = encoded(conversation);
    EXPECT_TRUE(prompt.text.ends_with("</think>\n\n<｜DSML｜ calls>\n"));
    EXPECT_EQ(prompt.text.find("\"name\": \"f\""), std::string::npos);
    EXPECT_NE(prompt.text.find("\"name\": \"g\""), std::string::npos);
    EXPECT_EQ(prompt.answer_start, AnswerStart::kCalls);
    EXPECT_TRUE(encoded(conversation, ChatDialect::kV4).text.ends_with("</think>\n\n<｜DSML｜tool_calls>\n"));
    conversation.is_thinking = true;
    prompt = encoded(conversation);
    EXPECT_TRUE(prompt.text.ends_with("<｜Assistant｜><think>"));
    EXPECT_EQ(prompt.answer_start, AnswerStart::kReasoning);
    EXPECT_TRUE(prompt.must_call_tools);
}

TEST(ChatEncoding, ArgumentsKeepDigitsAndKeyOrder) {
    Conversation conversation =
        quiet({message(MessageRole::kUser, "q"),
               call_message({{"a", "f", R"({"z":123456789012345678901234567890,"a":-0,"s":"x\n\"y\"","z":7e0})"}}),
               result_message("a", "1")});
    const std::string text = encoded(conversation).text;
    EXPECT_NE(text.find("<｜DSML｜ parameter name=\"z\" string=\"false\">7.0</｜DSML｜ parameter>\n"
                        "<｜DSML｜ parameter name=\"a\" string=\"false\">-0.0</｜DSML｜ parameter>\n"
                        "<｜DSML｜ parameter name=\"s\" string=\"true\">x\n\"y\"</｜DSML｜ parameter>\n"),
              std::string::npos)
        << text;
}

TEST(ChatEncoding, ArgumentsThatAreNoObjectAreRepeatedAsTheyAre) {
    for (const std::string arguments : {"", "[1]", "{\"a\": 1e999}", "null", "{\"a\":"}) {
        Conversation conversation =
            quiet({message(MessageRole::kUser, "q"), call_message({{"a", "f", arguments}}), result_message("a", "1")});
        EXPECT_NE(encoded(conversation).text.find("name=\"arguments\" string=\"true\">" + arguments + "</"), std::string::npos);
    }
}

TEST(ChatEncoding, PrefixWithNothingStartsReasoningAnew) {
    Conversation conversation = user_conversation("q");
    conversation.messages.push_back(message(MessageRole::kAssistant, ""));
    conversation.messages.back().is_prefix = true;
    const EncodedPrompt prompt = encoded(conversation);
    EXPECT_TRUE(prompt.text.ends_with("<｜User｜>q<｜Assistant｜><think>"));
    EXPECT_EQ(prompt.answer_start, AnswerStart::kReasoning);
}

TEST(ChatEncoding, QuickTasksReplaceTheGenerationPart) {
    Conversation conversation = user_conversation("text");
    conversation.task = quick_task("title");
    conversation.tools = {tool("f")};
    const EncodedPrompt prompt = encoded(conversation);
    EXPECT_TRUE(prompt.text.ends_with("<｜User｜>text<｜title｜>"));
    EXPECT_EQ(prompt.answer_start, AnswerStart::kContent);
    EXPECT_FALSE(prompt.may_call_tools);
    conversation.task = quick_task("action");
    EXPECT_TRUE(encoded(conversation).text.ends_with("<｜User｜>text<｜Assistant｜><think><｜action｜>"));
    EXPECT_FALSE(quick_task("tea").has_value());
}

TEST(ChatEncoding, AnswersToQuickTasksHaveNoThinkPart) {
    Conversation conversation = user_conversation("text");
    conversation.messages[0].task = QuickTask::kTitle;
    conversation.messages.push_back(message(MessageRole::kAssistant, "T"));
    conversation.messages.push_back(message(MessageRole::kUser, "go on"));
    EXPECT_TRUE(encoded(conversation)
                    .text.ends_with("<｜User｜>text<｜title｜>T<｜end▁of▁sentence｜><｜User｜>go on<｜Assistant｜><think>"));
}

TEST(ChatEncoding, V4GathersSystemTextAtTheStart) {
    Conversation conversation = quiet({message(MessageRole::kUser, "a"), message(MessageRole::kSystem, "s"),
                                       message(MessageRole::kUser, "b"), message(MessageRole::kSystem, "t")});
    EXPECT_EQ(encoded(conversation, ChatDialect::kV4).text,
              std::string(kBegin) + "s\n\nt<｜User｜>a\n\nb<｜Assistant｜></think>");
}

TEST(ChatEncoding, ImagesPointToTheirParts) {
    Conversation conversation = quiet({message(MessageRole::kUser, "a")});
    ContentPart image;
    image.kind = ContentPart::Kind::kImage;
    image.image_url = "data:,";
    conversation.messages[0].parts.push_back(image);
    const EncodedPrompt prompt = encoded(conversation);
    ASSERT_EQ(prompt.images.size(), 1U);
    EXPECT_EQ(prompt.images[0].part_index, 1);
    EXPECT_EQ(prompt.images[0].range_index, 2);
    conversation.messages.push_back(message(MessageRole::kAssistant, "b"));
    conversation.messages.back().parts.push_back(image);
    EXPECT_NE(error_of(conversation).find("image in an assistant message"), std::string::npos);
}

TEST(ChatEncoding, CallsAndResultsMustMatch) {
    const Message user = message(MessageRole::kUser, "q");
    EXPECT_NE(error_of(quiet({user, call_message({{"a", "f", "{}"}})})).find("no result"), std::string::npos);
    EXPECT_NE(error_of(quiet({user, call_message({{"a", "f", "{}"}}), user})).find("no result"), std::string::npos);
    EXPECT_NE(error_of(quiet({user, call_message({{"a", "f", "{}"}}), message(MessageRole::kReminder, "r"),
                              result_message("a", "1")}))
                  .find("no result"),
              std::string::npos);
    EXPECT_NE(error_of(quiet({user, result_message("a", "1")})).find("answers no call"), std::string::npos);
    EXPECT_NE(error_of(quiet({user, call_message({{"a", "f", "{}"}}), result_message("b", "1")})).find("answers no call"),
              std::string::npos);
    EXPECT_NE(error_of(quiet({user, call_message({{"a", "f", "{}"}, {"a", "f", "{}"}}), result_message("a", "1")}))
                  .find("used twice"),
              std::string::npos);
}

TEST(ChatEncoding, ConversationsThatMakeNoSenseAreErrors) {
    EXPECT_NE(error_of(Conversation{}).find("messages: "), std::string::npos);
    Conversation conversation = user_conversation("q");
    conversation.effort = 101;
    EXPECT_TRUE(error_of(conversation).starts_with("reasoning_effort: 101"));
    conversation = user_conversation("q");
    conversation.messages[0].is_prefix = true;
    EXPECT_NE(error_of(conversation).find("prefix"), std::string::npos);
    conversation = user_conversation("q");
    conversation.tools = {tool("f"), tool("f")};
    EXPECT_NE(error_of(conversation).find("declared twice"), std::string::npos);
    conversation.tools = {tool("f")};
    conversation.tool_choice = {.kind = ToolChoice::Kind::kRequired, .allowed_names = {"g"}};
    EXPECT_NE(error_of(conversation).find("not among the tools"), std::string::npos);
    conversation = user_conversation("q");
    conversation.response_format.kind = ResponseFormat::Kind::kJsonObject;
    EXPECT_NE(error_of(conversation).find("'json'"), std::string::npos);
    conversation = user_conversation("As JsOn, please");
    conversation.response_format.kind = ResponseFormat::Kind::kJsonObject;
    EXPECT_TRUE(encode_prompt(conversation, ChatDialect::kV41).has_value());
    conversation = user_conversation("q");
    conversation.messages.push_back(message(MessageRole::kAssistant, "b"));
    conversation.task = QuickTask::kTitle;
    EXPECT_NE(error_of(conversation).find("task"), std::string::npos);
}

TEST(ChatEncoding, AMissingTokenIsNamed) {
    // The tokenizer of v41-tiny has the tokens of every prompt and the image, but none of tools or tasks.
    const auto tokenizer = Tokenizer::open(std::string(DI_TEST_DATA) + "/v41-tiny");
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text;
    Conversation conversation = user_conversation("text");
    conversation.task = QuickTask::kTitle;
    const auto ids = tokenise_prompt(encoded(conversation), *tokenizer);
    ASSERT_FALSE(ids.has_value());
    EXPECT_EQ(ids.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(ids.error().text.find("<｜title｜>"), std::string::npos);
}

}  // namespace
}  // namespace di
