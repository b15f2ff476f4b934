#include <limits>

#include "api/answer_harness.h"

namespace di {
namespace {

Request chat_request() { return test_request(Dialect::kChat); }

LogprobEntry entry(std::string bytes, double logprob) { return {.bytes = std::move(bytes), .logprob = logprob}; }

TEST(ChatWriter, BodySaysEverythingThatTheStreamSaid) {
    AnswerRun run(chat_request(), test_head("chatcmpl-1", true));
    run.reasoning("I ").reasoning("need").content("Let me").content(" check.").call("f", {"{\"a\": ", "1}"});
    run.call("g", {"{}"}).end(AnswerEnd::kToolCalls);
    const JsonValue body = run.body();
    EXPECT_EQ(at(body, "id"), "\"chatcmpl-1\"");
    EXPECT_EQ(at(body, "object"), "\"chat.completion\"");
    EXPECT_EQ(at(body, "created"), "7");
    EXPECT_EQ(at(body, "system_fingerprint"), "\"fp\"");
    EXPECT_EQ(at(body, "service_tier"), "null");
    EXPECT_EQ(
        at(body, "choices.0.message"),
        R"({"role": "assistant", "content": "Let me check.", "reasoning_content": "I need", "refusal": null, "tool_calls": )"
        R"([{"index": 0, "id": "call_00_ID", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}, )"
        R"({"index": 1, "id": "call_01_ID", "type": "function", "function": {"name": "g", "arguments": "{}"}}]})");
    EXPECT_EQ(at(body, "choices.0.finish_reason"), "\"tool_calls\"");
    EXPECT_EQ(at(body, "choices.0.stop_reason"), "null");
    EXPECT_EQ(
        at(body, "usage"),
        R"({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "prompt_tokens_details": {"cached_tokens": 4}, )"
        R"("completion_tokens_details": {"reasoning_tokens": 2}, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6})");
    EXPECT_EQ(at(body, "timings"), "absent");
    EXPECT_EQ(at(run.body(JsonValue::object()), "timings"), "{}");
}

TEST(ChatWriter, UsageIsOnTheLastChunkUnlessItIsAskedForApart) {
    AnswerRun run(chat_request(), test_head("x"));
    run.content("a").end(AnswerEnd::kStop);
    std::vector<JsonValue> data = run.data();
    ASSERT_EQ(data.size(), 4U);
    EXPECT_EQ(at(data[0], "usage"), "absent");
    EXPECT_EQ(at(data[1], "usage"), "absent");
    EXPECT_EQ(at(data[2], "choices.0.finish_reason"), "\"stop\"");
    EXPECT_EQ(at(data[2], "usage.total_tokens"), "15");
    EXPECT_EQ(data[3].as_string(), "[DONE]");

    Request request = chat_request();
    request.stream.includes_usage = true;
    AnswerRun apart(request, test_head("x"));
    apart.content("a").end(AnswerEnd::kStop);
    data = apart.data();
    ASSERT_EQ(data.size(), 5U);
    for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(at(data[i], "usage"), "null");
    }
    EXPECT_EQ(at(data[3], "choices"), "[]");
    EXPECT_EQ(at(data[3], "usage.total_tokens"), "15");
}

TEST(ChatWriter, ContinuousUsageCountsUp) {
    Request request = chat_request();
    request.stream.includes_usage = true;
    request.stream.has_continuous_usage = true;
    AnswerRun run(request, test_head("x"));
    AnswerDelta delta;
    delta.text = "a";
    delta.usage = AnswerUsage{.prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 3};
    run.add(delta).content("b").end(AnswerEnd::kStop);
    const std::vector<JsonValue> data = run.data();
    ASSERT_EQ(data.size(), 6U);
    EXPECT_EQ(at(data[0], "usage.completion_tokens"), "0");
    EXPECT_EQ(at(data[0], "usage.prompt_tokens"), "10");
    EXPECT_EQ(at(data[1], "usage.completion_tokens"), "3");
    EXPECT_EQ(at(data[2], "usage.completion_tokens"), "3");
    EXPECT_EQ(at(data[4], "usage.completion_tokens"), "5");
    EXPECT_EQ(at(data[4], "choices"), "[]");
}

TEST(ChatWriter, ChoicesInterleaveAndEachHasOneFinishReason) {
    AnswerHead head = test_head("x");
    head.choice_count = 3;
    AnswerRun run(chat_request(), head);
    run.content("a", 0).content("b", 2).end_choice({.choice = 2, .end = AnswerEnd::kLength}).content("c", 1).content("d", 0);
    run.end_choice({.choice = 0, .end = AnswerEnd::kStop}).end_choice({.choice = 1, .end = AnswerEnd::kContentFilter}).finish();
    std::vector<std::string> texts(3);
    std::vector<std::string> finishes(3);
    size_t usages = 0;
    for (const JsonValue& data : run.data()) {
        if (!data.is_object()) {
            continue;
        }
        const size_t index = static_cast<size_t>(*data.find("choices")->as_array()[0].find("index")->as_int64());
        const std::string finish = at(data, "choices.0.finish_reason");
        finishes[index] += finish == "null" ? "" : finish;
        const JsonValue* content = data.find("choices")->as_array()[0].find("delta")->find("content");
        texts[index] += content->as_string();
        usages += data.find("usage") != nullptr ? 1 : 0;
    }
    EXPECT_EQ(texts, (std::vector<std::string>{"ad", "c", "b"}));
    EXPECT_EQ(finishes, (std::vector<std::string>{"\"stop\"", "\"content_filter\"", "\"length\""}));
    EXPECT_EQ(usages, 1U);
    const JsonValue body = run.body();
    EXPECT_EQ(at(body, "choices.2.message.content"), "\"b\"");
    EXPECT_EQ(at(body, "choices.3"), "absent");
}

TEST(ChatWriter, AFailureIsNeverACleanEnd) {
    for (const bool is_ended : {false, true}) {  // behind the last choice too, while its chunk still waits
        AnswerRun run(chat_request(), test_head("x"));
        run.content("a");
        if (is_ended) {
            run.end_choice({.choice = 0, .end = AnswerEnd::kStop});
        }
        run.fail({.kind = ApiErrorKind::kInternal, .message = "broken \xff"});
        const std::vector<JsonValue> data = run.data();
        EXPECT_EQ(at(data.back(), "error.message"), "\"broken \xef\xbf\xbd\"");
        EXPECT_EQ(at(data.back(), "error.code"), "\"internal_error\"");
        for (const JsonValue& one : data) {
            EXPECT_TRUE(one.is_object());
            EXPECT_TRUE(at(one, "choices.0.finish_reason") == "null" || one.find("error") != nullptr);
        }
        EXPECT_EQ(at(run.body(), "error.type"), "\"server_error\"");
    }
}

TEST(ChatWriter, LogprobsAreFiniteAndNameBytes) {
    Request request = chat_request();
    request.sampling.wants_logprobs = true;
    AnswerRun run(request, test_head("x"));
    AnswerDelta delta;
    delta.text = "\xe4\xb8\xad";
    delta.logprobs = {entry("\xe4\xb8", -0.5), entry("\xad", -std::numeric_limits<double>::infinity())};
    delta.logprobs[0].top = {{.bytes = "b", .logprob = -1.0},
                             {.bytes = "\"\n", .logprob = -std::numeric_limits<double>::infinity()}};
    run.add(delta).content("z").end(AnswerEnd::kStop);
    const JsonValue chunk = run.data()[1];
    EXPECT_EQ(at(chunk, "choices.0.logprobs.content.0"),
              R"({"token": "\\xe4\\xb8", "logprob": -0.5, "bytes": [228, 184], "top_logprobs": )"
              R"([{"token": "b", "logprob": -1.0, "bytes": [98]}, {"token": "\"\n", "logprob": -9999.0, "bytes": [34, 10]}]})");
    EXPECT_EQ(at(chunk, "choices.0.logprobs.content.1.logprob"), "-9999.0");
    EXPECT_EQ(at(run.data()[2], "choices.0.logprobs"), "null");
    const JsonValue body = run.body();
    EXPECT_EQ(at(body, "choices.0.logprobs.content.1.bytes"), "[173]");
    EXPECT_EQ(at(body, "choices.0.logprobs.content.2"), "absent");
}

