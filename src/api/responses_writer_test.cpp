#include "api/answer_harness.h"
#include "api/encrypted_reasoning.h"
#include "api/responses_request.h"

namespace di {
namespace {

using Names = std::vector<std::string>;

Request responses_request() { return test_request(Dialect::kResponses); }

TEST(ResponsesWriter, ItemsOpenAndCloseOneAfterTheOther) {
    AnswerRun run(responses_request(), test_head("resp_1", true));
    run.reasoning("I ").reasoning("need").content("Let me.").call("f", {"{}"}).end(AnswerEnd::kToolCalls);
    EXPECT_EQ(run.names(), (Names{"response.created",
                                  "response.in_progress",  //
                                  "response.output_item.added",
                                  "response.content_part.added",
                                  "response.reasoning_text.delta",
                                  "response.reasoning_text.delta",
                                  "response.reasoning_text.done",
                                  "response.content_part.done",
                                  "response.output_item.done",  //
                                  "response.output_item.added",
                                  "response.content_part.added",
                                  "response.output_text.delta",
                                  "response.output_text.done",
                                  "response.content_part.done",
                                  "response.output_item.done",  //
                                  "response.output_item.added",
                                  "response.function_call_arguments.delta",
                                  "response.function_call_arguments.done",
                                  "response.output_item.done",
                                  "response.completed"}));
    const std::vector<JsonValue> data = run.data();
    for (size_t i = 0; i < data.size(); ++i) {
        EXPECT_EQ(at(data[i], "sequence_number"), fmt::format("{}", i));
        EXPECT_EQ(at(data[i], "type"), "\"" + run.events()[i].name + "\"");
    }
    EXPECT_EQ(at(data[4], "item_id"), "\"rs_resp_1_0\"");
    EXPECT_EQ(at(data[9], "item.phase"), "\"final_answer\"");
    EXPECT_EQ(at(data[14], "item.phase"), "\"commentary\"");
    EXPECT_EQ(at(data[18], "item"),
              R"({"type": "function_call", "id": "fc_resp_1_2", "status": "completed", "call_id": "call_00_ID", )"
              R"("name": "f", "arguments": "{}"})");
    const JsonValue body = run.body();
    EXPECT_EQ(json_text(body), at(data.back(), "response"));
    EXPECT_EQ(at(body, "status"), "\"completed\"");
    EXPECT_EQ(at(body, "output.0.content"), R"([{"type": "reasoning_text", "text": "I need"}])");
    EXPECT_EQ(at(body, "output.0.encrypted_content"), "absent");
    EXPECT_EQ(
        at(body, "usage"),
        R"({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0}, "output_tokens": 5, )"
        R"("output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15})");
}

TEST(ResponsesWriter, RequestValuesAreEchoed) {
    const auto body = parse_json(R"({"input": "q", "instructions": "be brief", "temperature": 0.5, "top_p": 1,
        "reasoning": {"effort": "low"}, "metadata": {"k": "v"}, "store": false, "user": "u", "max_output_tokens": 9,
        "text": {"verbosity": "low"}, "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}],
        "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false, "truncation": "auto"})");
    const auto request = parse_responses_request(*body);
    ASSERT_TRUE(request.has_value()) << request.error().text;
    AnswerHead head = test_head("resp_1");
    head.request_body = *body;
    AnswerRun run(*request, head);
    run.end(AnswerEnd::kStop, {.completed_s = 11});
    const JsonValue answer = run.body();
    EXPECT_EQ(at(answer, "instructions"), "\"be brief\"");
    EXPECT_EQ(at(answer, "temperature"), "0.5");
    EXPECT_EQ(at(answer, "top_p"), "1");
    EXPECT_EQ(at(answer, "reasoning"), R"({"effort": "low", "summary": null})");
    EXPECT_EQ(at(answer, "metadata"), R"({"k": "v"})");
    EXPECT_EQ(at(answer, "store"), "false");
    EXPECT_EQ(at(answer, "text"), R"({"verbosity": "low", "format": {"type": "text"}})");
    EXPECT_EQ(at(answer, "tools.0"),
              R"({"type": "function", "name": "f", "description": null, "parameters": null, "strict": null})");
    EXPECT_EQ(at(answer, "tools.1"), R"({"type": "web_search"})");
    EXPECT_EQ(at(answer, "tool_choice.name"), "\"f\"");
    EXPECT_EQ(at(answer, "parallel_tool_calls"), "false");
    EXPECT_EQ(at(answer, "truncation"), "\"auto\"");
    EXPECT_EQ(at(answer, "max_output_tokens"), "9");
    EXPECT_EQ(at(answer, "completed_at"), "11");
    EXPECT_EQ(at(answer, "input"), "absent");
}

TEST(ResponsesWriter, WhatTheLengthCutsIsIncomplete) {
    AnswerRun run(responses_request(), test_head("r"));
    run.content("a").call("f", {"{\"a\": \"b"}, false).end(AnswerEnd::kLength);
    EXPECT_EQ(run.names().back(), "response.incomplete");
    const JsonValue body = run.body();
    EXPECT_EQ(at(body, "status"), "\"incomplete\"");
    EXPECT_EQ(at(body, "incomplete_details"), R"({"reason": "max_output_tokens"})");
    EXPECT_EQ(at(body, "completed_at"), "7");
    EXPECT_EQ(at(body, "output.0.status"), "\"completed\"");
    EXPECT_EQ(at(body, "output.1.status"), "\"incomplete\"");
    EXPECT_EQ(at(body, "output.1.arguments"), R"("{\"a\": \"b")");
    AnswerRun filtered(responses_request(), test_head("r"));
    filtered.content("a").end(AnswerEnd::kContentFilter);
    EXPECT_EQ(at(filtered.body(), "incomplete_details.reason"), "\"content_filter\"");
    EXPECT_EQ(at(filtered.body(), "output.0.status"), "\"incomplete\"");
}

TEST(ResponsesWriter, EncryptedReasoningComesBackIntoThePrompt) {
    Request request = responses_request();
    request.includes_encrypted_reasoning = true;
    AnswerRun run(request, test_head("r", true));
    run.reasoning("Denk ").reasoning("n\xc3\xa4her").content("a").end(AnswerEnd::kStop);
    const std::string blob = run.body().find("output")->as_array()[0].find("encrypted_content")->as_string();
    EXPECT_EQ(open_reasoning(blob), "Denk n\xc3\xa4her");
    const auto parsed = parse_responses_request(fmt::format(
        R"({{"input": [{{"role": "user", "content": "q"}}, {{"type": "reasoning", "summary": [], "encrypted_content": "{}"}},
            {{"role": "assistant", "content": "a"}}, {{"role": "user", "content": "and?"}}]}})",
        blob));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().text;
    EXPECT_EQ(parsed->conversation->messages[1].reasoning, "Denk n\xc3\xa4her");
}

