#include "session/session.h"

#include <algorithm>
#include <map>
#include <utility>

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

// Steps until nothing is unfinished; outputs of each request in order.
std::map<uint64_t, std::vector<PromptOutput>> drain() {
    std::map<uint64_t, std::vector<PromptOutput>> outputs;
    while (mini().has_unfinished()) {
        for (PromptOutput& output : mini().step()) {
            outputs[output.request_id].push_back(std::move(output));
        }
    }
    return outputs;
}

std::string text_of(const std::vector<PromptOutput>& outputs) {
    std::string text;
    for (const PromptOutput& output : outputs) {
        for (const OutputToken& token : output.tokens) {
            text += token.text;
        }
        text += output.rest;
    }
    return text;
}

int end_count(const std::vector<PromptOutput>& outputs) {
    return static_cast<int>(std::count_if(outputs.begin(), outputs.end(),
                                          [](const PromptOutput& output) { return output.finish != FinishReason::kNone; }));
}

TEST(Session, SubmittedPromptsAnswerAsGeneratedOnesDo) {
    const std::vector<PromptResult> expected = run({greedy("Once upon a time", 9), forced(" naïve — end")});
    const SubmittedPrompt first = mini().submit(greedy("Once upon a time", 9)).value();
    const SubmittedPrompt second = mini().submit(forced(" naïve — end")).value();
    EXPECT_EQ(first.prompt_token_ids, expected[0].prompt_token_ids);
    EXPECT_EQ(mini().unfinished_count(), 2);
    const auto outputs = drain();
    EXPECT_EQ(text_of(outputs.at(first.id)), expected[0].text);
    EXPECT_EQ(text_of(outputs.at(second.id)), expected[1].text);
    EXPECT_EQ(end_count(outputs.at(first.id)), 1);
    EXPECT_EQ(end_count(outputs.at(second.id)), 1);
    EXPECT_EQ(mini().unfinished_count(), 0);
}

TEST(Session, ASubmittedPromptThatCannotRunIsAnsweredAtOnce) {
    const auto submitted = mini().submit(greedy("", 3));
    ASSERT_FALSE(submitted.has_value());
    EXPECT_NE(submitted.error().text.find("empty"), std::string::npos);
    EXPECT_FALSE(mini().has_unfinished());
}

TEST(Session, GenerateLosesNothingOfSubmittedPrompts) {
    const std::string alone = run({greedy("A bird", 12)})[0].text;
    const SubmittedPrompt submitted = mini().submit(greedy("A bird", 12)).value();
    EXPECT_FALSE(run({greedy("The", 3)})[0].error.has_value());
    const auto outputs = drain();
    ASSERT_EQ(outputs.size(), 1U);
    EXPECT_EQ(text_of(outputs.at(submitted.id)), alone);
    EXPECT_EQ(end_count(outputs.at(submitted.id)), 1);
}

TEST(Session, AbortEndsASubmittedPromptOnceAndKeepsWhatItHad) {
    const SubmittedPrompt submitted = mini().submit(greedy("Once upon a time", 100)).value();
    std::vector<PromptOutput> outputs;
    while (outputs.size() < 3) {
        for (PromptOutput& output : mini().step()) {
            outputs.push_back(std::move(output));
        }
    }
    mini().abort(submitted.id);
    mini().abort(submitted.id);
    mini().abort(1'000'000);
    auto rest = drain();
    ASSERT_TRUE(rest.contains(submitted.id));
    EXPECT_EQ(rest.at(submitted.id).back().finish, FinishReason::kAbort);
    EXPECT_EQ(end_count(rest.at(submitted.id)), 1);
    EXPECT_GE(rest.at(submitted.id).back().usage.completion_tokens, 3);
}

TEST(Session, AStopStringEndsASubmittedPromptOnce) {
    PromptRequest request = forced(" one two three four five");
    request.stop = {"three fo"};
    const SubmittedPrompt submitted = mini().submit(std::move(request)).value();
    const auto outputs = drain();
    EXPECT_EQ(text_of(outputs.at(submitted.id)), " one two ");
    EXPECT_EQ(outputs.at(submitted.id).back().finish, FinishReason::kStop);
    EXPECT_EQ(end_count(outputs.at(submitted.id)), 1);
}

TEST(Session, NothingIsDrawnForASampleBehindItsStopStringWhileOthersRunOn) {
    PromptRequest request = greedy("Once upon a time", 60);
    request.sampling.temperature = 1.0;
    request.sampling.seed = 7;
    request.sampling.ignore_eos = true;
    request.sampling.n = 2;
    const PromptResult whole = run({request})[0];
    ASSERT_EQ(whole.token_ids.size(), 60U);
    const std::string stop = whole.text.substr(8, 6);
    ASSERT_EQ(whole.other_samples[0].text.find(stop), std::string::npos);
    request.stop = {stop};
    const int64_t drawn_before = mini().stats().output_tokens;
    const PromptResult stopped = run({request})[0];
    EXPECT_EQ(stopped.finish, FinishReason::kStop);
    EXPECT_LT(stopped.token_ids.size(), 30U);
    EXPECT_EQ(stopped.other_samples[0].token_ids, whole.other_samples[0].token_ids);
    // The sample that stopped may have had a round of drafts under way.
    EXPECT_LE(mini().stats().output_tokens - drawn_before, 60 + static_cast<int64_t>(stopped.token_ids.size()) + 12);
}

TEST(Session, APromptThatFillsTheContextGetsOneTokenAndALongerOneAnErrorWithBothNumbers) {
    const auto answer_to = [](size_t prompt_tokens) {
        PromptRequest request = greedy("", 50);
        request.prompt = std::vector<int32_t>(prompt_tokens, 300);
        request.sampling.ignore_eos = true;
        return run({request})[0];
    };
    for (const size_t prompt_tokens : {255U, 256U}) {
        const PromptResult result = answer_to(prompt_tokens);
        EXPECT_EQ(result.token_ids.size(), 1U) << prompt_tokens;
        EXPECT_EQ(result.finish, FinishReason::kLength);
    }
    const PromptResult refused = answer_to(257);
    EXPECT_EQ(refused.finish, FinishReason::kError);
    EXPECT_TRUE(refused.token_ids.empty());
    EXPECT_NE(refused.error->text.find("the prompt has 257 tokens, expected at most 256"), std::string::npos);
}

TEST(Session, AbortReachesPromptsInsideGenerateInEveryState) {
    std::vector<PromptRequest> requests;
    for (int i = 0; i < 30; ++i) {  // more than are prepared at a time
        requests.push_back(greedy("Once upon a time", 8));
    }
    const uint64_t first = mini().next_id();
    bool is_told = false;
    const std::vector<PromptResult> results = run(std::move(requests), [&](const PromptEvent&) {
        if (!std::exchange(is_told, true)) {
            mini().abort(first + 1);
            mini().abort(first + 29);
        }
        return true;
    });
    ASSERT_EQ(results.size(), 30U);
    for (size_t i = 0; i < results.size(); ++i) {
        const bool is_aborted = i == 1 || i == 29;
        EXPECT_EQ(results[i].finish, is_aborted ? FinishReason::kAbort : FinishReason::kLength) << i;
    }
    EXPECT_TRUE(results[29].token_ids.empty());
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
