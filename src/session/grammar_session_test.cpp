#include <gtest/gtest.h>

#include "session/session.h"
#include "text/json_text.h"

// Structured output through the whole pipeline: from a prompt's grammar to the answer's text.
namespace di {
namespace {

Session& mini() {
    static const std::unique_ptr<Session> session = [] {
        SessionOptions options;
        options.engine.model_directory = DI_MODELS "/v41-mini";
        options.engine.max_model_len = 512;
        options.engine.max_num_seqs = 4;
        options.engine.threads = 2;
        return Session::open(options).value();
    }();
    return *session;
}

PromptRequest request(std::string text, GrammarSpec grammar, uint64_t seed) {
    PromptRequest prompt;
    prompt.prompt = std::move(text);
    prompt.sampling = mini().default_sampling();
    prompt.sampling.temperature = 1.0;
    prompt.sampling.seed = seed;
    prompt.sampling.max_tokens = 200;
    prompt.grammar = std::move(grammar);
    return prompt;
}

GrammarSpec schema(std::string text) { return {.kind = GrammarSpec::Kind::kJsonSchema, .text = std::move(text)}; }

TEST(GrammarSession, GivesJsonOfTheSchemaNextToFreeAnswers) {
    const std::string text = R"({"type":"object","properties":{"age":{"type":"integer","minimum":0,"maximum":99},)"
                             R"("city":{"enum":["Rome","Oslo"]}},"required":["age","city"]})";
    std::vector<PromptRequest> requests;
    for (uint64_t seed = 0; seed < 6; ++seed) {
        requests.push_back(request("Anna is 34 and lives in Rome.", schema(text), seed));
        requests.push_back(requests.back());
        requests.back().grammar.reset();
        requests.back().sampling.max_tokens = 20;
    }
    const std::vector<PromptResult> results = mini().generate(std::move(requests), {});
    for (size_t i = 0; i < results.size(); i += 2) {
        ASSERT_EQ(results[i].finish, FinishReason::kStop) << i << ": " << results[i].text;
        const Result<JsonValue> value = parse_json(results[i].text);
        ASSERT_TRUE(value.has_value()) << results[i].text;
        ASSERT_NE(value->find("age"), nullptr) << results[i].text;
        const std::optional<int64_t> age = value->find("age")->as_int64();
        EXPECT_TRUE(age && *age >= 0 && *age <= 99) << results[i].text;
        ASSERT_NE(value->find("city"), nullptr) << results[i].text;
        EXPECT_TRUE(value->find("city")->as_string() == "Rome" || value->find("city")->as_string() == "Oslo");
        EXPECT_FALSE(results[i + 1].error.has_value());
    }
}

TEST(GrammarSession, EndsOnlyTheRequestWhoseConstraintIsWrong) {
    std::vector<PromptRequest> requests;
    requests.push_back(request("One", {.kind = GrammarSpec::Kind::kRegex, .text = "(a"}, 1));
    requests.push_back(request("Two", {.kind = GrammarSpec::Kind::kChoice, .choices = {"yes", "no"}}, 2));
    requests.push_back(request("Three", schema(R"({"type":"object","patternProperties":{"a":{"type":"null"}}})"), 3));
    const std::vector<PromptResult> results = mini().generate(std::move(requests), {});
    ASSERT_EQ(results.size(), 3U);
    ASSERT_TRUE(results[0].error.has_value());
    EXPECT_NE(results[0].error->text.find("regex"), std::string::npos);
    EXPECT_TRUE(results[1].text == "yes" || results[1].text == "no") << results[1].text;
    ASSERT_TRUE(results[2].error.has_value());
    EXPECT_NE(results[2].error->text.find("schema.patternProperties"), std::string::npos);
}

TEST(GrammarSession, HoldsTheConstraintBackUntilTheReasoningIsOver) {
    Conversation conversation = user_conversation("What is the capital of Norway?");
    conversation.response_format.kind = ResponseFormat::Kind::kChoice;
    conversation.response_format.choices = {"Oslo"};
    PromptRequest prompt = request("", {}, 4);
    prompt.grammar.reset();
    prompt.prompt = conversation;
    const Result<std::optional<GrammarSpec>> thinking = prompt_grammar(prompt, mini().tokenizer());
    ASSERT_TRUE(thinking.has_value() && thinking->has_value());
    EXPECT_EQ((*thinking)->trigger_token_ids, std::vector<int32_t>{mini().tokenizer().find("</think>").value()});
    conversation.is_thinking = false;
    prompt.prompt = conversation;
    const std::vector<PromptResult> results = mini().generate({prompt}, {});
    ASSERT_FALSE(results[0].error.has_value()) << results[0].error->text;
    EXPECT_EQ(results[0].text, "Oslo");
    prompt.grammar = GrammarSpec{};
    EXPECT_FALSE(prompt_grammar(prompt, mini().tokenizer()).has_value());
}

}  // namespace
}  // namespace di