TEST(ResponsesWriter, BlobsOfOthersAreNoReasoning) {
    for (const std::string_view blob : {"", "RID-0", "di0.QQ==", "di1.!", "di1./w==", "gAAAAABo"}) {
        EXPECT_FALSE(open_reasoning(blob).has_value()) << blob;
    }
    EXPECT_EQ(open_reasoning(seal_reasoning("")), "");
}

TEST(ResponsesWriter, LogprobsStandInDeltasAndInTheText) {
    AnswerRun run(responses_request(), test_head("r"));
    AnswerDelta delta;
    delta.text = "a";
    delta.logprobs = {{.bytes = "a", .logprob = -0.5}};
    run.add(delta).content("b").end(AnswerEnd::kStop);
    const std::vector<JsonValue> data = run.data();
    EXPECT_EQ(at(data[4], "logprobs.0"), R"({"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []})");
    EXPECT_EQ(at(data[5], "logprobs"), "[]");
    EXPECT_EQ(at(data[6], "logprobs.0.token"), "\"a\"");
    EXPECT_EQ(at(run.body(), "output.0.content.0.logprobs.0.token"), "\"a\"");
}

TEST(ResponsesWriter, NamespacesAndCustomToolsGetTheirOwnShape) {
    Request request = responses_request();
    request.conversation->tools = {test_tool("ns::f"), test_tool("shout", true), test_tool("ns::loud", true)};
    AnswerRun run(request, test_head("r"));
    run.call("ns::f", {"{}"})
        .call("shout", {"{\"input\": \"h", "i\"}"})
        .call("ns::loud", {"{\"input\": \"\"}"})
        .call("a::b", {"{}"});
    run.end(AnswerEnd::kToolCalls);
    const JsonValue body = run.body();
    EXPECT_EQ(at(body, "output.0.namespace"), "\"ns\"");
    EXPECT_EQ(at(body, "output.0.name"), "\"f\"");
    EXPECT_EQ(
        at(body, "output.1"),
        R"({"type": "custom_tool_call", "id": "ctc_r_1", "status": "completed", "call_id": "call_01_ID", "name": "shout", )"
        R"("input": "hi"})");
    EXPECT_EQ(at(body, "output.2.namespace"), "\"ns\"");
    EXPECT_EQ(at(body, "output.2.input"), "\"\"");
    EXPECT_EQ(at(body, "output.3.name"), "\"a::b\"");  // never declared: not ours to take apart
    const Names names = run.names();
    EXPECT_EQ(
        (Names{names.begin() + 6, names.begin() + 11}),
        (Names{"response.output_item.added", "response.custom_tool_call_input.delta", "response.custom_tool_call_input.delta",
               "response.custom_tool_call_input.done", "response.output_item.done"}));
}

TEST(ResponsesWriter, AFailureEndsTheStreamTwice) {
    AnswerRun run(responses_request(), test_head("r"));
    run.content("a").fail({.kind = ApiErrorKind::kInternal, .message = "broken"});
    const std::vector<JsonValue> data = run.data();
    const JsonValue& error = data[data.size() - 2];
    EXPECT_EQ(json_text(error),
              R"({"type": "error", "code": "server_error", "message": "broken", "param": null, "sequence_number": 5})");
    EXPECT_EQ(run.names().back(), "response.failed");
    EXPECT_EQ(at(data.back(), "response.status"), "\"failed\"");
    EXPECT_EQ(at(data.back(), "response.error"), R"({"code": "server_error", "message": "broken"})");
    EXPECT_EQ(at(run.body(), "output.0.status"), "\"incomplete\"");
    EXPECT_EQ(at(run.body(), "completed_at"), "null");
}

TEST(ResponsesWriter, ABodyIsToBeHadAtAnyTime) {
    Request request = responses_request();
    request.is_background = true;
    const auto writer = make_answer_writer(request, test_head("r"), {});
    EXPECT_EQ(at(*parse_json(writer->body({})), "status"), "\"queued\"");
    EXPECT_EQ(at(*parse_json(writer->body({})), "background"), "true");
    StreamEvents events;
    writer->begin(events);
    EXPECT_EQ(at(*parse_json(writer->body({})), "status"), "\"in_progress\"");
    AnswerDelta delta;
    delta.text = "a";
    writer->delta(delta, events);
    writer->cancel(events);
    const auto body = parse_json(writer->body({}));
    EXPECT_EQ(at(*body, "status"), "\"cancelled\"");
    EXPECT_EQ(at(*body, "output.0.content.0.text"), "\"a\"");
    EXPECT_EQ(events.back().name, "response.cancelled");
}

}  // namespace
}  // namespace di
