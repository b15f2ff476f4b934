#include "session/session.h"

#include <gtest/gtest.h>

namespace di {
namespace {

Session& mini() {
    static const std::unique_ptr<Session> session = [] {
        SessionOptions options;
        options.engine.model_directory = DI_MODELS "/v41-mini";
        options.engine.max_model_len = 256;
        options.engine.max_num_seqs = 3;
        options.engine.threads = 2;
        return Session::open(options).value();
    }();
    return *session;
}

PromptRequest greedy(std::string text, int32_t max_tokens) {
    PromptRequest request;
    request.prompt = std::move(text);
    request.sampling = mini().default_sampling();
    request.sampling.temperature = 0.0;
    request.sampling.max_tokens = max_tokens;
    return request;
}

// An answer whose tokens are forced, so that its text is known.
PromptRequest forced(const std::string& answer) {
    PromptRequest request = greedy("Once", 0);
    request.sampling.golden_token_ids = mini().tokenizer().encode_special(answer).value();
    request.sampling.max_tokens = static_cast<int32_t>(request.sampling.golden_token_ids.size());
    return request;
}

std::vector<PromptResult> run(std::vector<PromptRequest> requests, const PromptSink& sink = {}) {
    return mini().generate(std::move(requests), sink);
}

TEST(Session, TakesItsDefaultsFromTheModel) {
    EXPECT_DOUBLE_EQ(mini().default_sampling().temperature, 0.7);
    EXPECT_DOUBLE_EQ(mini().default_sampling().top_p, 0.9);
}

TEST(Session, GivesResultsInOrderAndAsManyAsPrompts) {
    std::vector<PromptRequest> requests;
    const std::vector<std::string> texts = {"Once upon a time", "The", "", "A bird", "One day, Tom", "Why", "She said", "Max"};
    for (size_t i = 0; i < texts.size(); ++i) {
        requests.push_back(greedy(texts[i], static_cast<int32_t>(i % 3) + 1));
    }
    const std::vector<PromptResult> together = run(requests);
    ASSERT_EQ(together.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
        if (texts[i].empty()) {
            EXPECT_EQ(together[i].finish, FinishReason::kError);
            ASSERT_TRUE(together[i].error.has_value());
            EXPECT_TRUE(together[i].text.empty());
            continue;
        }
        const std::vector<PromptResult> alone = run({requests[i]});
        EXPECT_EQ(together[i].token_ids, alone[0].token_ids);
        EXPECT_EQ(together[i].logprobs, alone[0].logprobs);
        EXPECT_EQ(together[i].text, alone[0].text);
        EXPECT_EQ(together[i].usage.completion_tokens, static_cast<int64_t>(together[i].token_ids.size()));
    }
}

TEST(Session, NoPromptsGiveNoResults) { EXPECT_TRUE(run({}).empty()); }

TEST(Session, StreamedTextIsTheTextOfTheResult) {
    const std::string answer = " naïve — “quoted” 🙂🙃 end";
    std::string streamed;
    int ends = 0;
    const std::vector<PromptResult> results = run({forced(answer)}, [&](const PromptEvent& event) {
        streamed += event.text;
        ends += event.end != nullptr ? 1 : 0;
        return true;
    });
    EXPECT_EQ(results[0].text, answer);
    EXPECT_EQ(streamed, answer);
    EXPECT_EQ(ends, 1);
    EXPECT_EQ(results[0].finish, FinishReason::kLength);
}

TEST(Session, AnAnswerCutInsideACharacterEndsWithOneReplacement) {
    PromptRequest request = forced(" 🙂");
    ASSERT_GT(request.sampling.golden_token_ids.size(), 1U);
    request.sampling.golden_token_ids.pop_back();
    request.sampling.max_tokens -= 1;
    EXPECT_TRUE(run({request})[0].text.ends_with("\xEF\xBF\xBD"));
}

TEST(Session, NoByteOfAStopStringIsGivenOut) {
    PromptRequest request = forced(" one two three four five");
    request.stop = {"three fo"};
    std::string streamed;
    const std::vector<PromptResult> results = run({request}, [&](const PromptEvent& event) {
        streamed += event.text;
        EXPECT_EQ(streamed.find("th"), std::string::npos);
        return true;
    });
    EXPECT_EQ(results[0].text, " one two ");
    EXPECT_EQ(streamed, " one two ");
    EXPECT_EQ(results[0].finish, FinishReason::kStop);
    EXPECT_LT(results[0].token_ids.size(), request.sampling.golden_token_ids.size());
}

TEST(Session, AStopStringThatNeverCompletesLosesNothing) {
    PromptRequest request = forced(" one two three four");
    request.stop = {"four five"};
    EXPECT_EQ(run({request})[0].text, " one two three four");
}

TEST(Session, TheCallerCanEndOnePromptAndNotTheOthers) {
    const std::vector<PromptResult> results =
        run({greedy("Once upon a time", 20), greedy("The", 5)}, [](const PromptEvent& event) { return event.index != 0; });
    EXPECT_EQ(results[0].finish, FinishReason::kAbort);
    EXPECT_EQ(results[0].token_ids.size(), 1U);
    EXPECT_NE(results[1].finish, FinishReason::kAbort);
    EXPECT_EQ(run({greedy("The", 5)})[0].token_ids, results[1].token_ids);
}

TEST(Session, EndTokensAreNoText) {
    PromptRequest request = forced(" yes");
    request.sampling.golden_token_ids.push_back(mini().config().eos_token_id);
    request.sampling.max_tokens = 10;
    const std::vector<PromptResult> results = run({request});
    EXPECT_EQ(results[0].text, " yes");
    EXPECT_EQ(results[0].finish, FinishReason::kStop);
    EXPECT_EQ(results[0].token_ids.back(), mini().config().eos_token_id);
}

TEST(Session, AnswersAUsersMessage) {
    PromptRequest request = greedy("", 8);
    request.prompt = user_conversation("Hello");
    const std::vector<PromptResult> results = run({request});
    ASSERT_FALSE(results[0].error.has_value()) << results[0].error->text;
    EXPECT_EQ(results[0].prompt_token_ids.front(), 0);
    EXPECT_EQ(results[0].token_ids.size(), 8U);
}

TEST(Session, OpenSaysWhatIsMissing) {
    SessionOptions options;
    options.engine.model_directory = DI_TEST_DATA "/flash";  // a config and nothing else
    const auto session = Session::open(options);
    ASSERT_FALSE(session.has_value());
    EXPECT_NE(session.error().text.find("tokenizer.json"), std::string::npos);
}

}  // namespace
}  // namespace di
