#include "session/recipe.h"

#include <gtest/gtest.h>

#include "api/json_reader.h"
#include "text/chat_tokens.h"
#include "text/json_text.h"

namespace di {
namespace {

const Tokenizer& mini_tokenizer() {
    static const auto tokenizer = Tokenizer::open(DI_MODELS "/v41-mini");
    EXPECT_TRUE(tokenizer.has_value()) << (tokenizer ? "" : tokenizer.error().text);
    return *tokenizer;
}

class Recipe : public testing::Test {
  protected:
    [[nodiscard]] RecipeContext context() { return {.tokenizer = &mini_tokenizer(), .random = &random_, .now_s = 5}; }

    JsonValue encoded(std::string_view request, Dialect dialect) {
        const auto text = recipe_encode(request, dialect, context());
        EXPECT_TRUE(text.has_value()) << (text ? "" : text.error().text);
        return text ? *parse_json(*text) : JsonValue();
    }
    JsonValue decoded(std::string_view input, Dialect dialect) {
        const auto text = recipe_decode(input, dialect, false, context());
        EXPECT_TRUE(text.has_value()) << (text ? "" : text.error().text);
        return text ? *parse_json(*text) : JsonValue();
    }
    static std::string ids_text(std::string_view text) {
        const auto ids = mini_tokenizer().encode_special(text);
        std::string list;
        for (const int32_t id : *ids) {
            list += fmt::format("{}{}", list.empty() ? "" : ", ", id);
        }
        return "[" + list + "]";
    }

