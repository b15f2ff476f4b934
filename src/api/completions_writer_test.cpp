#include "api/answer_harness.h"

namespace di {
namespace {

Request completions_request(size_t prompt_count = 1) {
    Request request = test_request(Dialect::kCompletions);
    request.raw_prompts.assign(prompt_count, std::string("p"));
    return request;
}

AnswerDelta with_logprobs(std::string text, std::vector<LogprobEntry> logprobs) {
    AnswerDelta delta;
    delta.text = std::move(text);
    delta.logprobs = std::move(logprobs);
    return delta;
}

TEST(CompletionsWriter, ChunksAndBodyHaveTheOldShape) {
    AnswerRun run(completions_request(), test_head("cmpl-1"));
    run.content("a").content("b").end(AnswerEnd::kLength);
    const std::vector<JsonValue> data = run.data();
    ASSERT_EQ(data.size(), 4U);
    EXPECT_EQ(
        json_text(data[0]),
        R"({"id": "cmpl-1", "object": "text_completion", "created": 7, "model": "m", "system_fingerprint": "fp", "choices": )"
        R"([{"index": 0, "text": "a", "logprobs": null, "finish_reason": null, "stop_reason": null}]})");
    EXPECT_EQ(at(data[2], "choices.0.finish_reason"), "\"length\"");
    EXPECT_EQ(at(data[2], "usage.completion_tokens"), "5");
    EXPECT_EQ(data[3].as_string(), "[DONE]");
    EXPECT_EQ(at(run.body(), "choices"),
              R"([{"index": 0, "text": "ab", "logprobs": null, "finish_reason": "length", "stop_reason": null}])");
}

TEST(CompletionsWriter, ChoicesAreCountedOverPromptsTimesChoices) {
    Request request = completions_request(2);
    request.echoes_prompt = true;
    AnswerHead head = test_head("x");
    head.choice_count = 4;
    head.echo_texts = {"P", "Q"};
    AnswerRun run(request, head);
    for (int32_t i = 0; i < 4; ++i) {
        run.content(fmt::format("{}", i), i).end_choice({.choice = i, .end = AnswerEnd::kStop});
    }
    run.finish();
    const JsonValue body = run.body();
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(at(body, fmt::format("choices.{}.text", i)), fmt::format("\"{}{}\"", i < 2 ? "P" : "Q", i));
        EXPECT_EQ(at(run.data()[i], "choices.0.text"), i < 2 ? "\"P\"" : "\"Q\"");
    }
}

TEST(CompletionsWriter, OldLogprobsAreListsSideBySide) {
    Request request = completions_request();
    request.sampling.wants_logprobs = true;
    AnswerRun run(request, test_head("x"));
    // Three tokens, of which two share a character; two alternatives read alike.
    run.add(with_logprobs(
        "h\xe4\xb8\xad",
        {{.bytes = "h", .logprob = -1.0, .top = {{.bytes = "i", .logprob = -0.5}, {.bytes = "i", .logprob = -3.0}}},
         {.bytes = "\xe4\xb8", .logprob = -2.0}}));
    run.add(with_logprobs("x", {{.bytes = "\xad"}, {.bytes = "x"}})).end(AnswerEnd::kStop);
    EXPECT_EQ(at(run.data()[0], "choices.0.logprobs"),
              R"({"tokens": ["h", "\\xe4\\xb8"], "token_logprobs": [-1.0, -2.0], )"
              R"("top_logprobs": [{"i": -0.5, "h": -1.0}, {"\\xe4\\xb8": -2.0}], "text_offset": [0, 1]})");
    EXPECT_EQ(at(run.data()[1], "choices.0.logprobs.text_offset"), "[1, 2]");
    EXPECT_EQ(at(run.body(), "choices.0.logprobs.text_offset"), "[0, 1, 1, 2]");
}

TEST(CompletionsWriter, EchoHasTheLogprobsOfThePromptAndTheFirstIsNull) {
    Request request = completions_request();
    request.echoes_prompt = true;
    request.sampling.wants_logprobs = true;
    request.sampling.prompt_logprob_count = 1;
    AnswerHead head = test_head("x");
    head.echo_texts = {"ab"};
    head.prompt_logprobs = {
        {{.bytes = "a", .token_id = 1},
         {.bytes = "b", .logprob = -0.5, .top = {{.bytes = "c", .logprob = -0.25, .token_id = 3}}, .token_id = 2}}};
    AnswerRun run(request, head);
    run.add(with_logprobs("z", {{.bytes = "z", .logprob = -1.5}})).end(AnswerEnd::kStop);
    EXPECT_EQ(at(run.data()[0], "choices.0.text"), "\"ab\"");
    EXPECT_EQ(at(run.data()[0], "choices.0.logprobs.token_logprobs"), "[null, -0.5]");
    EXPECT_EQ(at(run.data()[1], "choices.0.logprobs.text_offset"), "[2]");
    const JsonValue body = run.body();
    EXPECT_EQ(at(body, "choices.0.logprobs"),
              R"({"tokens": ["a", "b", "z"], "token_logprobs": [null, -0.5, -1.5], )"
              R"("top_logprobs": [null, {"c": -0.25, "b": -0.5}, {"z": -1.5}], "text_offset": [0, 1, 2]})");
    EXPECT_EQ(at(body, "choices.0.prompt_logprobs"), R"([null, {"3": {"logprob": -0.25, "rank": 1, "decoded_token": "c"}, )"
                                                     R"("2": {"logprob": -0.5, "rank": null, "decoded_token": "b"}}])");
}

TEST(CompletionsWriter, TokenIdsStandInTheChoices) {
    Request request = completions_request(2);
    request.returns_token_ids = true;
    AnswerHead head = test_head("x");
    head.choice_count = 2;
    head.prompt_token_ids = {{1}, {2, 3}};
    AnswerRun run(request, head);
    AnswerDelta delta;
    delta.choice = 1;
    delta.text = "a";
    delta.token_ids = {9};
    run.add(delta).end_choice({.choice = 0, .end = AnswerEnd::kStop});
    run.end_choice({.choice = 1, .end = AnswerEnd::kStop, .token_ids = {4}}).finish();
    EXPECT_EQ(at(run.data()[1], "choices.0.prompt_token_ids"), "[2, 3]");
    EXPECT_EQ(at(run.body(), "choices.0.prompt_token_ids"), "[1]");
    EXPECT_EQ(at(run.body(), "choices.1.token_ids"), "[9, 4]");
}

TEST(CompletionsWriter, AFailureIsNeverACleanEnd) {
    AnswerRun run(completions_request(), test_head("x"));
    run.content("a").end_choice({.choice = 0, .end = AnswerEnd::kStop});
    run.fail({.kind = ApiErrorKind::kTimeout, .message = "too slow"});
    ASSERT_EQ(run.events().size(), 2U);
    EXPECT_EQ(at(run.data()[1], "error.code"), "\"timeout\"");
    EXPECT_EQ(at(run.body(), "error.message"), "\"too slow\"");
}

}  // namespace
}  // namespace di
