#include "api/tokenize_request.h"

#include <gtest/gtest.h>

#include "api/json_reader.h"

namespace di {
namespace {

JsonValue json(std::string_view text) {
    auto value = parse_json(text);
    EXPECT_TRUE(value.has_value()) << text;
    return value ? *value : JsonValue();
}

TEST(TokenizeRequest, TakesTextUnderTwoNamesOrAChat) {
    for (const std::string_view key : {"prompt", "content"}) {
        const auto request = parse_tokenize_request(json(fmt::format(R"({{"{}": "a", "add_special_tokens": false}})", key)));
        ASSERT_TRUE(request.has_value()) << request.error().text;
        const auto* text = std::get_if<TextToTokenise>(&request->subject);
        ASSERT_NE(text, nullptr);
        EXPECT_EQ(text->text, "a");
        EXPECT_FALSE(text->adds_special_tokens);
        EXPECT_FALSE(request->returns_token_strings);
    }
    const auto chat = parse_tokenize_request(json(R"({"messages": [{"role": "user", "content": "q"}], "return_token_strs": true,
        "add_generation_prompt": true, "chat_template_kwargs": {"thinking": false}})"));
    ASSERT_TRUE(chat.has_value()) << chat.error().text;
    EXPECT_TRUE(chat->returns_token_strings);
    EXPECT_FALSE(std::get<Request>(chat->subject).conversation->is_thinking);
}

TEST(TokenizeRequest, RefusesWhatIsNeither) {
    for (const auto& [body, parameter] : std::vector<std::pair<std::string_view, std::string_view>>{
             {"{}", "prompt"}, {R"({"prompt": 5})", "prompt"}, {R"({"messages": 5})", "messages"}, {"[]", ""}}) {
        const auto request = parse_tokenize_request(json(body));
        ASSERT_FALSE(request.has_value()) << body;
        EXPECT_EQ(parameter_of(request.error()), parameter) << request.error().text;
    }
}

TEST(TokenizeRequest, AnswersCountLimitAndIds) {
    const std::vector<int32_t> ids = {5, 6};
    EXPECT_EQ(tokenize_body(ids, 4096, std::nullopt), R"({"count": 2, "max_model_len": 4096, "tokens": [5, 6]})");
    EXPECT_EQ(tokenize_body(ids, 9, std::vector<std::string>{"a", "\xff"}),
              "{\"count\": 2, \"max_model_len\": 9, \"tokens\": [5, 6], \"token_strs\": [\"a\", \"\xef\xbf\xbd\"]}");
}

TEST(DetokenizeRequest, TakesIdsOfTheVocabularyAlone) {
    const auto request = parse_detokenize_request(json(R"({"tokens": [0, 9], "skip_special_tokens": true})"), 10);
    ASSERT_TRUE(request.has_value()) << request.error().text;
    EXPECT_EQ(request->token_ids, (std::vector<int32_t>{0, 9}));
    EXPECT_TRUE(request->skips_special_tokens);
    for (const std::string_view tokens : {"[0, 10]", "[0, -1]", "[0, \"1\"]", "[0, 1.0]", "[0, 99999999999999999999]"}) {
        const auto refused = parse_detokenize_request(json(fmt::format(R"({{"tokens": {}}})", tokens)), 10);
        ASSERT_FALSE(refused.has_value()) << tokens;
        EXPECT_EQ(parameter_of(refused.error()), "tokens[1]");
    }
    EXPECT_FALSE(parse_detokenize_request(json("{}"), 10).has_value());
    EXPECT_EQ(detokenize_body("a\xff"),
              "{\"prompt\": \"a\xef\xbf\xbd\", \"text\": \"a\xef\xbf\xbd\", \"content\": \"a\xef\xbf\xbd\"}");
}

TEST(SmallBodies, HaveOneMember) {
    EXPECT_EQ(template_body("a\n"), R"({"prompt": "a\n"})");
    EXPECT_EQ(count_tokens_body(12), R"({"input_tokens": 12})");
}

}  // namespace
}  // namespace di