TEST(ChatWriter, TokenIdsAreReturnedWhereAskedFor) {
    Request request = chat_request();
    request.returns_token_ids = true;
    AnswerHead head = test_head("x");
    head.prompt_token_ids = {{1, 2}};
    AnswerRun run(request, head);
    AnswerDelta delta;
    delta.text = "a";
    delta.token_ids = {5, 6};
    run.add(delta);
    delta.kind = AnswerDelta::Kind::kCallEnd;  // nothing to be said but the ids
    delta.text.clear();
    delta.token_ids = {8};
    run.call("f", {"{}"}, false).add(delta);
    run.end_choice({.choice = 0, .end = AnswerEnd::kStopToken, .stop_token_id = 7, .token_ids = {7}}).finish();
    const std::vector<JsonValue> data = run.data();
    EXPECT_EQ(at(data[0], "prompt_token_ids"), "[1, 2]");
    EXPECT_EQ(at(data[1], "prompt_token_ids"), "absent");
    EXPECT_EQ(at(data[1], "choices.0.token_ids"), "[5, 6]");
    EXPECT_EQ(at(data[4], "choices.0.token_ids"), "[8]");
    EXPECT_EQ(at(data[5], "choices.0.token_ids"), "[7]");
    EXPECT_EQ(at(data[5], "choices.0.stop_reason"), "7");
    EXPECT_EQ(at(run.body(), "choices.0.token_ids"), "[5, 6, 8, 7]");
    EXPECT_EQ(at(run.body(), "prompt_token_ids"), "[1, 2]");
}