    SeededRandom random_{1};
};

constexpr std::string_view kAsk = R"({"messages": [{"role": "user", "content": "q"}]})";
constexpr std::string_view kAskTool = R"({"messages": [{"role": "user", "content": "q"}], "max_tokens": 9,
    "thinking": {"type": "disabled"}, "tools": [{"type": "function", "function": {"name": "f",
    "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}]})";
constexpr std::string_view kCall =
    "Look.\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"a\" string=\"true\">x</｜DSML｜ "
    "parameter>\n"
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>";

const JsonValue* member(const JsonValue& value, std::string_view key) {
    const JsonValue* found = value.find(key);
    EXPECT_NE(found, nullptr) << key;
    return found;
}

const JsonValue& message_of(const JsonValue& answer) { return *answer.find("choices")->as_array()[0].find("message"); }

TEST_F(Recipe, ARequestBecomesTextAndIdsOfOnePrompt) {
    const JsonValue result = encoded(kAsk, Dialect::kChat);
    const std::string& prompt = member(result, "prompt")->as_string();
    EXPECT_TRUE(prompt.starts_with(kBeginToken));
    EXPECT_TRUE(prompt.ends_with("<｜User｜>q<｜Assistant｜><think>"));
    std::vector<int32_t> ids;
    for (const JsonValue& id : member(result, "token_ids")->as_array()) {
        ids.push_back(static_cast<int32_t>(*id.as_int64()));
    }
    EXPECT_EQ(mini_tokenizer().decode(ids), prompt);
    EXPECT_TRUE(member(result, "is_thinking")->as_boolean());
    EXPECT_EQ(member(result, "answer_start")->as_string(), "reasoning_new");
    EXPECT_EQ(member(result, "special_ranges")->as_array().size(), 5U);
}

TEST_F(Recipe, EveryDialectHasItsOwnRequest) {
    EXPECT_EQ(encoded(R"({"input": "q"})", Dialect::kResponses).find("prompt")->as_string(),
              encoded(kAsk, Dialect::kChat).find("prompt")->as_string());
    EXPECT_EQ(encoded(kAsk, Dialect::kMessages).find("prompt")->as_string(),
              encoded(kAsk, Dialect::kChat).find("prompt")->as_string());
}

TEST_F(Recipe, AnImageIsOneTokenOfThePrompt) {
    const JsonValue result =
        encoded(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "<｜deepseek_image｜>"},
        {"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}]}]})",
                Dialect::kChat);
    const JsonValue& image = member(result, "images")->as_array().at(0);
    EXPECT_EQ(image.find("path")->as_string(), "messages[0].content[1]");
    EXPECT_EQ(image.find("url")->as_string(), "https://example.test/a.png");
    const size_t index = static_cast<size_t>(*image.find("token_index")->as_int64());
    EXPECT_EQ(member(result, "token_ids")->as_array().at(index).as_int64(), mini_tokenizer().find(kImageToken));
}

TEST_F(Recipe, IdsBecomeAnAnswer) {
    const std::string ids = ids_text("I think.</think>Yes.<｜end▁of▁sentence｜>");
    const std::string input = fmt::format(R"({{"request": {}, "token_ids": {}, "id": "chatcmpl-1", "created": 3}})", kAsk, ids);
    const JsonValue answer = decoded(input, Dialect::kChat);
    EXPECT_EQ(answer.find("id")->as_string(), "chatcmpl-1");
    EXPECT_EQ(answer.find("created")->as_int64(), 3);
    EXPECT_EQ(message_of(answer).find("reasoning_content")->as_string(), "I think.");
    EXPECT_EQ(message_of(answer).find("content")->as_string(), "Yes.");
    // The end token may be left out.
    const std::string open_ids = ids_text("I think.</think>Yes.");
    const std::string open =
        fmt::format(R"({{"request": {}, "token_ids": {}, "id": "chatcmpl-1", "created": 3}})", kAsk, open_ids);
    EXPECT_EQ(json_text(decoded(open, Dialect::kChat)), json_text(answer));
}

TEST_F(Recipe, TextAndIdsGiveTheSameMessage) {
    const std::string by_text = json_text(JsonValue::object(
        {{.key = "request", .value = *parse_json(kAskTool)}, {.key = "text", .value = JsonValue::string(std::string(kCall))}}));
    const std::string by_ids = fmt::format(R"({{"request": {}, "token_ids": {}}})", kAskTool, ids_text(kCall));
    for (const std::string& input : {by_text, by_ids}) {
        const JsonValue answer = decoded(input, Dialect::kChat);
        EXPECT_EQ(message_of(answer).find("content")->as_string(), "Look.");
        const JsonValue& call = message_of(answer).find("tool_calls")->as_array().at(0);
        EXPECT_EQ(json_text(*call.find("function")), R"({"name": "f", "arguments": "{\"a\": \"x\"}"})");
        EXPECT_EQ(answer.find("choices")->as_array()[0].find("finish_reason")->as_string(), "tool_calls");
    }
}

TEST_F(Recipe, AStreamIsTheTextOfItsEvents) {
    const std::string input = fmt::format(R"({{"request": {}, "text": "a</think>b"}})", kAsk);
    const auto chat = recipe_decode(input, Dialect::kChat, true, context());
    ASSERT_TRUE(chat.has_value()) << chat.error().text;
    EXPECT_TRUE(chat->starts_with("data: {"));
    EXPECT_TRUE(chat->ends_with("data: [DONE]\n\n"));
    const auto messages = recipe_decode(input, Dialect::kMessages, true, context());
    ASSERT_TRUE(messages.has_value()) << messages.error().text;
    EXPECT_TRUE(messages->starts_with("event: message_start\ndata: {"));
}

TEST_F(Recipe, AnAnswerTokenByTokenIsTheWholeOne) {
    const std::string head = fmt::format(R"({{"request": {}, "id": "x", "created": 3)", kAsk);
    const std::string_view text = "I think.</think>Yes 😀.";
    const std::string whole = json_text(decoded(head + R"(, "token_ids": )" + ids_text(text) + "}", Dialect::kChat));
    for (const bool has_end : {false, true}) {
        auto answer = RecipeAnswer::open(head + "}", Dialect::kChat, context());
        ASSERT_TRUE(answer.has_value()) << answer.error().text;
        std::vector<int32_t> ids = *mini_tokenizer().encode_special(text);
        if (has_end) {
            ids.push_back(*mini_tokenizer().find(kEndToken));
        }
        std::string streamed;
        const auto add = [&](const Result<StreamEvents>& events) {
            ASSERT_TRUE(events.has_value());
            for (const StreamEvent& event : *events) {
                const auto data = event.data == "[DONE]" ? Result<JsonValue>(JsonValue::object()) : parse_json(event.data);
                const JsonValue* choices = data->find("choices");
                const JsonValue* content = choices == nullptr ? nullptr : choices->as_array()[0].find("delta")->find("content");
                streamed += content != nullptr && content->is_string() ? content->as_string() : "";
            }
        };
        for (const int32_t id : ids) {
            add(answer->push({&id, 1}));
            EXPECT_FALSE(answer->is_over());
        }
        EXPECT_FALSE(answer->body().has_value());
        add(answer->finish("stop"));
        EXPECT_TRUE(answer->is_over());
        EXPECT_EQ(streamed, "Yes 😀.");
        EXPECT_EQ(json_text(*parse_json(*answer->body())), whole);
        EXPECT_TRUE(answer->push(ids)->empty());
    }
}

TEST_F(Recipe, AnAnswerEndsByItselfAndRefusesWhatIsNoToken) {
    auto answer = RecipeAnswer::open(R"({"request": {"messages": [{"role": "user", "content": "q"}], "stop": "END",
        "thinking": {"type": "disabled"}}})",
                                     Dialect::kChat, context());
    ASSERT_TRUE(answer.has_value()) << answer.error().text;
    const std::vector<int32_t> wrong = {1, -1};
    const auto refused = answer->push(wrong);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(parameter_of(refused.error()), "token_ids[1]");
    EXPECT_EQ(parameter_of(answer->finish("content_filter").error()), "finish_reason");
    EXPECT_TRUE(answer->push(*mini_tokenizer().encode_special("a END b")).has_value());
    EXPECT_TRUE(answer->is_over());
    EXPECT_EQ(message_of(*parse_json(*answer->body())).find("content")->as_string(), "a ");
    EXPECT_FALSE(RecipeAnswer::open(R"({"request": {}})", Dialect::kChat, context()).has_value());
}

TEST_F(Recipe, TheEndOfTheOutputIsSaid) {
    const auto finish = [&](std::string_view name) {
        const std::string input = fmt::format(R"({{"request": {}, "text": "a", "finish_reason": "{}"}})", kAsk, name);
        return decoded(input, Dialect::kChat).find("choices")->as_array()[0].find("finish_reason")->as_string();
    };
    EXPECT_EQ(finish("stop"), "stop");
    EXPECT_EQ(finish("length"), "length");
    EXPECT_EQ(finish("content_filter"), "content_filter");
}

TEST_F(Recipe, ErrorsNameTheField) {
    const auto expect_error = [&](const Result<std::string>& result, std::string_view parameter) {
        ASSERT_FALSE(result.has_value()) << *result;
        EXPECT_EQ(parameter_of(result.error()), parameter) << result.error().text;
    };
    expect_error(recipe_encode("{}", Dialect::kChat, context()), "messages");
    expect_error(recipe_encode("{", Dialect::kChat, context()), "");
    expect_error(recipe_encode(R"({"input": "q", "previous_response_id": "r"})", Dialect::kResponses, context()),
                 "previous_response_id");
    const auto decode = [&](std::string_view more) {
        return recipe_decode(fmt::format(R"({{"request": {}{}}})", kAsk, more), Dialect::kChat, false, context());
    };
    expect_error(decode(""), "token_ids");
    expect_error(decode(R"(, "text": "a", "token_ids": [1])"), "token_ids");
    expect_error(decode(R"(, "token_ids": [1, -1])"), "token_ids[1]");
    expect_error(decode(R"(, "token_ids": [99999999])"), "token_ids[0]");
    expect_error(decode(R"(, "text": "a", "finish_reason": "x")"), "finish_reason");
    expect_error(recipe_decode("{}", Dialect::kChat, false, context()), "request");
    EXPECT_EQ(parse_recipe_dialect("messages").value(), Dialect::kMessages);
    EXPECT_FALSE(parse_recipe_dialect("completions").has_value());
}

}  // namespace
}  // namespace di