TEST(ChatWriter, AStopStringIsTheStopReason) {
    AnswerRun run(chat_request(), test_head("x"));
    run.content("a").end_choice({.choice = 0, .end = AnswerEnd::kStopString, .stop_text = "END"}).finish();
    EXPECT_EQ(at(run.data()[2], "choices.0.stop_reason"), "\"END\"");
    EXPECT_EQ(at(run.body(), "choices.0.finish_reason"), "\"stop\"");
}

TEST(ChatWriter, ACutCallKeepsWhatCameOfIt) {
    AnswerRun run(chat_request(), test_head("x"));
    run.call("f", {"{\"a\": \"b"}, false).end(AnswerEnd::kLength);
    EXPECT_EQ(at(run.body(), "choices.0.finish_reason"), "\"length\"");
    EXPECT_EQ(at(run.body(), "choices.0.message.tool_calls.0.function.arguments"), R"("{\"a\": \"b")");
    EXPECT_EQ(at(run.body(), "choices.0.message.content"), "\"\"");
}

TEST(ChatWriter, ReasoningIsLeftOutOrPartOfTheContentWhereTheRequestSaysSo) {
    Request request = chat_request();
    request.includes_reasoning = false;
    AnswerRun without(request, test_head("x", true));
    without.reasoning("secret").content("a").end(AnswerEnd::kStop);
    EXPECT_EQ(without.events().size(), 4U);
    EXPECT_EQ(at(without.data()[0], "choices.0.delta"), R"({"role": "assistant", "content": ""})");
    EXPECT_EQ(at(without.body(), "choices.0.message"), R"({"role": "assistant", "content": "a", "refusal": null})");

    request.includes_reasoning = true;
    request.separates_reasoning = false;
    AnswerRun inside(request, test_head("x", true));
    inside.reasoning("R").reasoning("S").content("a").end(AnswerEnd::kStop);
    EXPECT_EQ(at(inside.body(), "choices.0.message"), R"({"role": "assistant", "content": "RS</think>a", "refusal": null})");
    AnswerRun cut(request, test_head("x", true));
    cut.reasoning("R").end(AnswerEnd::kLength);
    EXPECT_EQ(at(cut.body(), "choices.0.message.content"), "\"R\"");

    request.separates_reasoning = true;
    request.streams_reasoning = false;
    AnswerRun whole(request, test_head("x", true));
    whole.reasoning("R").reasoning("S").content("a").end(AnswerEnd::kStop);
    EXPECT_EQ(at(whole.data()[1], "choices.0.delta.reasoning_content"), "\"RS\"");
    EXPECT_EQ(at(whole.data()[2], "choices.0.delta.content"), "\"a\"");
}

TEST(ChatWriter, TokensOfReasoningThatIsLeftOutAreStillCountedAmongTheIds) {
    Request request = chat_request();
    request.includes_reasoning = false;
    request.returns_token_ids = true;
    AnswerRun run(request, test_head("x", true));
    AnswerDelta delta;
    delta.kind = AnswerDelta::Kind::kReasoning;
    delta.text = "R";
    delta.token_ids = {1};
    run.add(delta);
    delta.kind = AnswerDelta::Kind::kContent;
    delta.token_ids = {2};
    run.add(delta).end(AnswerEnd::kStop);
    EXPECT_EQ(at(run.body(), "choices.0.token_ids"), "[1, 2]");
}

TEST(ChatWriter, ReasoningThatNobodyExpectedIsShown) {
    AnswerRun run(chat_request(), test_head("x"));
    run.reasoning("R").content("a").end(AnswerEnd::kStop);
    EXPECT_EQ(at(run.data()[1], "choices.0.delta.reasoning_content"), "\"R\"");
    EXPECT_EQ(at(run.body(), "choices.0.message.reasoning_content"), "\"R\"");
}

TEST(ChatWriter, TheSecondNameOfReasoningIsAnOption) {
    AnswerRun run(chat_request(), test_head("x", true), {.copies_reasoning_field = true});
    run.reasoning("R").content("a").end(AnswerEnd::kStop);
    EXPECT_EQ(at(run.data()[1], "choices.0.delta.reasoning"), "\"R\"");
    EXPECT_EQ(at(run.body(), "choices.0.message.reasoning"), "\"R\"");
}

TEST(ChatWriter, ACustomToolGetsItsTextAsItIs) {
    Request request = chat_request();
    request.conversation->tools = {test_tool("apply_patch", true)};
    AnswerRun run(request, test_head("x"));
    run.call("apply_patch", {"{\"inp", "ut\": \"a\\", "nb\"", "}"}).end(AnswerEnd::kToolCalls);
    const std::vector<JsonValue> data = run.data();
    EXPECT_EQ(at(data[1], "choices.0.delta.tool_calls.0"),
              R"({"index": 0, "id": "call_00_ID", "type": "custom", "custom": {"name": "apply_patch", "input": ""}})");
    EXPECT_EQ(at(data[2], "choices.0.delta.tool_calls.0.custom.input"), "\"a\"");
    EXPECT_EQ(at(data[3], "choices.0.delta.tool_calls.0.custom.input"), "\"\\nb\"");
    EXPECT_EQ(at(data[4], "choices.0.finish_reason"), "\"tool_calls\"");
    EXPECT_EQ(at(run.body(), "choices.0.message.tool_calls.0.custom"), R"({"name": "apply_patch", "input": "a\nb"})");
}

TEST(ChatWriter, EveryEventIsOneLineOfValidUtf8) {
    AnswerRun run(chat_request(), test_head("x", true));
    run.reasoning("a\nb\r\n\xe2\x80\xa8").content("\xff\xfe").content(std::string(1, '\0')).end(AnswerEnd::kStop);
    for (const StreamEvent& event : run.events()) {
        (void)event_data(event);
        EXPECT_EQ(event_text(event), "data: " + event.data + "\n\n");
    }
    EXPECT_EQ(run.writer().keep_alive(), ": keep-alive\n\n");
    EXPECT_EQ(event_text({.name = "ping", .data = "{}"}), "event: ping\ndata: {}\n\n");
}

TEST(ChatWriter, ACancelledAnswerIsAnError) {
    AnswerRun run(chat_request(), test_head("x"));
    run.content("a").cancel();
    EXPECT_NE(run.data().back().find("error"), nullptr);
    EXPECT_NE(run.body().find("error"), nullptr);
}

}  // namespace
}  // namespace di
